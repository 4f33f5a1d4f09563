//! The files of a dataset's repository that its loader reads.

use super::loader::Loader;
use super::{HfSpec, HfTextSpec, asr, bfcl};
use crate::hub::Needed;

impl HfSpec {
    /// The files to download before rows are read; `None` if the settings are invalid, which sampling then reports.
    pub(crate) fn needed(&self) -> Option<Needed> {
        self.needed_by(Loader::choose(self).ok()?)
    }

    fn needed_by(&self, loader: Loader) -> Option<Needed> {
        let name = self.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&self.path);
        match loader {
            Loader::Bfcl => Some(Needed::Named(bfcl::categories(self).map(bfcl::file_name).collect())),
            // Its rows name audio files in the same directory.
            Loader::Asr if name == asr::WITHOUT_STREAM => Some(Needed::Everything),
            _ => {
                let split = self.split.as_deref().filter(|split| !split.is_empty()).or(loader.split())?;
                Some(Needed::Split { subset: loader.subset(self).map(str::to_owned), split: split.to_owned() })
            }
        }
    }
}

impl HfTextSpec {
    /// The files to download before rows are read.
    pub(crate) fn needed(&self) -> Option<Needed> {
        self.hf.needed_by(Loader::Text)
    }
}
