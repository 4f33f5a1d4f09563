//! A bundle that was opened: unpacked, with its record read as that of any log or result.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use tacho_args::Values;
use tacho_core::json::{Dict, Value};
use tacho_core::{Timestamp, files::read_data};
use tacho_decide::verify::{Plan, RowAudit, SeenRow};
use tacho_record::RunRecord;
use tacho_record::bundle::{Bundle, LOG, RESULT, WORKLOAD};
use tacho_record::restored::{provenance, restored};
use tacho_report::results;
use tacho_rowlog::Stored;
use tacho_run::rebuild::{Changes, rebuild};
use tacho_workload::hub::Hub;
use tempfile::TempDir;

use super::plan::{Recipe, Source, recorded};
use crate::{commands::serve::log::of_command, commands::serve::with_window, exit::shown as named};

/// The Hub's cache: nothing in a bundle makes this machine download.
pub(super) fn offline_hub() -> Hub {
    Hub::from_variables(|name| if name == "HF_HUB_OFFLINE" { Some("1".to_owned()) } else { std::env::var(name).ok() })
}

/// The record of a log, as `tacho report` computes it.
pub(super) fn of_log(path: &Path) -> anyhow::Result<RunRecord> {
    let run = rebuild(path, &Changes::default(), &offline_hub(), &()).with_context(|| named(path))?;
    Ok(match of_command(&run.command) {
        Some(args) => with_window(&args, run.record),
        None => run.record,
    })
}

pub(super) struct Opened {
    pub(super) bundle: Bundle,
    directory: TempDir,
    /// The result that it states.
    pub(super) stated: Dict,
    /// What its rows give.
    pub(super) record: RunRecord,
}

impl Opened {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || named(path);
        if !path.exists() {
            bail!("{} does not exist: pass a file of tacho bundle", named(path));
        }
        let bytes = read_data(path).with_context(|| format!("cannot read {}", named(path)))?;
        let bundle = Bundle::read(&bytes).with_context(name)?;
        let directory = tempfile::tempdir()?;
        bundle.unpack(directory.path()).context("cannot unpack the bundle")?;
        if bundle.member(RESULT).is_none() {
            bail!("{}: it is not a bundle: {RESULT} is missing", named(path));
        }
        let dicts = results::read(&directory.path().join(RESULT)).with_context(name)?;
        let [stated] = <[Dict; 1]>::try_from(dicts).map_err(|all| anyhow!("{}: {} results", named(path), all.len()))?;
        let record = match bundle.has_log() {
            true => of_log(&directory.path().join(LOG)).with_context(name)?,
            false => {
                restored(&stated, |_| ())
                    .with_context(name)?
                    .with_context(|| format!("{}: it has no rows", named(path)))?
                    .record
            }
        };
        Ok(Opened { bundle, directory, stated, record })
    }

    pub(super) fn log(&self) -> Option<anyhow::Result<Stored>> {
        let path = self.directory.path().join(LOG);
        self.bundle.has_log().then(|| Ok(Stored::open(&path)?))
    }

    pub(super) fn digest(&self) -> Option<String> {
        Some(self.stated.get("tacho")?.get("workload")?.as_str()?.to_owned())
    }

    fn command(&self) -> Option<Values> {
        provenance(&self.stated).command.and_then(|command| recorded(&command).ok())
    }

    /// Whether the run was one of the built-in simulator with its tokenizer.
    pub(super) fn is_builtin(&self) -> bool {
        self.command().is_some_and(|values| values.is_set("--sim") && !values.is_set("--tokenizer"))
    }

    /// Whether the run had a time after which no request was sent.
    pub(super) fn has_duration(&self) -> bool {
        self.command().is_some_and(|values| values.is_set("--duration"))
    }

    pub(super) fn workload(&self) -> Option<PathBuf> {
        self.bundle.member(WORKLOAD).map(|_| self.directory.path().join(WORKLOAD))
    }

    pub(super) fn recipe(&self) -> anyhow::Result<Source> {
        let model = self.stated.get("model_id").and_then(Value::as_str).unwrap_or_default();
        Ok(Source::Recipe(Box::new(Recipe::of(&provenance(&self.stated), model)?)))
    }

    /// Checks all rows, those of the log if there is one.
    pub(super) fn audit<'p>(&self, plan: Option<&'p Plan>) -> anyhow::Result<RowAudit<'p>> {
        let mut audit = RowAudit::new(plan).of_ranks(&self.record.measured.ranks);
        match self.log().transpose()? {
            Some(stored) => {
                let origin = stored.segments().first().map_or(Timestamp::ZERO, |first| first.origin().timestamp);
                stored.each(|row| audit.take(SeenRow::of_log(&row.request, &row.observation, origin)))?;
            }
            None => {
                let samples = &self.record.measured.samples;
                // Lists have no origin: that of the plan, or the first scheduled time.
                let due = |index: usize| plan.and_then(|plan| plan.requests.get(index)?.due).unwrap_or(0.0);
                let first = samples.iter().map(|sample| sample.scheduled - due(sample.index)).reduce(f64::min);
                let origin = first.unwrap_or(0.0);
                samples.iter().for_each(|sample| audit.take(SeenRow::of_sample(&sample, origin)));
            }
        }
        Ok(audit)
    }
}
