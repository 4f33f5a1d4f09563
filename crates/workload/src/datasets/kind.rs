//! Static properties of a dataset.

use crate::requests::carrier::Need;

/// A dataset. The rows are in [`DATASETS`](crate::DATASETS).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DatasetKind {
    pub name: &'static str,
    /// Whether `vllm bench serve` has it under this name.
    pub of_vllm: bool,
    pub offline: Offline,
    pub rows: Rows,
    /// What its requests require of every backend.
    pub needs: Option<Need>,
    pub times: Times,
    pub works_without_tokenizer: bool,
    /// Whether requests set `ignore_eos`, because the prompts have no natural response.
    pub ignores_eos: bool,
    /// Whether output lengths are recorded, or there is no output: no flag sets them.
    pub fixed_output: bool,
    /// Whether prompts are re-aligned with the server's tokenizer ([`crate::align`]).
    pub aligns_with_server: bool,
}

/// Support of a dataset by offline commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offline {
    No,
    /// Only with a file: vLLM's command does not have it.
    WithFile,
    /// Supported as in vLLM's command, at this position of its list.
    Listed(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// Synthetic; `--dataset-path` is refused.
    Generated,
    /// From a file or the Hub.
    Read,
    /// From a file; all rows if the number of prompts is not positive.
    ReadWhole,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    None,
    /// Some files have times, which are used on request.
    Some,
    /// All rows have times, which are used by default.
    All,
}

impl DatasetKind {
    /// A dataset of tacho's own that reads a file and has no requirements; rows override what differs.
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
            fixed_output: false,
            aligns_with_server: false,
        }
    }

    pub(crate) const fn vllm(name: &'static str) -> DatasetKind {
        DatasetKind { of_vllm: true, ..DatasetKind::named(name) }
    }

    pub fn is_made_up(&self) -> bool {
        self.rows == Rows::Generated
    }
}
