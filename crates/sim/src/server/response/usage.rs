//! Token usage of a response.

/// Tokens of the prompt and of the output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
    /// Reasoning tokens of the output.
    pub(crate) reasoning: usize,
    /// Cached tokens of the prompt.
    pub(crate) cached: usize,
    pub(crate) reports_cached: bool,
}
