//! Flags of `tacho compare`. Settings that vLLM's comparison script also has keep their names.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_decide::compare::Confidence;
use tacho_record::metric::Known;
use tacho_report::compare::{CompareSpec, Latency};

use super::error::{ArgError, ArgumentError, UsageError, unknown_metric};
use crate::args::shared::tags::WRITES;

static INPUT: Group = group("input options", "input options", "Results, metrics and confidence.");
static LIMITS: Group = group("limit options", "limit options", "Latency limits of a load level.");
static OUTPUT: Group = group("output options", "output options", "Files to write.");

pub(crate) static TABLE: Table = Table {
    command: "tacho compare",
    about: "Compare results: ratios per load level, the maximum load within limits, and which differences are significant.",
    examples: &[
        ("tacho compare before.json after.json", "two runs, best saved with --save-detailed"),
        ("tacho compare results_a results_b --html compare.html", "two directories of results, with charts"),
        ("tacho compare latency_a.json latency_b.json", "offline runs: latency, throughput, startup"),
    ],
    groups: &[&INPUT, &LIMITS, &OUTPUT],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    CompareFlags? {
        FLAGS [
            positional: Vec<PathBuf> = tacho(&["FILE"], Rest(usize::MAX), "FILE [FILE ...]", Unset, &INPUT,
                "Results; the first one is the baseline. Files of vLLM or tacho, benchmark_results.json tables, or directories of them.");
            base: i64 = tacho(&["--base"], Int, "N", DefaultValue::Int(1), &INPUT, "Number of the result that is the baseline.");
            metrics: Option<Vec<String>> = tacho(&["--metrics"], Str, "KEYS", Unset, &INPUT,
                "Metrics to compare, separated by commas, such as p99_ttft_ms,output_throughput (default: all that both sides have).") => numbers;
            confidence: Confidence = tacho(&["--confidence"], Int, "PERCENT", DefaultValue::Int(95), &INPUT, "Confidence level of the intervals, 80 to 99.")
                .between(80.0, 99.0) => confidence;
            margin: Option<f64> = tacho(&["--margin"], Str, "PERCENT", DefaultValue::Str("2%"), &INPUT,
                "Change that is negligible. Two metrics are equal if the whole confidence interval of their change is within it.") => share;
            assume_noise: Option<f64> = tacho(&["--assume-noise"], Str, "PERCENT", Unset, &INPUT,
                "Assumed standard deviation between runs, for single results without per-request values.") => share;
            more: Vec<PathBuf> = tacho(&["--file", "-f"], Repeated, "FILE", Unset, &INPUT,
                "Further results. Without FILE it behaves like vLLM's script: writes perf_comparison.html, a page per group and the \
                 workbook.");
            debug: bool = tacho(&["--debug"], Switch, "", Off, &INPUT, "Name the test of each value in the tables.");
            xaxis: String = tacho(&["--xaxis", "-x"], Str, "COLUMN", DefaultValue::Str("# of max concurrency."), &INPUT,
                "Column of the load level. The request rate (qps) if no result has a concurrency limit.");
            latency: String = tacho(&["--latency", "-l"], Str, "WHICH", DefaultValue::Str("p99"), &INPUT,
                "Latencies in the tables: median, or the 99th percentiles for anything else.");
            ttft_max_ms: FlagValue<f64> = tacho(&["--ttft-max-ms"], Float, "MS", DefaultValue::Float(3000.0), &LIMITS, "Maximum TTFT.");
            tpot_max_ms: FlagValue<f64> = tacho(&["--tpot-max-ms"], Float, "MS", DefaultValue::Float(100.0), &LIMITS, "Maximum TPOT.");
            ttft_slack_pct: f64 = tacho(&["--ttft-slack-pct"], Float, "PERCENT", DefaultValue::Float(5.0), &LIMITS, "Tolerance above the TTFT limit.");
            tpot_slack_pct: f64 = tacho(&["--tpot-slack-pct"], Float, "PERCENT", DefaultValue::Float(5.0), &LIMITS, "Tolerance above the TPOT limit.");
            html: Option<PathBuf> = tacho(&["--html"], Str, "FILE", Unset, &OUTPUT,
                "Write a self-contained HTML report with tables and charts. With several groups each gets its own page too.").tagged(WRITES);
            plot: Option<bool> = tacho(&["--plot", "--no-plot"], TriState, "", Unset, &OUTPUT, "Draw charts in the pages, or not (default: on).");
            excel_out: Option<PathBuf> = tacho(&["--excel-out"], Str, "FILE", Unset, &OUTPUT,
                "Write a workbook with a sheet per group. VLLM_COMPARE_DISABLE_EXCEL=1 disables it.").tagged(WRITES);
            markdown: Option<PathBuf> = tacho(&["--markdown"], Str, "FILE", Unset, &OUTPUT, "Write the printed report to a file too.").tagged(WRITES);
            csv_out_dir: Option<PathBuf> = tacho(&["--csv-out-dir"], Str, "DIR", Unset, &OUTPUT, "Write each table as CSV into this directory.");
        ]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct CompareArgs {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) spec: CompareSpec,
    /// Whether the files were given by vLLM's flag only: then the script's output files are expected.
    pub(crate) as_script: bool,
    pub(crate) html: Option<PathBuf>,
    pub(crate) excel_out: Option<PathBuf>,
    pub(crate) markdown: Option<PathBuf>,
    pub(crate) csv_out_dir: Option<PathBuf>,
}

impl CompareArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = CompareFlags::parse(v)?;
        let as_script = flags.positional.is_empty();
        let mut files = [flags.positional, flags.more].concat();
        if files.is_empty() {
            return Err(missing(&TABLE, "FILE"));
        }
        let out_of_range = || ArgumentError::range("--base", flags.base, "the number of one of the results");
        let at = usize::try_from(flags.base - 1).ok().filter(|at| *at < files.len()).ok_or_else(out_of_range)?;
        files[..=at].rotate_right(1);
        let spec = CompareSpec {
            keys: flags.metrics,
            x: flags.xaxis,
            latency: if flags.latency.contains("median") { Latency::Median } else { Latency::P99 },
            ttft: (flags.ttft_max_ms.value, flags.ttft_slack_pct),
            tpot: (flags.tpot_max_ms.value, flags.tpot_slack_pct),
            confidence: flags.confidence,
            margin: flags.margin.unwrap_or_default(),
            noise: flags.assume_noise,
            limits_set: as_script || flags.ttft_max_ms.is_set || flags.tpot_max_ms.is_set,
            debug: flags.debug,
            plots: flags.plot.unwrap_or(true),
        };
        Ok(CompareArgs {
            files,
            spec,
            html: flags.html.or_else(|| as_script.then(|| "perf_comparison.html".into())),
            excel_out: flags.excel_out.or_else(|| as_script.then(|| "perf_comparison.xlsx".into())),
            as_script,
            markdown: flags.markdown,
            csv_out_dir: flags.csv_out_dir,
        })
    }
}

