//! Flags for a series of loads and for comparing two results, named as in vLLM's Rust client.

use std::path::PathBuf;

use tacho_args::flag::{Group, Kind, Preset, group, own};
use tacho_args::grammar::Setting;
use tacho_args::{Values, flags};

use super::stops::filling;
use super::{LoadArgs, ServeArgs};
use crate::args::error::{ArgError, Refusal};

use Kind::{Int, OneOrMore, Str};
use Preset::Unset;

pub(super) static POINTS: Group =
    group("load series options", "tacho options", "Several loads in one command, as in vLLM's Rust client.");

const CONCURRENCY: &str = "--sweep-max-concurrency";
const RATE: &str = "--sweep-request-rate";
const FACTOR: &str = "--sweep-num-prompts-factor";
const PERCENTILES: &str = "--sweep-summary-percentiles";

flags! {
    /// Flags for a series of loads.
    PointFlags? {
        FLAGS [
            concurrency: Vec<Load> = own(&[CONCURRENCY], Str, "N,N,…", Unset, &POINTS,
                "Run once per --max-concurrency of this list, and print a summary table. With --save-result each run has its own result, \
                 and the table is NAME.sweep.json. A load that fails is recorded, and the next one runs.") => concurrencies;
            rate: Vec<Load> = own(&[RATE], Str, "RPS,RPS,…", Unset, &POINTS, "Run once per --request-rate of this list, such as 1,2.5,inf.") => rates;
            factor: Option<i64> = own(&[FACTOR], Int, "N", Unset, &POINTS,
                "Number of prompts per unit of concurrency, instead of --num-prompts. Needs --sweep-max-concurrency.").between(1.0, 1e6);
            percentiles: Vec<f64> = own(&[PERCENTILES], Str, "P,P,…", Unset, &POINTS,
                "Further percentiles of TTFT and TPOT in the summary table, in addition to 50 and 90.") => percentiles;
            compare: Option<Vec<PathBuf>> = own(&["--compare"], OneOrMore, "FILE", Unset, &POINTS,
                "Compare two results, A and B, without a run. tacho compare does more.");
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    Concurrency(i64),
    Rate(f64),
}

impl Load {
    /// The result key of the varied parameter.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Load::Concurrency(_) => "max_concurrency",
            Load::Rate(_) => "request_rate",
        }
    }

    pub(crate) fn value(self) -> f64 {
        match self {
            Load::Concurrency(limit) => limit as f64,
            Load::Rate(rate) => rate,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Load::Concurrency(limit) => format!("concurrency {limit}"),
            Load::Rate(rate) => format!("rate {rate}"),
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct PointArgs {
    pub(crate) loads: Vec<Load>,
    pub(crate) percentiles: Vec<f64>,
    factor: Option<i64>,
    /// The flag that requests a series.
    pub(crate) flag: Option<&'static str>,
    /// Two results to compare.
    pub(crate) compare: Option<Vec<PathBuf>>,
    both: bool,
}

impl PointArgs {
    pub(super) fn read(values: &Values) -> Result<Self, ArgError> {
        let PointFlags { concurrency, rate, factor, percentiles, compare } = PointFlags::parse(values)?;
        let both = !concurrency.is_empty() && !rate.is_empty();
        let flag = values.given_of([CONCURRENCY, RATE]).next();
        Ok(PointArgs { loads: [concurrency, rate].concat(), percentiles, factor, flag, compare, both })
    }

    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), Refusal> {
        if let Some(files) = self.compare.as_ref().filter(|files| files.len() != 2) {
            return Err(Refusal::range("--compare", format!("{} files", files.len()), "two results, A and B"));
        }
        if self.both {
            return Err(Refusal::Together { flag: CONCURRENCY, other: RATE });
        }
        if self.factor.is_some() && self.flag != Some(CONCURRENCY) {
            return Err(Refusal::Alone { flag: FACTOR, other: CONCURRENCY });
        }
        let Some(flag) = self.flag else {
            let other = "--sweep-max-concurrency or --sweep-request-rate";
            return if !self.percentiles.is_empty() {
                Err(Refusal::Alone { flag: PERCENTILES, other })
            } else {
                Ok(())
            };
        };
        let other = other(args, flag);
        other.map_or(Ok(()), |other| Err(Refusal::Together { flag, other }))
    }
}

/// The first given flag that conflicts with a series of loads.
fn other(args: &ServeArgs, flag: &'static str) -> Option<&'static str> {
    let ServeArgs { own, repeats, ranks, .. } = args;
    let given = |name: &'static str| args.values.is_given(name).then_some(name);
    let fixed = if flag == RATE { given("--request-rate") } else { given("--max-concurrency") };
    fixed
        .or_else(|| args.load.ramp_up_strategy.is_some().then_some("--ramp-up-strategy"))
        .or_else(|| (repeats.runs > 1).then_some("--num-runs"))
        .or_else(|| own.resume.as_ref().map(|_| "--resume"))
        .or_else(|| ranks.rank.or(ranks.ranks).map(|_| "--rank or --ranks"))
}

fn concurrencies(setting: Setting<'_>) -> Result<Vec<Load>, Refusal> {
    let load = |part: &str| part.parse().ok().filter(|limit| *limit >= 1).map(Load::Concurrency);
    list(setting, load, "whole numbers from 1 on, with commas between")
}

fn rates(setting: Setting<'_>) -> Result<Vec<Load>, Refusal> {
    let load = |part: &str| part.parse().ok().filter(|rate: &f64| *rate > 0.0).map(Load::Rate);
    list(setting, load, "rates above 0 or inf, with commas between")
}

fn percentiles(setting: Setting<'_>) -> Result<Vec<f64>, Refusal> {
    let read = |part: &str| part.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    list(setting, read, "numbers from 0 to 100, with commas between")
}

/// A list with at least one part, or nothing if the flag is not given.
fn list<T>(setting: Setting<'_>, read: fn(&str) -> Option<T>, allowed: &'static str) -> Result<Vec<T>, Refusal> {
    let Some(text) = setting.value.as_str() else { return Ok(Vec::new()) };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let list = parts.map(read).collect::<Option<Vec<T>>>().filter(|list| !list.is_empty());
    list.ok_or_else(|| Refusal::range(setting.flag, text, allowed))
}

impl ServeArgs {
    /// The arguments of one load of a series.
    pub(crate) fn at(&self, load: Load) -> ServeArgs {
        let mut own = self.clone();
        own.points = PointArgs::default();
        match load {
            Load::Concurrency(limit) => {
                own.load.max_concurrency = Some(limit);
                own.load.num_prompts =
                    self.points.factor.map_or(own.load.num_prompts, |factor| factor.saturating_mul(limit));
            }
            Load::Rate(rate) => {
                let num_prompts = LoadArgs::from(&self.values).num_prompts;
                own.load = filling(LoadArgs { request_rate: rate, num_prompts, ..own.load }, &own.stops, &self.values);
            }
        }
        own
    }
}
