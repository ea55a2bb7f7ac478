//! The end of a load of the catalog, however it comes.

use super::Shared;
use super::catalogs::Shelf;
use crate::catalog;
use crate::session::Answer;
use std::sync::Arc;

/// Sees to it that a load that was begun ends, whatever becomes of the session.
pub(super) struct LoadGuard<'a>(pub Option<&'a Shelf>);

impl LoadGuard<'_> {
    /// Shelves what the server told; gives the new snapshot.
    pub fn finish(mut self, answer: Answer, version: u64, shared: &Shared) -> Option<Arc<catalog::Catalog>> {
        let shelf = self.0.take()?;
        let reason = match answer {
            Answer::Told(_, text) => match shelf.read(&text, version, &shared.rules) {
                Ok(catalog) => {
                    shelf.loaded(Arc::clone(&catalog));
                    shared.counters.catalog_loads_total.increment();
                    let now = jiff::Timestamp::now().as_second();
                    shared.counters.catalog_loaded_at.set(now.try_into().unwrap_or_default());
                    return Some(catalog);
                }
                Err(error) => error.to_string(),
            },
            Answer::Failed(_, reason) => reason,
        };
        shelf.failed();
        shared.counters.catalog_errors_total.increment();
        tracing::warn!(reason, "the catalog could not be read: nothing is inspected until it can");
        None
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        if let Some(shelf) = self.0 {
            shelf.abandoned();
        }
    }
}
