//! One table: the value of `--dataset-name` and what the dataset asks for.

/// What is known of a dataset before any of its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetEntry {
    /// The value of `--dataset-name`.
    pub name: &'static str,
    /// Whether a generation server is told to ignore end-of-text, since the prompts are not meant to be answered.
    pub ignores_eos: bool,
    /// Whether prompts are re-aligned with the server's tokenizer ([`crate::align`]).
    pub aligns_with_server: bool,
    /// Whether it makes its own data, so that `--dataset-path` contradicts it.
    pub synthetic: bool,
}

/// In vLLM's order, then those that it does not have.
const CATALOG: &[DatasetEntry] = &[
    entry("sharegpt", false, false, false),
    entry("burstgpt", false, false, false),
    entry("random", true, true, true),
    entry("random-mm", true, false, true),
    entry("random-rerank", false, false, true),
    entry("hf", false, false, false),
    entry("custom", false, false, false),
    entry("custom_audio", false, false, false),
    entry("custom_image", false, false, false),
    entry("prefix_repetition", false, true, true),
    entry("spec_bench", false, false, false),
    entry("speed_bench", false, false, false),
    entry("timed_trace", true, false, false),
    entry("generated-shared-prefix", true, false, true),
    entry("mooncake", true, false, false),
    entry("openai", false, false, false),
];

const fn entry(name: &'static str, ignores_eos: bool, aligns_with_server: bool, synthetic: bool) -> DatasetEntry {
    DatasetEntry { name, ignores_eos, aligns_with_server, synthetic }
}

/// The datasets that can be sampled.
pub fn catalog() -> &'static [DatasetEntry] {
    CATALOG
}
