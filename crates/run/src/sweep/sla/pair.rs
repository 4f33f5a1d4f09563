//! One pair of a server set and a client set.

use std::path::PathBuf;

use tacho_core::event::Load;
use tacho_core::json::Dict;
use tacho_decide::search::UNLIMITED;

use super::{SlaPlan, level_directory};
use crate::experiment::{Archive, ParamSet, run_file};
use crate::sweep::workload::{LoadVariable, dataset_size};

/// A server set and a client set.
pub(super) struct Pair<'a> {
    pub(super) plan: &'a SlaPlan,
    pub(super) serve: &'a ParamSet,
    pub(super) bench: &'a ParamSet,
    pub(super) base: PathBuf,
}

impl Pair<'_> {
    /// The largest load: no limit on the rate, or all prompts at a time.
    pub(super) fn top(&self) -> f64 {
        match self.plan.variable {
            LoadVariable::RequestRate => UNLIMITED,
            LoadVariable::MaxConcurrency => self.prompts() as f64,
        }
    }

    pub(super) fn prompts(&self) -> u64 {
        u64::try_from(dataset_size(&self.plan.sweep.bench_cmd, self.bench)).unwrap_or(1).max(1)
    }

    /// What is varied.
    pub(super) fn load(&self) -> Load {
        Load { key: self.plan.variable.key(), unit: self.plan.variable.unit() }
    }

    /// Levels with results on disk, in order.
    pub(super) fn stored(&self, archive: &dyn Archive) -> Vec<f64> {
        let prefix = format!("{}=", self.plan.variable.key());
        let mut levels: Vec<f64> = archive
            .directories(&self.base)
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix)?.parse().ok())
            .filter(|level| archive.result(&run_file(&level_directory(self.plan, &self.base, *level), 0)).is_some())
            .collect();
        levels.sort_by(f64::total_cmp);
        levels
    }

    /// All results of the pair, level by level.
    pub(super) fn rows(&self, archive: &dyn Archive) -> Vec<Dict> {
        let mut rows = Vec::new();
        for level in self.stored(archive) {
            let directory = level_directory(self.plan, &self.base, level);
            rows.extend((0..).map_while(|number| archive.result(&run_file(&directory, number))));
        }
        rows
    }
}