/// Parses a list of metrics that have a better direction.
fn numbers(setting: Setting<'_>) -> Result<Option<Vec<String>>, ArgumentError> {
    let judged = |key: &str| match Known::judged(key) {
        Ok(_) => Ok(key.to_owned()),
        Err(error) => Err(unknown_metric(setting.flag, &error)),
    };
    let list = setting.value.as_str();
    list.map(|list| list.split(',').map(|key| judged(key.trim())).collect()).transpose()
}

pub(super) fn missing(table: &Table, what: &'static str) -> ArgError {
    ArgError::Usage { command: table.command, error: UsageError::Missing { what: what.to_owned() } }
}

pub(super) fn confidence(setting: Setting<'_>) -> Result<Confidence, ArgumentError> {
    Ok(Confidence::from_percent(f64::from_flag(setting)).expect("the rows keep it between 80 and 99"))
}

/// Parses a fraction given in percent.
pub(super) fn share(setting: Setting<'_>) -> Result<Option<f64>, ArgumentError> {
    let Some(text) = setting.value.as_str() else { return Ok(None) };
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let percent = percent.filter(|percent: &f64| (0.0..=100.0).contains(percent));
    let refusal = || ArgumentError::range(setting.flag, text, "a percentage, such as 3%");
    percent.map(|percent| Some(percent / 100.0)).ok_or_else(refusal)
}
