//! Flags of `tacho compare`. A setting that vLLM's comparison script has too keeps its name.

use std::path::PathBuf;

use tacho_args::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own};
use tacho_args::grammar::Values;
use tacho_decide::compare::Confidence;
use tacho_record::number::Known;
use tacho_report::compare::{CompareSpec, Latency};

use super::error::{ArgError, Refusal, UsageError};

use Kind::{Float, Int, Repeated, Rest, Str, Switch, TriState};
use Preset::{Off, Unset};

static INPUT: Group = group("input options", "input options", "Results, metrics and confidence.");
static LIMITS: Group = group("limit options", "limit options", "Latency limits of a load level.");
static OUTPUT: Group = group("output options", "output options", "Files to write.");

/// `tacho compare`.
pub(crate) static TABLE: Table = Table {
    command: "tacho compare",
    about: "Compare results: ratios per load level, the maximum load within limits, and which differences are significant.",
    examples: &[
        ("tacho compare before.json after.json", "two runs, best saved with --save-detailed"),
        ("tacho compare results_a results_b --html compare.html", "two directories of results, with charts"),
        ("tacho compare latency_a.json latency_b.json", "offline runs: latency, throughput, startup"),
    ],
    groups: &[&INPUT, &LIMITS, &OUTPUT],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    own(&["FILE"], Rest(usize::MAX), "FILE [FILE ...]", Unset, &INPUT,
        "Results; the first one is the baseline. Files of vLLM or tacho, benchmark_results.json tables, or directories of them."),
    own(&["--base"], Int, "N", Preset::Int(1), &INPUT, "Number of the result that is the baseline."),
    own(&["--metrics"], Str, "KEYS", Unset, &INPUT,
        "Metrics to compare, separated by commas, such as p99_ttft_ms,output_throughput (default: all that both sides have)."),
    own(&["--confidence"], Int, "PERCENT", Preset::Int(95), &INPUT, "Confidence level of the intervals, 80 to 99.")
        .between(80.0, 99.0),
    own(&["--margin"], Str, "PERCENT", Preset::Str("2%"), &INPUT,
        "Change that is negligible. Two metrics are equal if the whole confidence interval of their change is within it."),
    own(&["--assume-noise"], Str, "PERCENT", Unset, &INPUT,
        "Assumed standard deviation between runs, for single results without per-request values."),
    own(&["--file", "-f"], Repeated, "FILE", Unset, &INPUT,
        "Further results. Without FILE it behaves like vLLM's script: writes perf_comparison.html, a page per group and the \
         workbook."),
    own(&["--debug"], Switch, "", Off, &INPUT, "Name the test of each value in the tables."),
    own(&["--xaxis", "-x"], Str, "COLUMN", Preset::Str("# of max concurrency."), &INPUT,
        "Column of the load level. The request rate (qps) if no result has a concurrency limit."),
    own(&["--latency", "-l"], Str, "WHICH", Preset::Str("p99"), &INPUT,
        "Latencies in the tables: median, or the 99th percentiles for anything else."),
    own(&["--ttft-max-ms"], Float, "MS", Preset::Float(3000.0), &LIMITS, "Maximum TTFT."),
    own(&["--tpot-max-ms"], Float, "MS", Preset::Float(100.0), &LIMITS, "Maximum TPOT."),
    own(&["--ttft-slack-pct"], Float, "PERCENT", Preset::Float(5.0), &LIMITS, "Tolerance above the TTFT limit."),
    own(&["--tpot-slack-pct"], Float, "PERCENT", Preset::Float(5.0), &LIMITS, "Tolerance above the TPOT limit."),
    own(&["--html"], Str, "FILE", Unset, &OUTPUT,
        "Write a self-contained HTML report with tables and charts. With several groups each gets its own page too."),
    own(&["--plot", "--no-plot"], TriState, "", Unset, &OUTPUT, "Draw charts in the pages, or not (default: on)."),
    own(&["--excel-out"], Str, "FILE", Unset, &OUTPUT,
        "Write a workbook with a sheet per group. VLLM_COMPARE_DISABLE_EXCEL=1 disables it."),
    own(&["--markdown"], Str, "FILE", Unset, &OUTPUT, "Write the printed report to a file too."),
    own(&["--csv-out-dir"], Str, "DIR", Unset, &OUTPUT, "Write each table as CSV into this directory."),
];

