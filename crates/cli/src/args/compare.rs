//! What was typed after `tacho compare`. Where vLLM's comparison script has the same setting, the flag has its name.

use std::path::PathBuf;

use tacho_decide::compare::Confidence;
use tacho_record::number::Known;
use tacho_report::compare::{CompareSpec, Latency};

use super::error::{ArgError, Refusal, UsageError};
use super::flag::{Flag, Group, Kind, Preset, Table, own};
use super::grammar::Values;

use Kind::{Float, Help, Int, Repeated, Rest, Str, Switch, TriState};
use Preset::{Off, Unset};

static INPUT: Group = Group { title: "input options", vllm_title: "input options", about: "What is compared." };
static LIMITS: Group =
    Group { title: "limit options", vllm_title: "limit options", about: "Latencies that a load level must keep." };
static OUTPUT: Group = Group { title: "output options", vllm_title: "output options", about: "What is written." };

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho compare",
    about: "Compare results: ratios per load level, the largest load within limits, and whether differences are real.",
    examples: &[
        ("tacho compare before.json after.json", "two runs, best saved with --save-detailed"),
        ("tacho compare results_a results_b --html compare.html", "two folders of results, with charts"),
        ("tacho compare latency_a.json latency_b.json", "runs without a server: latency, throughput, startup"),
    ],
    groups: &[&INPUT, &LIMITS, &OUTPUT],
    flags: FLAGS,
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    own(&["-h", "--help"], Help, "TOPIC", Unset, &INPUT, "Show this help. --help=all explains every option."),
    own(&["FILE"], Rest, "FILE [FILE ...]", Unset, &INPUT,
        "Results, the first one is the base. Files of vLLM or tacho, benchmark_results.json tables, or folders of them."),
    own(&["--file", "-f"], Repeated, "FILE", Unset, &INPUT,
        "More results, after those above. Given alone it does what vLLM's script does: perf_comparison.html, a page \
         per group and the workbook are written too."),
    own(&["--base"], Int, "N", Preset::Int(1), &INPUT, "Which of the results is the base of ratios and verdicts."),
    own(&["--debug"], Switch, "", Off, &INPUT, "Name the test behind each value in the tables."),
    own(&["--metrics"], Str, "KEYS", Unset, &INPUT,
        "Numbers to judge, with commas between, such as p99_ttft_ms,output_throughput. All that both sides have \
         without it."),
    own(&["--confidence"], Int, "PERCENT", Preset::Int(95), &INPUT, "How sure an interval shall be, 80 to 99."),
    own(&["--margin"], Str, "PERCENT", Preset::Str("2%"), &INPUT,
        "Change that does not matter. Two numbers are equal when the whole interval of their change is inside it."),
    own(&["--assume-noise"], Str, "PERCENT", Unset, &INPUT,
        "Deviation of a number from run to run, for files that do not tell: one run a side without single requests."),
    own(&["--xaxis", "-x"], Str, "COLUMN", Preset::Str("# of max concurrency."), &INPUT,
        "Column that says the load level. The request rate (qps) where no result has a concurrency limit."),
    own(&["--latency", "-l"], Str, "WHICH", Preset::Str("p99"), &INPUT,
        "Latencies in the tables. median takes the medians, anything else the 99th percentiles."),
    own(&["--ttft-max-ms"], Float, "MS", Preset::Float(3000.0), &LIMITS, "Largest time to first token."),
    own(&["--tpot-max-ms"], Float, "MS", Preset::Float(100.0), &LIMITS, "Largest time per output token."),
    own(&["--ttft-slack-pct"], Float, "PERCENT", Preset::Float(5.0), &LIMITS, "How far TTFT may pass its limit."),
    own(&["--tpot-slack-pct"], Float, "PERCENT", Preset::Float(5.0), &LIMITS, "How far TPOT may pass its limit."),
    own(&["--html"], Str, "FILE", Unset, &OUTPUT,
        "Write a page with tables and charts. It needs no network. With several groups each gets a page beside it too."),
    own(&["--plot", "--no-plot"], TriState, "", Unset, &OUTPUT, "Draw charts in the pages, or do not; on by default."),
    own(&["--excel-out"], Str, "FILE", Unset, &OUTPUT,
        "Write a workbook with a sheet per group. VLLM_COMPARE_DISABLE_EXCEL=1 leaves it out."),
    own(&["--markdown"], Str, "FILE", Unset, &OUTPUT, "Write what is printed to a file too."),
    own(&["--csv-out-dir"], Str, "DIR", Unset, &OUTPUT, "Write each table as CSV into this folder."),
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
            confidence: confidence(v)?,
            margin: share("--margin", &v.text("--margin"))?,
            noise: v.maybe_text("--assume-noise").map(|text| share("--assume-noise", &text)).transpose()?,
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
        Err(error) => Err(Refusal::Number { flag: "--metrics", error }),
    };
    list.split(',').map(|key| judged(key.trim())).collect()
}

pub(super) fn missing(table: &Table, what: &'static str) -> ArgError {
    ArgError::Usage { command: table.command, error: UsageError::Missing { what } }
}

pub(super) fn confidence(v: &Values) -> Result<Confidence, Refusal> {
    let percent = v.int("--confidence");
    let refusal = Refusal::OutOfRange { flag: "--confidence", value: percent.to_string(), allowed: "80 to 99" };
    Confidence::from_percent(percent as f64).filter(|_| percent >= 80).ok_or(refusal)
}

/// A share, which is written in percent.
pub(super) fn share(flag: &'static str, text: &str) -> Result<f64, Refusal> {
    let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let refusal = || Refusal::OutOfRange { flag, value: text.to_owned(), allowed: "a percentage, such as 3%" };
    percent.filter(|percent: &f64| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0).ok_or_else(refusal)
}
