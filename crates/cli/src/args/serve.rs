//! What was typed after `tacho serve`, typed: vLLM's names and defaults, no decisions yet.

mod check;
mod composite;
mod content;
mod dataset;
mod groups;
mod load;
mod multi_turn;
mod namespace;
mod notice;
mod own;
pub(crate) mod points;
mod repeats;
mod report;
mod sessions;
pub(crate) mod stops;
mod table;
mod target;
mod telemetry;

pub(crate) use composite::{gap_thresholds, objectives, percentiles};
use content::ContentArgs;
pub(crate) use dataset::{DatasetArgs, DatasetFlags, SPEED_BENCH_SUBSETS};
use load::LoadArgs;
pub(crate) use multi_turn::MultiTurnFlags;
use own::OwnArgs;
pub(crate) use own::timestamp_source;
use report::{OutputFlags, ReportArgs};
pub(crate) use sessions::SessionArgs;
pub(crate) use table::{PREDICT, TABLE};
#[cfg(test)]
pub(crate) use target::BACKENDS;
use target::TargetArgs;
pub(crate) use telemetry::TelemetryArgs;

use tacho_args::grammar::Values;
use tacho_client::Task;

use self::stops::StopArgs;
use super::ArgError;
use super::error::Refusal;
use super::live::LiveArgs;
use super::output::Outputs;
use super::ranks::RankArgs;

/// Flags about a server or the duration of a run: a prediction has neither.
pub(super) const NEEDS_A_SERVER: &[&str] = &[
    "--base-url",
    "--host",
    "--port",
    "--duration",
    "--until",
    "--stop-on-failures",
    "--stop-on-overload",
    "--log",
    "--resume",
    "--live",
    "--live-http",
    "--telemetry",
    "--sim-args",
    "--profile",
    "--probe-request-rate",
    "--reset-prefix-cache",
    "--reset-caches",
    "--rank",
    "--ranks",
    "--rendezvous",
    "--dry-run",
    "--save-workload",
    "--require-trustworthy",
    "--num-warmups",
    "--sweep-max-concurrency",
    "--sweep-request-rate",
    "--compare",
    "--num-runs",
    "--vary-seed",
    "--timeout",
    "--first-token-timeout",
    "--connect-timeout",
    "--retries",
    "--http2",
    "--workers",
    "--timestamps",
    "--grace",
    "--gather",
    "--otlp",
    "--otlp-spans",
    "--metrics-interval",
    "--telemetry-url",
];

/// All flags of `tacho serve`.
#[derive(Debug, Clone)]
pub(crate) struct ServeArgs {
    /// Which server and model.
    pub(crate) target: TargetArgs,
    /// How much, and when.
    pub(crate) load: LoadArgs,
    /// What requests ask for.
    pub(crate) content: ContentArgs,
    /// Where prompts come from.
    pub(crate) dataset: DatasetArgs,
    /// What is computed and written.
    pub(crate) report: ReportArgs,
    /// Sessions in place of a dataset.
    pub(crate) sessions: SessionArgs,
    /// What vLLM does not have.
    pub(crate) own: OwnArgs,
    pub(crate) ranks: RankArgs,
    /// Files next to the result.
    pub(crate) outputs: Outputs,
    /// When the run ends, besides with its requests.
    pub(crate) stops: StopArgs,
    /// How often it is run, and what is looked for in it.
    pub(crate) repeats: repeats::RepeatArgs,
    /// Several loads, one after another.
    pub(crate) points: points::PointArgs,
    /// What it is called among several runs; nothing of a single one.
    pub(crate) name: Option<String>,
    /// What is shown meanwhile.
    pub(crate) live: LiveArgs,
    /// Telemetry sources other than the server.
    pub(crate) telemetry: TelemetryArgs,
    /// What was typed, flag by flag.
    pub(crate) values: Values,
}

impl From<Values> for ServeArgs {
    fn from(values: Values) -> Self {
        let mut own = OwnArgs::from(&values);
        own.reset_caches |= own.reset_prefix_cache;
        let stops = StopArgs::from(&values);
        let mut args = ServeArgs {
            target: TargetArgs::from(&values),
            load: stops::filling(LoadArgs::from(&values), &stops, &values),
            content: ContentArgs::from(&values),
            dataset: DatasetArgs::from(&values),
            report: ReportArgs::from(&values),
            sessions: SessionArgs::from(&values),
            own,
            outputs: OutputFlags::from(&values).into(),
            ranks: RankArgs::from(&values),
            stops,
            repeats: repeats::RepeatArgs::read(&values),
            points: points::PointArgs::read(&values),
            name: None,
            live: LiveArgs::from(&values),
            telemetry: TelemetryArgs::default(),
            values,
        };
        args.unabbreviate();
        args
    }
}

impl ServeArgs {
    /// Reads and checks the values.
    pub(crate) fn read(values: Values) -> Result<Self, ArgError> {
        // Commands that stand for a benchmark make its words themselves.
        values.check()?;
        let telemetry = TelemetryArgs::read(&values)?;
        let args = ServeArgs { telemetry, ..Self::from(values) };
        check::check(&args)?;
        Ok(args)
    }

    /// `--log 5` is upstream's abbreviation of `--logprobs 5`; a directory is not a number.
    fn unabbreviate(&mut self) {
        if let Some(count) = self.own.log.as_deref().and_then(|text| text.trim().parse().ok()) {
            self.content.logprobs = self.content.logprobs.or(Some(count));
            self.own.log = None;
        }
    }

    /// The same for a run that is only simulated.
    pub(crate) fn read_simulated(values: Values) -> Result<Self, ArgError> {
        values.check()?;
        if let Some(&flag) = NEEDS_A_SERVER.iter().find(|flag| values.is_given(flag)) {
            return Err(Refusal::NotPredicted { flag }.into());
        }
        let mut args = Self::from(values);
        args.own.sim = true;
        check::check(&args)?;
        Ok(args)
    }

    /// Whether answers come whole.
    pub(crate) fn is_pooling(&self) -> bool {
        self.target.backend().task() == Task::Pooling
    }
}
