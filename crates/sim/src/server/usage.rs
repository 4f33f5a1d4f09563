//! What an answer counts.

/// Tokens of a prompt and of what came out of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) prompt: usize,
    pub(super) completion: usize,
    /// Of the latter, those of reasoning.
    pub(super) reasoning: usize,
    /// Of the former, those that did not have to be computed.
    pub(super) cached: usize,
    /// Whether the answer says so.
    pub(super) told_cached: bool,
}
