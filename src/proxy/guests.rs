//! Who is in. Knows numbers, not what the connections do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Every connection of a client, from accept to close.
#[derive(Debug, Default)]
pub(crate) struct Guests {
    count: AtomicUsize,
    left: Notify,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Guest(Arc<Guests>);

impl Guests {
    pub fn enter(self: &Arc<Self>) -> Guest {
        self.count.fetch_add(1, Ordering::SeqCst);
        Guest(Arc::clone(self))
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until nobody is in.
    pub async fn all_gone(&self) {
        loop {
            let left = self.left.notified();
            if self.count() == 0 {
                return;
            }
            left.await;
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.left.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_one_to_leave_is_noticed() {
        let guests = Arc::new(Guests::default());
        guests.all_gone().await;
        let (one, two) = (guests.enter(), guests.enter());
        let waiting = tokio::spawn({
            let guests = Arc::clone(&guests);
            async move { guests.all_gone().await }
        });
        drop(one);
        tokio::task::yield_now().await;
        assert!(guests.count() == 1 && !waiting.is_finished());
        drop(two);
        waiting.await.unwrap();
    }
}
