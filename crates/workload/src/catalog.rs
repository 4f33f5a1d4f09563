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

const CATALOG: &[DatasetEntry] = &[
    DatasetEntry { name: "random", ignores_eos: true, aligns_with_server: true, synthetic: true },
    DatasetEntry { name: "random-rerank", ignores_eos: false, aligns_with_server: false, synthetic: true },
    DatasetEntry { name: "prefix_repetition", ignores_eos: false, aligns_with_server: true, synthetic: true },
];

/// The datasets that can be sampled.
pub fn catalog() -> &'static [DatasetEntry] {
    CATALOG
}
