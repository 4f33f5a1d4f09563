//! Fits of simulated engines with known parameters.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod async_scheduling;
mod causes;
mod fit;
mod limits;
mod planted;
mod prefix_caching;
mod scenarios;
mod what_if;
