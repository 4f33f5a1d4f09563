//! What is known of a dataset before any of its settings.

use crate::requests::carrier::Need;

/// A dataset. The rows stand in [`DATASETS`](crate::DATASETS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetKind {
    /// The value of `--dataset-name`.
    pub name: &'static str,
    /// Whether `vllm bench serve` has it under this name.
    pub of_vllm: bool,
    /// Which commands that run without a server have it.
    pub offline: Offline,
    /// Where its rows come from.
    pub rows: Rows,
    /// What its requests need of every backend.
    pub needs: Option<Need>,
    /// Whether its rows have times.
    pub times: Times,
    /// Whether it can do without a tokenizer.
    pub works_without_tokenizer: bool,
    /// Whether requests ask the server to ignore end-of-text, since the prompts are not meant to be answered.
    pub ignores_eos: bool,
    /// Whether prompts are re-aligned with the server's tokenizer ([`crate::align`]).
    pub aligns_with_server: bool,
}

/// How offline commands know a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offline {
    /// Not at all.
    No,
    /// With a file only: vLLM's command does not have it.
    WithFile,
    /// As vLLM's command has it or had it, at this place of its list.
    Listed(u8),
}

/// Where rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// They are synthetic, so that `--dataset-path` contradicts them.
    Generated,
    /// From a file or the Hub.
    Read,
    /// From a file, all of it where the number of prompts is not positive.
    ReadWhole,
}

/// Whether rows have times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Never.
    None,
    /// Some files have them; requests go out at them when asked to.
    Some,
    /// Always; requests are sent at them by default.
    All,
}

impl DatasetKind {
    /// A dataset of tacho's that reads a file and asks for nothing; rows say in what they differ.
    pub(crate) const fn named(name: &'static str) -> DatasetKind {
        DatasetKind {
            name,
            of_vllm: false,
            offline: Offline::No,
            rows: Rows::Read,
            needs: None,
            times: Times::None,
            works_without_tokenizer: false,
            ignores_eos: false,
            aligns_with_server: false,
        }
    }

    /// One that vLLM has.
    pub(crate) const fn vllm(name: &'static str) -> DatasetKind {
        DatasetKind { of_vllm: true, ..DatasetKind::named(name) }
    }

    /// Whether it makes its own rows.
    pub fn is_made_up(&self) -> bool {
        self.rows == Rows::Generated
    }
}
