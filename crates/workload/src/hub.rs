//! The Hugging Face Hub: resolves IDs to local directories. Downloads missing files into the cache of the Python
//! library, in its layout, so that both share their downloads.

mod error;
mod fetch;
pub(crate) mod http;
mod modelscope;
mod settings;
mod store;
mod tokenizer_files;
mod wire;

use std::path::{Path, PathBuf};

use tacho_core::{EventSink, RunEvent};

pub use error::HubError;
pub use settings::Hub;

use crate::sources::hub::snapshot;
use crate::sources::layout::{Wanted, choose};
use store::Store;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Dataset,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Repo<'r> {
    kind: Kind,
    id: &'r str,
    revision: &'r str,
}

/// The files of a dataset that a loader reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Needed {
    /// The files with a split's rows, and the dataset card that lists them.
    Split {
        /// The configuration, if named.
        subset: Option<String>,
        split: String,
    },
    /// The files with these names, as far as they exist.
    Named(Vec<String>),
    Everything,
}

impl Hub {
    /// The directory of a tokenizer: a local path, or the model's files in the cache, downloaded if necessary.
    pub fn tokenizer(&self, name: &str, revision: Option<&str>, sink: &dyn EventSink) -> Result<PathBuf, HubError> {
        if Path::new(name).exists() {
            return Ok(snapshot(Path::new(name)).unwrap_or_else(|| PathBuf::from(name)));
        }
        if let Some(modelscope) = &self.modelscope {
            return modelscope.directory(name);
        }
        let repo = Repo { kind: Kind::Model, id: name, revision: revision.unwrap_or(MAIN) };
        let directory = self.directory(&repo, sink, &|_, names| Ok(tokenizer_files::of(names)))?;
        if tokenizer_files::any_vocabulary(&directory) {
            Ok(directory)
        } else {
            Err(HubError::NoTokenizer { id: name.to_owned() })
        }
    }

    /// Whether a name denotes the built-in tokenizer: GPT-2's, or the simulator's model, unless a path or the cache
    /// provides another.
    pub fn is_builtin(&self, name: &str) -> bool {
        let repo = Repo { kind: Kind::Model, id: name, revision: MAIN };
        BUILTIN.contains(&name) && !Path::new(name).exists() && Store::new(&self.cache, &repo).cached().is_none()
    }

    /// Downloads the files of a dataset into the cache; does nothing for a local directory or if nothing is needed.
    pub(crate) fn fetch_dataset(&self, id: &str, needed: Option<Needed>, sink: &dyn EventSink) -> Result<(), HubError> {
        let Some(needed) = needed.filter(|_| !Path::new(id).exists()) else { return Ok(()) };
        let repo = Repo { kind: Kind::Dataset, id, revision: MAIN };
        self.directory(&repo, sink, &|card, names| dataset_files(&needed, Path::new(id), card, names)).map(|_| ())
    }

    /// A repository's directory in the cache, with the files selected from the listing.
    fn directory(&self, repo: &Repo<'_>, sink: &dyn EventSink, files: &Chooser<'_>) -> Result<PathBuf, HubError> {
        if !is_id(repo.id) {
            return Err(HubError::NeitherPathNorId { name: repo.id.to_owned(), what: repo.kind.flag() });
        }
        let store = Store::new(&self.cache, repo);
        if self.offline {
            return store
                .cached()
                .ok_or_else(|| HubError::Offline { id: repo.id.to_owned(), looked_for: store.reference() });
        }
        match self.download(repo, &store, sink, files) {
            Err(error) if error.may_use_cache() => match store.cached() {
                Some(directory) => {
                    sink.event(RunEvent::warning(format!("{}; using what the cache has of it", one_line(&error))));
                    Ok(directory)
                }
                None => Err(error),
            },
            done => done,
        }
    }
}

/// Names of the built-in tokenizer.
const BUILTIN: [&str; 3] = ["gpt2", "openai-community/gpt2", "tacho-sim"];

/// The default branch.
const MAIN: &str = "main";

/// Selects files to download, given the card's text (empty for models) and all file names of the repository.
type Chooser<'c> = dyn Fn(&str, &[String]) -> Result<Vec<String>, HubError> + 'c;

fn dataset_files(needed: &Needed, dataset: &Path, card: &str, names: &[String]) -> Result<Vec<String>, HubError> {
    let mut files = match needed {
        Needed::Everything => names.to_vec(),
        Needed::Named(wanted) => names.iter().filter(|name| wanted.contains(name)).cloned().collect(),
        Needed::Split { subset, split } => {
            let wanted = Wanted { subset: subset.as_deref(), split };
            choose(dataset, card, names, &wanted).map_err(|reason| HubError::Layout { source: Box::new(reason) })?
        }
    };
    files.extend(names.iter().find(|name| *name == CARD && !files.contains(name)).cloned());
    Ok(files)
}

/// The card of a dataset.
const CARD: &str = "README.md";

impl Kind {
    /// Used in API URLs and in directory names.
    fn plural(self) -> &'static str {
        match self {
            Kind::Model => "models",
            Kind::Dataset => "datasets",
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Kind::Model => "tokenizer",
            Kind::Dataset => "dataset-path",
        }
    }
}

/// Whether this can be an ID: a name, or an owner and a name.
fn is_id(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    };
    name.split('/').count() <= 2 && name.split('/').all(part)
}

fn one_line(error: &HubError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_one_or_two_plain_names() {
        assert!(is_id("gpt2") && is_id("meta-llama/Llama-3.1-8B") && is_id("a/b_c.d"));
        for name in ["", "/models/x", "./x", "../x", "a/b/c", "a//b", "a b", "a/", "-x", "org/.hidden"] {
            assert!(!is_id(name), "{name:?}");
        }
    }

    #[test]
    fn files_of_a_split_come_with_the_card() {
        let dataset = Path::new("org/data");
        let names: Vec<String> =
            ["README.md", "data/train-0.parquet", "data/test-0.parquet", "big.bin"].map(str::to_owned).into();
        let split = Needed::Split { subset: None, split: "test".to_owned() };
        assert_eq!(dataset_files(&split, dataset, "", &names).unwrap(), ["data/test-0.parquet", "README.md"]);
        let named = Needed::Named(vec!["big.bin".to_owned(), "none.json".to_owned()]);
        assert_eq!(dataset_files(&named, dataset, "", &names).unwrap(), ["big.bin", "README.md"]);
        assert_eq!(dataset_files(&Needed::Everything, dataset, "", &names).unwrap(), names);
        let missing = Needed::Split { subset: None, split: "validation".to_owned() };
        assert!(matches!(dataset_files(&missing, dataset, "", &names), Err(HubError::Layout { .. })));
    }
}
