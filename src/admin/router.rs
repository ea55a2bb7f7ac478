//! What is answered to which path. Reads, and changes nothing.

use super::{Live, metrics};
use crate::live::health::Stage;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use std::time::Instant;

/// Every path.
pub(super) fn router(live: Live) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .fallback(elsewhere)
        .with_state(live)
}

async fn metrics(State(live): State<Live>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&live.counters.readings()))
}

/// Whether the process should go on: a process that says no is better started anew.
async fn livez(State(live): State<Live>) -> (StatusCode, &'static str) {
    if live.health.is_alive(Instant::now()) {
        (StatusCode::OK, "alive\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "stuck: the loop that accepts clients does not turn\n")
    }
}

/// Whether new clients should come here. Whether the database answers is not asked: it would take every untwin in
/// front of it out of service at once.
async fn readyz(State(live): State<Live>) -> (StatusCode, String) {
    let no = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"));
    match live.health.stage() {
        Stage::Starting => no("starting".to_owned()),
        Stage::Serving => (StatusCode::OK, "ready\n".to_owned()),
        Stage::Leaving => no("about to end; clients are still let in".to_owned()),
        Stage::Draining => no(format!("ending; open sessions: {}", live.counters.sessions_open.value())),
    }
}

async fn elsewhere() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "untwin answers at /metrics, /livez and /readyz\n")
}
