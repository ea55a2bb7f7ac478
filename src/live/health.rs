//! How far the process has come, and whether it still turns. Knows no socket and no clock.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A part of the process's life. Later ones never become earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It does not listen yet.
    Starting,
    /// Clients are let in.
    Serving,
    /// Clients are still let in, and should go elsewhere: it is about to end.
    Leaving,
    /// Nobody is let in any more.
    Draining,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Starting, Self::Serving, Self::Leaving, Self::Draining];
}

/// The life of a process, shared by `Arc`, never global.
#[derive(Debug)]
pub struct Health {
    stage: AtomicU8,
    /// When the loop that accepts clients last turned. Locked for a moment.
    beat: Mutex<Instant>,
}

impl Health {
    /// How often [`Self::beat`] is to be called.
    pub const PULSE: Duration = Duration::from_secs(1);
    /// After so long without a beat the process counts as stuck.
    pub const PATIENCE: Duration = Duration::from_secs(30);

    /// A process that starts `now`.
    #[must_use]
    pub fn starting(now: Instant) -> Self {
        Self { stage: AtomicU8::new(Stage::Starting as u8), beat: Mutex::new(now) }
    }

    /// A stage begins; an earlier one than there is changes nothing.
    pub fn enter(&self, stage: Stage) {
        self.stage.fetch_max(stage as u8, Ordering::SeqCst);
    }

    /// The stage now.
    #[must_use]
    pub fn stage(&self) -> Stage {
        let stage = usize::from(self.stage.load(Ordering::SeqCst));
        Stage::ALL.get(stage).copied().unwrap_or(Stage::Draining)
    }

    /// The loop that accepts clients turns, `now`.
    pub fn beat(&self, now: Instant) {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether it has turned lately.
    #[must_use]
    pub fn is_alive(&self, now: Instant) -> bool {
        let beat = *self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(beat) < Self::PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_never_left_for_an_earlier_one() {
        let health = Health::starting(Instant::now());
        let mut reached = Stage::Starting;
        for stage in [Stage::Starting, Stage::Serving, Stage::Draining, Stage::Leaving, Stage::Serving] {
            health.enter(stage);
            reached = reached.max(stage);
            assert_eq!(health.stage(), reached);
        }
    }

    #[test]
    fn a_process_that_does_not_beat_is_stuck() {
        let start = Instant::now();
        let health = Health::starting(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(health.is_alive(at(29)) && !health.is_alive(at(30)));
        health.beat(at(40));
        assert!(health.is_alive(at(69)) && !health.is_alive(at(70)));
        // A clock that was read before the beat.
        assert!(health.is_alive(start));
    }
}
