//! Typed arguments of `tacho serve`: vLLM's names and defaults, before any decision.

mod arrivals;
mod check;
mod classes;
mod composite;
mod conditions;
mod content;
mod dataset;
mod groups;
mod lists;
mod load;
mod media;
mod multi_turn;
mod namespace;
mod notice;
pub(crate) mod points;
mod repeats;
mod replicas;
mod report;
mod saved;
mod sessions;
pub(crate) mod stages;
pub(crate) mod stops;
mod table;
mod tacho;
mod target;
mod telemetry;

pub(crate) use classes::ClassArgs;
use content::ContentArgs;
pub(crate) use dataset::{DatasetArgs, DatasetFlags, FURTHER, SOURCES, TEMPLATE};
pub(crate) use lists::{gap_thresholds, goodput, percentile_list};
use load::LoadArgs;
pub(crate) use multi_turn::MultiTurnFlags;
use report::ReportArgs;
pub(crate) use report::{Destination, Outputs};
pub(crate) use saved::Decided;
pub(crate) use sessions::SessionArgs;
pub(crate) use table::{FLAGS, GROUPS, PREDICT, TABLE, WORKLOAD};
use tacho::TachoArgs;
#[cfg(test)]
pub(crate) use target::BACKENDS;
use target::TargetArgs;
pub(crate) use telemetry::TelemetryArgs;

use tacho_args::{config::Builtin, grammar::Values};
use tacho_client::Task;
use tacho_run::serve::KnownReferences;

use self::stops::StopArgs;
use super::shared::tags::{NEEDS_SERVER, SCREEN, SETS_LENGTH, SETS_LEVEL};
use super::{
    ArgError, error::ArgumentError, help::suggest, shared::history::HistoryArgs, shared::live::LiveArgs,
    shared::ranks::RankArgs,
};

#[derive(Debug, Clone)]
pub(crate) struct ServeArgs {
    pub(crate) target: TargetArgs,
    pub(crate) load: LoadArgs,
    pub(crate) content: ContentArgs,
    pub(crate) dataset: DatasetArgs,
    /// Metrics and result files.
    pub(crate) report: ReportArgs,
    /// Sessions instead of a dataset.
    pub(crate) sessions: SessionArgs,
    pub(crate) replicas: replicas::ReplicaArgs,
    pub(crate) media: media::MediaArgs,
    /// Flags that vLLM does not have.
    pub(crate) tacho: TachoArgs,
    /// Classes of traffic; empty for a run of one kind.
    pub(crate) classes: Vec<ClassArgs>,
    /// The arrival process of each class with its number of requests; empty if they share the schedule.
    arrivals: Vec<(tacho_loadgen::ScheduleSpec, usize)>,
    pub(crate) ranks: RankArgs,
    /// Files next to the result.
    pub(crate) outputs: Outputs,
    /// Stop conditions in addition to the number of requests.
    pub(crate) stops: StopArgs,
    pub(crate) stages: stages::StageArgs,
    pub(crate) repeats: repeats::RepeatArgs,
    pub(crate) points: points::PointArgs,
    /// The name among several runs; `None` for a single run.
    pub(crate) name: Option<String>,
    pub(crate) live: LiveArgs,
    pub(crate) history: HistoryArgs,
    pub(crate) telemetry: TelemetryArgs,
    /// The settings of `--workload`, if its file has them.
    pub(crate) saved: Option<saved::Saved>,
    /// Reference outputs that the runs of one command share.
    pub(crate) references: KnownReferences,
    pub(crate) values: Values,
}

impl ServeArgs {
    fn new(values: Values) -> Result<Self, ArgError> {
        let mut tacho = TachoArgs::from(&values);
        tacho.reset_caches |= tacho.reset_prefix_cache;
        let stops = StopArgs::parse(&values)?;
        let load = stops::filling(LoadArgs::read(&values, &tacho), &stops, &values);
        let stages = stages::StageArgs::read(&values, load.burstiness.value)?;
        let (load, stops) = stages.filling(load, stops);
        let preset = Builtin::of(&values);
        let mut args = ServeArgs {
            target: TargetArgs::parse(&values)?,
            load,
            content: ContentArgs::from(&values),
            dataset: DatasetArgs::from(&values),
            report: ReportArgs::parse(&values)?,
            sessions: SessionArgs::from(&values),
            replicas: replicas::ReplicaArgs::from(&values),
            media: media::MediaArgs::from(&values),
            tacho,
            classes: Vec::new(),
            arrivals: Vec::new(),
            outputs: Outputs::from(&values),
            ranks: RankArgs::from(&values),
            stops,
            stages,
            repeats: repeats::RepeatArgs::from(&values),
            points: points::PointArgs::read(&values)?,
            name: None,
            live: LiveArgs::from(&values),
            history: HistoryArgs::from(&values),
            telemetry: TelemetryArgs::read(&values)?,
            saved: None,
            references: KnownReferences::default(),
            values,
        };
        args.report
            .metadata
            .extend(preset.map(|preset| ("preset".to_owned(), format!("{} v{}", preset.name, preset.version))));
        args.fill_moderate_load();
        args.unabbreviate();
        Ok(args)
    }

