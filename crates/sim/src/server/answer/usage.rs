//! What an answer counts.

/// Tokens of a prompt and of what came out of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) prompt: usize,
    pub(crate) completion: usize,
    /// Of the latter, those of reasoning.
    pub(crate) reasoning: usize,
    /// Of the former, those that did not have to be computed.
    pub(crate) cached: usize,
    /// Whether the answer says so.
    pub(crate) told_cached: bool,
}
