//! Tests of the scheduler as a whole.

mod async_scheduling;
mod properties;
mod scheduling;
