//! How far the end of the proxy has come. Knows no session: each asks for itself.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// How long a client that has just connected may take to begin with what it came for, once the proxy is being
/// shut down: whoever connects for one transaction does not fail.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// How long farewells may take.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(3);

/// The two steps of an orderly end.
#[derive(Debug, Default)]
pub(crate) struct Shutdown {
    /// Nobody is let in any more; who is in leaves at the end of a transaction.
    pub draining: Step,
    /// Everybody leaves.
    pub ending: Step,
}

/// Something that happens once, and that every session may be waiting for.
#[derive(Debug, Default)]
pub(crate) struct Step {
    taken: AtomicBool,
    notify: Notify,
}

impl Step {
    pub fn take(&self) {
        self.taken.store(true, Ordering::SeqCst);
        self.notify.notify_waiters();
    }

    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// Waits for it. Sessions wait beside their work and look here whenever they are woken, so looking takes
    /// no lock unless the waker is a new one.
    pub async fn taken(&self) {
        let notified = self.notify.notified();
        tokio::pin!(notified);
        let mut known: Option<Waker> = None;
        poll_fn(|context| {
            if self.is_taken() {
                return Poll::Ready(());
            }
            if known.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                return Poll::Pending;
            }
            known = Some(context.waker().clone());
            notified.as_mut().poll(context)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn whoever_waits_and_whoever_comes_late_learns_of_a_step() {
        let step = Arc::new(Step::default());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let step = Arc::clone(&step);
                tokio::spawn(async move { step.taken().await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(!step.is_taken() && waiting.iter().all(|task| !task.is_finished()));
        step.take();
        for task in waiting {
            task.await.unwrap();
        }
        step.taken().await;
    }

    #[tokio::test]
    async fn a_step_is_noticed_after_many_looks() {
        let step = Step::default();
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        let waiting = async {
            // Woken by the channel again and again, as a session is by its sockets.
            tokio::select! {
                () = step.taken() => {}
                () = async { while receiver.recv().await.is_some() {} } => {}
            }
        };
        let taking = async {
            for _ in 0..10 {
                sender.send(()).unwrap();
                tokio::task::yield_now().await;
            }
            step.take();
            sender.closed().await;
        };
        let both = async {
            tokio::select! { () = waiting => {}, () = taking => {} }
        };
        tokio::time::timeout(Duration::from_secs(10), both).await.unwrap();
    }
}
