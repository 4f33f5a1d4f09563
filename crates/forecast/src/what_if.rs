//! What a run would have been with other settings of its server: its requests at their times, simulated with a cost model
//! of the server as it was and as it would be. The difference is applied to what was measured.

use std::{collections::BTreeSet, sync::Arc};

use tacho_core::{Timestamp, json::dumps};
use tacho_decide::search::Criterion;
use tacho_engine::simulation::{Arrival, Router, SendPolicy, simulate};
use tacho_engine::{EngineSpec, LIMITS, Limit, Machine, NamedLimit};
use tacho_metrics::replicas::REPLICA;
use tacho_record::RunRecord;

use crate::fit::{self, Experiment, FitError, KnownLimits, MAX_HELD_OUT_ERROR, Profile, Traced};
use crate::{PredictionInterval, predict::METRICS, simulated_run::SimulatedRun};

/// Limits that can be set: the costs of a step do not depend on them.
const SETTABLE: [&str; 5] =
    ["max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "enable_prefix_caching", "enable_chunked_prefill"];
/// Largest error of the model on the run itself, as a ratio, for a metric to be forecast.
const MAX_MODEL_ERROR: f64 = 1.35;
/// Least relative error of a forecast: runs of one server differ by as much.
const MIN_ERROR: f64 = 0.02;
/// Asynchronous scheduling that was seen, but not stated, is doubted if a model without it repeats the run better by this
/// much, as a logarithm of mean E2EL.
const MIN_MISFIT: f64 = 0.05;
/// Batches wider than this multiple of those in the run are extrapolated.
const MAX_WIDENING: f64 = 2.0;
/// Largest fraction of prompt tokens from the prefix cache if it is unknown of which requests.
const MAX_UNKNOWN_HITS: f64 = 0.05;
/// Settings that a search tries.
const SEQUENCES: [usize; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
const TOKENS: [usize; 6] = [512, 1024, 2048, 4096, 8192, 16_384];

#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    #[error("{name:?} is not a setting that can be forecast; those are {}, and --replicas", SETTABLE.join(", "))]
    Name { name: String },
    #[error("{name}={value:?} is not {expected}")]
    Value { name: &'static str, value: String, expected: &'static str },
    #[error("requests of sessions depend on earlier responses: only independent requests can be forecast")]
    Sessions,
    #[error("no request has the times of its tokens: pass the log of a streaming run (--log)")]
    NoTokens,
    #[error(
        "{percent:.0}% of the prompt tokens came from the prefix cache, but the responses do not say of which requests: start \
         the server with --enable-prompt-tokens-details and measure again"
    )]
    UnknownHits { percent: f64 },
    #[error(
        "enable_prefix_caching=true has no basis: the run does not show which prompts share a prefix; measure with the cache on"
    )]
    NoPrefixes,
    #[error(
        "the model of the server does not reproduce the run: it gives {metric} {modeled:.1}, measured were {measured:.1}; fit \
         the server on a quiet machine (tacho fit --base-url URL) and pass --profile"
    )]
    Unlike { metric: &'static str, modeled: f64, measured: f64 },
    #[error("{count} requests could never run with {setting}: they are longer than the limits allow")]
    Rejected { count: usize, setting: String },
    #[error("no cost model can be fitted to this run: pass --profile with a profile of tacho fit")]
    Fit(#[from] FitError),
    #[error(transparent)]
    Engine(#[from] tacho_engine::Error),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Setting {
    /// Limits by name; switches are 0 and 1.
    pub limits: Vec<(&'static str, usize)>,
    /// The number of replicas; `None` for as many as in the run.
    pub replicas: Option<usize>,
}

impl Setting {
    /// Adds a limit such as `max_num_seqs` with its value as typed.
    pub fn with(&self, name: &str, value: &str) -> Result<Self, WhatIfError> {
        let unknown = || WhatIfError::Name { name: name.to_owned() };
        let (name, limit) = settable(&name.replace('-', "_")).ok_or_else(unknown)?;
        let wrong = |expected| WhatIfError::Value { name, value: value.to_owned(), expected };
        let number = match (limit(&mut EngineSpec::default()), value) {
            (Limit::Switch(_), "true" | "on" | "1") => 1,
            (Limit::Switch(_), "false" | "off" | "0") => 0,
            (Limit::Switch(_), _) => return Err(wrong("true or false")),
            (Limit::Count(_), _) => value
                .parse()
                .ok()
                .filter(|count| (1..=1 << 24).contains(count))
                .ok_or_else(|| wrong("a number from 1 to 16777216"))?,
        };
        let mut setting = self.clone();
        setting.limits.retain(|(known, _)| *known != name);
        setting.limits.push((name, number));
        Ok(setting)
    }

    /// The flags of `vllm serve` that set its limits.
    pub fn flags(&self) -> Vec<String> {
        let flag = |(name, value): &(&'static str, usize)| {
            let long =
                if *name == "num_gpu_blocks" { "num-gpu-blocks-override".to_owned() } else { name.replace('_', "-") };
            match (is_switch(name), value) {
                (true, 0) => vec![format!("--no-{long}")],
                (true, _) => vec![format!("--{long}")],
                (false, value) => vec![format!("--{long}"), value.to_string()],
            }
        };
        self.limits.iter().flat_map(flag).collect()
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limit = |(name, value): &(&'static str, usize)| match (is_switch(name), value) {
            (true, 0) => format!("{name}=false"),
            (true, _) => format!("{name}=true"),
            (false, value) => format!("{name}={value}"),
        };
        let all = self.limits.iter().map(limit).chain(self.replicas.map(|count| format!("replicas={count}")));
        let text = all.collect::<Vec<_>>().join(" ");
        f.write_str(if text.is_empty() { "as measured" } else { &text })
    }
}

fn settable(name: &str) -> Option<NamedLimit> {
    LIMITS.into_iter().find(|(known, _)| *known == name && SETTABLE.contains(known))
}

fn is_switch(name: &str) -> bool {
    settable(name).is_some_and(|(_, limit)| matches!(limit(&mut EngineSpec::default()), Limit::Switch(_)))
}

#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    pub setting: Setting,
    /// Metrics with their prediction intervals; a metric that the model does not reproduce is missing.
    pub values: Vec<(&'static str, PredictionInterval)>,
    /// Whether batches are wider than those whose costs are known.
    pub is_extrapolated: bool,
}

impl Forecast {
    pub fn value(&self, metric: &str) -> Option<PredictionInterval> {
        self.values.iter().find(|(known, _)| *known == metric).map(|(_, interval)| *interval)
    }
}

/// The costs of a server, from a run alone. The limits that are known are kept, others are read from the run.
pub fn fitted(record: &RunRecord, known: &mut KnownLimits) -> Result<(Machine, f64), WhatIfError> {
    let mut replicas = std::collections::BTreeMap::<String, Vec<Traced>>::new();
    for sample in record.measured.samples.iter() {
        let traced = Traced::of_sample(&sample).filter(|one| one.tokens.len() > 1);
        let name = sample.labels.get(REPLICA).unwrap_or_default().to_owned();
        replicas.entry(name).or_default().extend(traced);
    }
    let experiment = Experiment { runs: replicas.into_values().collect(), ..Experiment::default() };
    experiment.learn_limits(known);
    let model = |async_scheduling| -> Result<(Machine, f64), WhatIfError> {
        let fitted = fit::fit(&experiment.runs, &known.limits, async_scheduling)?;
        let (error, name) = (fitted.held_out.0, "this run".to_owned());
        let profile = Profile { name, fitted, limits: known.limits.clone(), sources: known.sources.clone() };
        Ok((Machine::parse(&dumps(&profile.to_json()), "this run")?, error))
    };
    let seen = model(known.async_scheduling)?;
    if known.async_scheduling.is_some() || !seen.0.engine.async_scheduling {
        return Ok(seen);
    }
    // A front end that shares the engine's core delays steps as well: the model that repeats the run is the right one.
    let misfit = |model: &(Machine, f64)| {
        let repeated = WhatIf::new(record, &model.0, Router::RoundRobin).ok();
        repeated
            .and_then(|run| run.on_itself("mean_e2el_ms"))
            .map_or(f64::INFINITY, |(own, was)| (own / was).ln().abs())
    };
    let other = model(Some(false)).ok().filter(|other| misfit(other) + MIN_MISFIT < misfit(&seen));
    Ok(other.unwrap_or(seen))
}

/// Whether costs with this held-out error are worth a forecast.
pub fn is_good_fit(held_out: f64) -> bool {
    held_out <= MAX_HELD_OUT_ERROR
}

#[derive(Debug)]
pub struct WhatIf {
    arrivals: Vec<Arrival>,
    max_concurrency: Option<usize>,
    versions: Vec<Machine>,
    router: Router,
    replicas: usize,
    has_prefixes: bool,
    /// Most requests in flight at once.
    widest: usize,
    measured: SimulatedRun,
    /// The run itself by each version of the model.
    modeled: Vec<SimulatedRun>,
}

impl WhatIf {
    pub fn new(record: &RunRecord, machine: &Machine, router: Router) -> Result<Self, WhatIfError> {
        let samples = || record.measured.samples.iter().filter(|sample| sample.success());
        if samples().any(|sample| sample.session.is_some()) {
            return Err(WhatIfError::Sessions);
        }
        if !samples().any(|sample| sample.ttft > 0.0 && sample.output_len > 1) {
            return Err(WhatIfError::NoTokens);
        }
        let is_paced = record.setup.is_paced();
        let stated = samples().any(|sample| sample.cached_tokens.is_some_and(|cached| cached > 0));
        let hits = record.measured.cache_hit_rate().filter(|hits| !stated && *hits > MAX_UNKNOWN_HITS);
        if let Some(hits) = hits {
            return Err(WhatIfError::UnknownHits { percent: hits * 100.0 });
        }
        let first = samples().map(|sample| sample.scheduled).fold(f64::INFINITY, f64::min);
        let arrivals = samples().map(|sample| {
            let cached = sample.cached_tokens.unwrap_or(0) as u32;
            let own = (sample.index as u32 + 1).wrapping_mul(2_654_435_761);
            let id = |at: u32| if at < cached { at } else { own.wrapping_add(at) };
            Arrival {
                due: if is_paced { Timestamp::from_secs(sample.scheduled - first) } else { Timestamp::default() },
                prompt: (0..sample.prompt_len.max(1) as u32).map(id).collect::<Arc<[u32]>>(),
                output: sample.output_len.max(1) as usize,
                priority: 0,
            }
        });
        let names: BTreeSet<String> =
            samples().filter_map(|sample| Some(sample.labels.get(REPLICA)?.to_owned())).collect();
        let mut times: Vec<(f64, i64)> =
            samples().flat_map(|one| [(one.sent, 1), (one.sent + one.latency, -1)]).collect();
        let mut one = WhatIf {
            arrivals: arrivals.collect(),
            max_concurrency: record.setup.max_concurrency.map(|limit| limit as usize),
            versions: if machine.is_noisy() { machine.versions().collect() } else { vec![machine.clone()] },
            router,
            replicas: names.len().max(1),
            has_prefixes: stated,
            widest: max(&mut times),
            measured: SimulatedRun::of_record(record),
            modeled: Vec::new(),
        };
        one.modeled = one.simulated(&Setting::default())?.0;
        for metric in ["mean_tpot_ms", "mean_e2el_ms"] {
            if let Some((modeled, measured)) = one.on_itself(metric).filter(|both| is_unlike(*both)) {
                return Err(WhatIfError::Unlike { metric, modeled, measured });
            }
        }
        Ok(one)
    }

    pub fn requests(&self) -> usize {
        self.arrivals.len()
    }

    /// A metric of the run itself: by the model, and measured.
    pub fn on_itself(&self, metric: &str) -> Option<(f64, f64)> {
        let logs: Option<Vec<f64>> = self.modeled.iter().map(|run| Some(run.value(metric)?.ln())).collect();
        let logs = logs?;
        Some(((logs.iter().sum::<f64>() / logs.len() as f64).exp(), self.measured.value(metric)?))
    }

    pub fn forecast(&self, setting: &Setting) -> Result<Forecast, WhatIfError> {
        let (runs, widest) = self.simulated(setting)?;
        let values = METRICS.into_iter().filter_map(|metric| Some((metric, self.interval(metric, &runs)?)));
        let is_extrapolated = widest as f64 > MAX_WIDENING * self.widest as f64;
        Ok(Forecast { setting: setting.clone(), values: values.collect(), is_extrapolated })
    }

    fn interval(&self, metric: &str, runs: &[SimulatedRun]) -> Option<PredictionInterval> {
        let both = self.on_itself(metric).filter(|both| !is_unlike(*both))?;
        let pairs = runs.iter().zip(&self.modeled);
        let all: Option<Vec<f64>> =
            pairs.map(|(new, base)| Some(moved(both.1, base.value(metric)?, new.value(metric)?))).collect();
        let all = all?;
        let found = PredictionInterval::of(&all).unwrap_or_else(|| {
            let expected = all[0];
            PredictionInterval { expected, low: expected, high: expected }
        });
        // The error that the model makes on the run itself, it may make again.
        let own = (both.0 / both.1).ln().abs().max(MIN_ERROR);
        let reach = |end: f64| (end / found.expected).ln().hypot(own).exp();
        Some(PredictionInterval {
            low: found.expected / reach(found.low),
            high: found.expected * reach(found.high),
            ..found
        })
    }

    /// The run with other settings by each version of the model, and its widest batch.
    fn simulated(&self, setting: &Setting) -> Result<(Vec<SimulatedRun>, usize), WhatIfError> {
        if !self.has_prefixes && setting.limits.contains(&("enable_prefix_caching", 1)) {
            return Err(WhatIfError::NoPrefixes);
        }
        let (mut runs, mut widest) = (Vec::new(), 0);
        for (version, seed) in self.versions.iter().zip(1..) {
            let (run, width) = self.simulate(version, setting, seed)?;
            runs.push(run);
            widest = widest.max(width);
        }
        Ok((runs, widest))
    }

    fn simulate(&self, version: &Machine, setting: &Setting, seed: u64) -> Result<(SimulatedRun, usize), WhatIfError> {
        let mut machine = version.clone();
        for (name, value) in &setting.limits {
            settable(name).into_iter().for_each(|(_, limit)| limit(&mut machine.engine).set(*value));
        }
        let replicas = setting.replicas.unwrap_or(self.replicas);
        let policy = SendPolicy { max_concurrency: self.max_concurrency, replicas, router: self.router, seed };
        let completions = simulate(&machine, &self.arrivals, &policy)?;
        let count = completions.iter().filter(|completion| completion.rejected.is_some()).count();
        if count > 0 {
            return Err(WhatIfError::Rejected { count, setting: setting.to_string() });
        }
        let spans = completions.iter().filter_map(|one| Some([(one.sent.secs(), 1), (one.tokens.last()?.secs(), -1)]));
        let mut times: Vec<(f64, i64)> = spans.flatten().collect();
        let widest = max(&mut times).div_ceil(replicas).min(machine.engine.max_num_seqs);
        Ok((SimulatedRun::from_sent(&completions), widest))
    }

    /// The settings that meet the SLOs with the fewest replicas, the ones with the largest margin first.
    pub fn search(&self, slos: &[Criterion], max_replicas: usize) -> Result<Vec<Setting>, WhatIfError> {
        let (machine, base) = (self.versions[self.versions.len() / 2].steady(), Setting::default());
        let modeled = self.simulate(&machine, &base, 1)?.0;
        let value = |run: &SimulatedRun, metric: &str| {
            Some(moved(self.measured.value(metric)?, modeled.value(metric)?, run.value(metric)?))
        };
        let reach = ((MAX_WIDENING * self.widest as f64) as usize).max(SEQUENCES[0]);
        for replicas in 1..=max_replicas {
            let mut found: Vec<(f64, Setting)> = Vec::new();
            for sequences in SEQUENCES.into_iter().filter(|count| *count <= reach) {
                for tokens in TOKENS.into_iter().filter(|tokens| *tokens >= sequences) {
                    let limits = vec![("max_num_seqs", sequences), ("max_num_batched_tokens", tokens)];
                    let setting = Setting { limits, replicas: Some(replicas) };
                    let Ok((run, _)) = self.simulate(&machine, &setting, 1) else { continue };
                    let margins = slos.iter().map(|slo| slo.margin(value(&run, &slo.metric).unwrap_or(f64::INFINITY)));
                    found.push((margins.fold(f64::NEG_INFINITY, f64::max), setting));
                }
            }
            found.retain(|(margin, _)| *margin <= 0.0);
            if !found.is_empty() {
                found.sort_by(|one, other| one.0.total_cmp(&other.0));
                // A limit that is never reached makes no difference: the smallest of such settings stands for all.
                found.dedup_by(|one, before| (one.0 - before.0).abs() < 1e-3);
                return Ok(found.into_iter().map(|(_, setting)| setting).collect());
            }
        }
        Ok(Vec::new())
    }
}

/// What the model says of a change, applied to the measured value: an increase is added, a decrease scales. A cost that
/// the model lacks is there before and after.
fn moved(measured: f64, base: f64, new: f64) -> f64 {
    if new > base { measured + (new - base) } else { measured * new / base }
}

fn is_unlike((modeled, measured): (f64, f64)) -> bool {
    let error = (modeled / measured).ln().abs();
    error.is_nan() || error > MAX_MODEL_ERROR.ln()
}

/// Most spans at once, from their starts and ends.
fn max(times: &mut [(f64, i64)]) -> usize {
    times.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let open = times.iter().scan(0, |open, (_, change)| {
        *open += change;
        Some(*open)
    });
    open.max().unwrap_or(0).max(0) as usize
}
