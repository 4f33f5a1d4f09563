//! Settings of a replay.

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReplaySpec {
    /// Whether requests are chats; otherwise prompts are token IDs or texts.
    pub chat: bool,
    /// Whether the server stores the history and requests only name the response that they follow.
    pub server_history: bool,
    /// Output tokens if the file has none.
    pub output_len: u64,
    /// Seed of the blocks' tokens.
    pub seed: u32,
}
