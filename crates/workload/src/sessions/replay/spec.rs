//! What a replay is to be.

/// What a replay is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySpec {
    /// Whether requests are chats; prompts are token ids or texts otherwise.
    pub chat: bool,
    /// Whether the server keeps the history and requests only name the answer that they follow.
    pub server_history: bool,
    /// Tokens to generate where the file does not say.
    pub output_len: u64,
    /// Names the blocks' tokens.
    pub seed: u32,
}