    /// The values of `tacho serve` among those of a command that makes several runs and whose table has [`FLAGS`]. The
    /// screen is that command's own.
    pub(crate) fn values_in(values: &Values) -> Result<Values, ArgError> {
        if let Some(flag) = values.first_rejected() {
            let (name, command) = (flag.long(), values.command());
            let text = match () {
                () if flag.has(SETS_LEVEL) => format!("{name}: {command} sets the load of each run: remove it"),
                () if flag.has(SETS_LENGTH) => format!("{name}: {command} sets the length of each run: remove it"),
                () => format!("{name} is for a single run of tacho serve, and {command} makes several: remove it"),
            };
            return Err(ArgumentError::Other { text, hint: suggest::alternative(command, name) }.into());
        }
        let mut serve = Values::defaults(&TABLE);
        serve.take_over(values);
        let screen: Vec<&str> = serve.set_flags().filter(|flag| flag.has(SCREEN)).map(|flag| flag.names[0]).collect();
        screen.into_iter().for_each(|name| serve.forget(name));
        Ok(serve)
    }

    pub(crate) fn read(mut values: Values) -> Result<Self, ArgError> {
        // Commands that map to a benchmark build its words themselves.
        values.check()?;
        let saved = saved::restore(&mut values)?;
        let mut args = ServeArgs { saved, ..Self::new(values)? };
        if let Some(urls) = args.target.base_url.as_mut().filter(|_| !args.tacho.strict_parity) {
            *urls = replicas::expanded(urls)?;
        }
        args.read_classes()?;
        Ok(args)
    }

    /// Checks the values and reads those of classes and stages.
    fn read_classes(&mut self) -> Result<(), ArgError> {
        check::check(self)?;
        self.classes = classes::read(self)?;
        self.arrivals = arrivals::read(self, &self.classes)?;
        if !self.arrivals.is_empty() {
            self.load.num_prompts = self.arrivals.iter().map(|(_, count)| *count as i64).sum();
        }
        self.stages.datasets = classes::of_stages(self)?;
        Ok(self.check_own_conditions()?)
    }

    /// `--log 5` is vLLM's abbreviation of `--logprobs 5`; a directory is not a number.
    fn unabbreviate(&mut self) {
        if let Some(count) = self.tacho.log.as_deref().and_then(|text| text.trim().parse().ok()) {
            self.content.logprobs = self.content.logprobs.or(Some(count));
            self.tacho.log = None;
        }
    }

    pub(crate) fn read_simulated(mut values: Values) -> Result<Self, ArgError> {
        values.check()?;
        if let Some(flag) = values.first_tagged(NEEDS_SERVER) {
            return Err(not_predicted(flag));
        }
        let saved = saved::restore(&mut values)?;
        let mut args = ServeArgs { saved, ..Self::new(values)? };
        args.tacho.sim = true;
        args.read_classes()?;
        if args.tacho.sim_profile.is_none() {
            let names = tacho_engine::Profile::NAMES.join(", ");
            let text = format!("--sim-profile is required: a file of tacho fit, or one of {names}");
            return Err(ArgumentError::other(text).into());
        }
        if args.stages.is_closed_loop() {
            return Err(not_predicted("a concurrency limit in --stages"));
        }
        if args.target.backend().task() == Task::Media {
            return Err(not_predicted("a --backend for speech or images"));
        }
        Ok(args)
    }

    pub(crate) fn is_textless(&self) -> bool {
        self.target.backend().task() != Task::Generation
    }

    /// Whether responses are not streamed.
    pub(crate) fn is_pooling(&self) -> bool {
        self.target.backend().task() == Task::Pooling
    }
}

fn not_predicted(flag: &str) -> ArgError {
    ArgumentError::other(format!(
        "a prediction does not support {flag}, since nothing is sent: remove it, or measure with tacho serve"
    ))
    .into()
}
