//! Flags for a series of loads and for comparing two results, named as in vLLM's Rust client.

use std::path::PathBuf;

use tacho_args::declare::*;

use super::{LoadArgs, ServeArgs, stops::filling};
use crate::args::error::{ArgError, ArgumentError};
use crate::args::shared::tags::{NEEDS_SERVER, ONE_RUN, SETS_LOAD};

pub(super) static POINTS: Group =
    group("load series options", "tacho options", "Several loads in one command, as in vLLM's Rust client.")
        .tagged(NEEDS_SERVER);

const CONCURRENCY: &str = "--sweep-max-concurrency";
const RATE: &str = "--sweep-request-rate";
const FACTOR: &str = "--sweep-num-prompts-factor";
const PERCENTILES: &str = "--sweep-summary-percentiles";

flags! {
    PointFlags? {
        FLAGS [
            concurrency: Vec<Load> = tacho(&[CONCURRENCY], Str, "N,N,…", Unset, &POINTS,
                "Run once per --max-concurrency of this list, and print a summary table. With --save-result each run has its own result, \
                 and the table is NAME.sweep.json. A load that fails is recorded, and the next one runs.").tagged(SETS_LOAD | ONE_RUN).excludes(&[RATE, "--max-concurrency", "--ramp-up-strategy", "--resume", "--rank", "--ranks"]) => concurrencies;
            rate: Vec<Load> = tacho(&[RATE], Str, "RPS,RPS,…", Unset, &POINTS, "Run once per --request-rate of this list, such as 1,2.5,inf.").tagged(SETS_LOAD | ONE_RUN).excludes(&["--request-rate", "--ramp-up-strategy", "--resume", "--rank", "--ranks"]) => rates;
            factor: Option<i64> = tacho(&[FACTOR], Int, "N", Unset, &POINTS,
                "Number of prompts per unit of concurrency, instead of --num-prompts. Needs --sweep-max-concurrency.").between(1.0, 1e6).needs(&[CONCURRENCY]);
            percentiles: Vec<f64> = tacho(&[PERCENTILES], Str, "P,P,…", Unset, &POINTS,
                "Further percentiles of TTFT and TPOT in the summary table, in addition to 50 and 90.").needs(&["--sweep-max-concurrency or --sweep-request-rate"]) => percentiles;
            compare: Option<Vec<PathBuf>> = tacho(&["--compare"], OneOrMore, "FILE", Unset, &POINTS,
                "Compare two results, A and B, without a run. tacho compare does more.").tagged(ONE_RUN);
        ]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    Concurrency(usize),
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
    pub(crate) flag: Option<&'static str>,
    pub(crate) compare: Option<Vec<PathBuf>>,
}

impl PointArgs {
    pub(super) fn read(values: &Values) -> Result<Self, ArgError> {
        let PointFlags { concurrency, rate, factor, percentiles, compare } = PointFlags::parse(values)?;
        let flag = values.set_of([CONCURRENCY, RATE]).next();
        Ok(PointArgs { loads: [concurrency, rate].concat(), percentiles, factor, flag, compare })
    }

    pub(super) fn check(&self, args: &ServeArgs) -> Result<(), ArgumentError> {
        if let Some(files) = self.compare.as_ref().filter(|files| files.len() != 2) {
            let text = format!("--compare takes two results, A and B, not {}: see tacho compare for more", files.len());
            return Err(ArgumentError::other(text));
        }
        match self.flag.filter(|_| args.repeats.runs > 1) {
            Some(flag) => Err(ArgumentError::Together { flag, other: "--num-runs" }),
            None => Ok(()),
        }
    }
}

fn concurrencies(setting: Setting<'_>) -> Result<Vec<Load>, ArgumentError> {
    let load = |part: &str| part.parse().ok().filter(|limit| *limit >= 1).map(Load::Concurrency);
    list(setting, load, "whole numbers from 1 on, with commas between")
}

fn rates(setting: Setting<'_>) -> Result<Vec<Load>, ArgumentError> {
    let load = |part: &str| part.parse().ok().filter(|rate: &f64| *rate > 0.0).map(Load::Rate);
    list(setting, load, "rates above 0 or inf, with commas between")
}

fn percentiles(setting: Setting<'_>) -> Result<Vec<f64>, ArgumentError> {
    let read = |part: &str| part.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    list(setting, read, "numbers from 0 to 100, with commas between")
}

/// A list with at least one part, or nothing if the flag is not given.
fn list<T>(setting: Setting<'_>, read: fn(&str) -> Option<T>, allowed: &'static str) -> Result<Vec<T>, ArgumentError> {
    let Some(text) = setting.value.as_str() else { return Ok(Vec::new()) };
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let list = parts.map(read).collect::<Option<Vec<T>>>().filter(|list| !list.is_empty());
    list.ok_or_else(|| ArgumentError::range(setting.flag, text, allowed))
}

impl ServeArgs {
    pub(crate) fn at(&self, load: Load) -> ServeArgs {
        let mut point = self.clone();
        point.points = PointArgs::default();
        match load {
            Load::Concurrency(limit) => {
                point.load.max_concurrency = Some(limit);
                point.load.num_prompts =
                    self.points.factor.map_or(point.load.num_prompts, |factor| factor.saturating_mul(limit as i64));
            }
            Load::Rate(rate) => {
                let num_prompts = LoadArgs::from(&self.values).num_prompts;
                point.load =
                    filling(LoadArgs { request_rate: rate, num_prompts, ..point.load }, &point.stops, &self.values);
            }
        }
        point
    }
}
