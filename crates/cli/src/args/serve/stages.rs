//! `--stages`: load that changes during the run, as a compact text, a file, or entries of `--config`.
//!
//! A stage is `NAME:LENGTH@LOAD [OPTION=VALUE ...]`; commas separate stages. In a file it is a mapping.

mod grammar;

use std::time::Duration;

use tacho_args::declare::*;
use tacho_core::json::Dict;
use tacho_loadgen::{Stage, Stages};

use super::{ClassArgs, LoadArgs, ServeArgs, groups::LOAD, stops::StopArgs};
use crate::args::error::ArgumentError;
use crate::args::shared::tags::{PER_CLASS, SETS_LEVEL, SETS_LOAD, SHAPES_LOAD};

pub(crate) const FLAG: &str = "--stages";
pub(super) const MAX_REQUESTS: usize = 10_000_000;

flags! {
    StageFlags {
        FLAGS [
            stages: Option<Vec<String>> = tacho(&[FLAG], OneOrMore, "STAGES", Unset, &LOAD,
                "Change the load during the run: NAME:LENGTH@LOAD, separated by commas, or a YAML or JSON file. LENGTH is 30s, 5m, 1h or \
                 200r (requests). LOAD is a rate (5), a ramp (5..40), steps (5..40/4), a sine (mean~amplitude/period: 20~15/60s), or a \
                 concurrency limit (c32). Options of a stage: burstiness=, input_len=, output_len=, \
                 and flags of its dataset, such as dataset-name=.").tagged(PER_CLASS | SETS_LOAD | SHAPES_LOAD | SETS_LEVEL).excludes(&[
                    "--strict-parity", "--num-prompts", "--request-rate", "--ramp-up-strategy", "--ramp-up-start-rps",
                    "--ramp-up-end-rps", "--duration", "--until", "--workload", "--sessions", "--multi-turn",
                    "--sweep-max-concurrency", "--sweep-request-rate", "--steady-state-threshold", "--steady-state-min-window",
                ]);
        ]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StageArg {
    pub(crate) stage: Stage,
    pub(crate) lengths: [Option<String>; 2],
    /// Flags of its dataset and requests, by name without dashes.
    pub(crate) flags: Dict,
}

impl StageArg {
    fn varies_requests(&self) -> bool {
        self.lengths.iter().any(Option::is_some) || !self.flags.is_empty()
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct StageArgs {
    list: Vec<StageArg>,
    pub(crate) stages: Option<Stages>,
    /// The stages as classes, if one has a dataset of its own.
    pub(crate) datasets: Vec<ClassArgs>,
}

impl StageArgs {
    pub(super) fn read(values: &Values, burstiness: f64) -> Result<Self, ArgumentError> {
        let Some(words) = StageFlags::from(values).stages else { return Ok(StageArgs::default()) };
        let list = grammar::read(&words, burstiness)?;
        let stages = Stages::new(list.iter().map(|arg| arg.stage.clone()).collect());
        let stages = stages.map_err(|error| ArgumentError::other(format!("--stages: {error}")))?;
        Ok(StageArgs { list, stages: Some(stages), datasets: Vec::new() })
    }

    /// Whether each stage is a concurrency limit.
    pub(crate) fn is_closed_loop(&self) -> bool {
        self.limit().is_some()
    }

    fn limit(&self) -> Option<usize> {
        self.stages.as_ref().and_then(Stages::max_limit)
    }

    /// The smallest concurrency limit, with the name of its stage.
    pub(crate) fn smallest_limit(&self) -> Option<(usize, &str)> {
        let spans = self.stages.as_ref()?.spans().iter();
        spans.filter_map(|span| Some((span.limit?, span.name.as_str()))).min_by_key(|found| found.0)
    }

    /// Sets the number of requests, or the concurrency limit and the duration.
    pub(super) fn filling(&self, mut load: LoadArgs, mut stops: StopArgs) -> (LoadArgs, StopArgs) {
        if let Some(stages) = &self.stages {
            match self.limit() {
                Some(limit) => {
                    load.max_concurrency = Some(limit);
                    stops.duration = Duration::try_from_secs_f64(stages.seconds()).ok();
                }
                None => load.num_prompts = stages.requests() as i64,
            }
        }
        (load, stops)
    }

    /// The lengths of each stage: its requests and the texts of its distributions. Empty without stages, and if stages
    /// have datasets, which then have the lengths.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (usize, &[Option<String>; 2])> {
        let own = self.with_requests().filter(|_| !self.have_datasets());
        own.map(|(arg, requests)| (requests, &arg.lengths))
    }

    pub(super) fn with_requests(&self) -> impl Iterator<Item = (&StageArg, usize)> {
        let spans = self.stages.iter().flat_map(|stages| stages.spans());
        self.list.iter().zip(spans.map(|span| span.requests))
    }

    pub(super) fn have_datasets(&self) -> bool {
        self.list.iter().any(|arg| !arg.flags.is_empty())
    }

    /// Whether a stage has lengths or a dataset of its own.
    pub(super) fn vary_requests(&self) -> bool {
        self.list.iter().any(StageArg::varies_requests)
    }

    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), ArgumentError> {
        let Some(stages) = &self.stages else { return Ok(()) };
        let closed = self.is_closed_loop();
        let limited = closed && args.values.is_set("--max-concurrency");
        let clash = limited.then_some("--max-concurrency").or(args.self_timed().then_some("--self-timed"));
        if let Some(other) = clash {
            return Err(ArgumentError::Together { flag: FLAG, other });
        }
        if stages.requests() > MAX_REQUESTS {
            let requests = stages.requests();
            let text = format!("--stages: they send {requests} requests: use at most {MAX_REQUESTS}");
            return Err(ArgumentError::other(text));
        }
        let own = self.list.iter().find(|arg| arg.varies_requests());
        match own {
            Some(arg) if closed => Err(ArgumentError::other(format!(
                "--stages: stage {:?} has its own lengths or dataset, but which requests a concurrency limit sends is not known \
                 in advance: remove them, or use a rate",
                arg.stage.name
            ))),
            _ => Ok(()),
        }
    }
}
