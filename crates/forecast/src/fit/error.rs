//! Why runs have no fit, and what a good one is.

pub(super) const MIN_STEPS: usize = 50;
/// Largest median relative error of held-out steps of a good fit.
pub const MAX_HELD_OUT_ERROR: f64 = 0.1;

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FitError {
    #[error("the result has no list {name:?}; save it with --save-result --save-detailed")]
    NoList { name: &'static str },
    #[error(
        "an event carries {per_event:.1} tokens on average, so that steps cannot be separated; \
         restart the server with --stream-interval 1 and without speculative decoding"
    )]
    Bundled { per_event: f64 },
    #[error(
        "{steps} complete steps were found, at least {MIN_STEPS} are needed; measure longer, or at more concurrencies"
    )]
    TooFew { steps: usize },
    #[error("the steps are too similar to separate their costs; measure at several concurrencies and prompt lengths")]
    Alike,
}
