//! Lists of dataset names, derived from the table.

use crate::datasets::DATASETS;
use crate::datasets::kind::{DatasetKind, Offline};

/// The datasets of `serve`, vLLM's first.
pub const SERVE_NAMES: &[&str] = &names::<{ DATASETS.len() }>();
/// Number of [`SERVE_NAMES`] that are vLLM's.
pub const SERVE_NAMES_OF_VLLM: usize = count(&Pick::Vllm);
/// The datasets of offline commands: those that vLLM's command lists, in its order, then those that require a file.
pub const OFFLINE_NAMES: &[&str] = &offline_names::<{ OFFLINE_NAMES_OF_VLLM + count(&Pick::WithFile) }>();
/// Number of [`OFFLINE_NAMES`] that do not require a file.
pub const OFFLINE_NAMES_OF_VLLM: usize = count(&Pick::Listed);

enum Pick {
    Vllm,
    Listed,
    WithFile,
}

const fn count(pick: &Pick) -> usize {
    let (mut at, mut found) = (0, 0);
    while at < DATASETS.len() {
        let kind = &DATASETS[at];
        found += match pick {
            Pick::Vllm => kind.of_vllm,
            Pick::Listed => matches!(kind.offline, Offline::Listed(_)),
            Pick::WithFile => matches!(kind.offline, Offline::WithFile),
        } as usize;
        at += 1;
    }
    found
}

const fn names<const N: usize>() -> [&'static str; N] {
    let (mut names, mut at) = ([""; N], 0);
    while at < N {
        names[at] = DATASETS[at].name;
        at += 1;
    }
    names
}

const fn offline_names<const N: usize>() -> [&'static str; N] {
    let (mut names, mut at, mut next) = ([""; N], 0, OFFLINE_NAMES_OF_VLLM);
    while at < DATASETS.len() {
        let kind = &DATASETS[at];
        match kind.offline {
            Offline::Listed(index) => names[index as usize] = kind.name,
            Offline::WithFile => {
                names[next] = kind.name;
                next += 1;
            }
            Offline::No => {}
        }
        at += 1;
    }
    names
}

pub fn dataset(name: &str) -> Option<&'static DatasetKind> {
    DATASETS.iter().find(|kind| kind.name == name)
}