/// All flags of `tacho compare`.
#[derive(Debug, Clone)]
pub(crate) struct CompareArgs {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) spec: CompareSpec,
    /// Whether only vLLM's own flag named the files: the script's files are expected then.
    pub(crate) as_script: bool,
    pub(crate) html: Option<PathBuf>,
    pub(crate) excel_out: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) csv_out_dir: Option<PathBuf>,
}

impl CompareArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let words = [v.list("FILE"), v.list("--file")].into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = words.map(PathBuf::from).collect();
        if files.is_empty() {
            return Err(missing(&TABLE, "FILE"));
        }
        let base = v.int("--base");
        let out_of_range = || Refusal::OutOfRange {
            flag: "--base",
            value: base.to_string(),
            allowed: "the number of one of the results",
        };
        let at = usize::try_from(base - 1).ok().filter(|at| *at < files.len()).ok_or_else(out_of_range)?;
        files[..=at].rotate_right(1);
        let as_script = v.list("FILE").is_none_or(|words| words.is_empty());
        let keys = v.maybe_text("--metrics").map(|keys| numbers(&keys)).transpose()?;
        let latency = if v.text("--latency").contains("median") { Latency::Median } else { Latency::P99 };
        let spec = CompareSpec {
            x: v.text("--xaxis"),
            latency,
            ttft: (v.float("--ttft-max-ms"), v.float("--ttft-slack-pct")),
            tpot: (v.float("--tpot-max-ms"), v.float("--tpot-slack-pct")),
            confidence: confidence(v.int("--confidence")),
            margin: share("--margin", &v.text("--margin"))?,
            noise: v.maybe_text("--assume-noise").map(|text| share("--assume-noise", &text)).transpose()?,
            limits_set: as_script || v.is_given("--ttft-max-ms") || v.is_given("--tpot-max-ms"),
            debug: v.switch("--debug"),
            plots: v.tri_state("--plot").unwrap_or(true),
            keys,
        };
        let path = |name| v.maybe_text(name).map(PathBuf::from);
        Ok(CompareArgs {
            files,
            spec,
            html: path("--html").or_else(|| as_script.then(|| "perf_comparison.html".into())),
            excel_out: path("--excel-out").or_else(|| as_script.then(|| "perf_comparison.xlsx".into())),
            as_script,
            markdown: path("--markdown"),
            csv_out_dir: path("--csv-out-dir"),
        })
    }
}

/// The keys of a list, each of a number that can get better or worse.
fn numbers(list: &str) -> Result<Vec<String>, Refusal> {
    let judged = |key: &str| match Known::judged(key) {
        Ok(_) => Ok(key.to_owned()),
        Err(error) => Err(Refusal::metric("--metrics", error)),
    };
    list.split(',').map(|key| judged(key.trim())).collect()
}

pub(super) fn missing(table: &Table, what: &'static str) -> ArgError {
    ArgError::Usage { command: table.command, error: UsageError::Missing { what: what.to_owned() } }
}

pub(super) fn confidence(percent: i64) -> Confidence {
    Confidence::from_percent(percent as f64).expect("the rows keep it between 80 and 99")
}

/// A share, which is written in percent.
pub(super) fn share(flag: &'static str, text: &str) -> Result<f64, Refusal> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let refusal = || Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "a percentage, such as 3%" };
    percent.filter(|percent: &f64| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0).ok_or_else(refusal)
}
