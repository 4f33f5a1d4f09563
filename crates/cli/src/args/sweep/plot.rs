//! What was typed after `tacho sweep plot`: vLLM's flags, and formats of our own.

use std::path::PathBuf;

use tacho_args::flag::{Flag, Group, HELP, Kind, Preset, Table, group, own, vllm};
use tacho_args::grammar::Values;
use tacho_report::plots::ScaleKind;
use tacho_report::plots::sweep::{Binner, Filter, SweepPlotSpec};

use crate::args::compare::missing;
use crate::args::error::{ArgError, Refusal, UsageError};

use Kind::{Float, Int, Rest, Str, Switch};
use Preset::{Off, Unset};

static OPTIONS: Group = group("plot options", "options", "What is drawn, and how.");
static FIGURE: Group = group("figure options", "options", "Where figures go, and how large they are.");
static FORMATS: Group = group("tacho options", "tacho options", "What vLLM's command does not have.");

/// The table.
pub(crate) static TABLE: Table = Table {
    command: "tacho sweep plot",
    about: "Draw curves from the results of a sweep.",
    examples: &[(
        "tacho sweep plot results/exp --curve-by max_num_seqs --var-x max_concurrency --var-y p99_ttft_ms",
        "a curve per max_num_seqs, in results/exp/FIGURE.png",
    )],
    groups: &[&OPTIONS, &FIGURE, &FORMATS],
    flags: FLAGS,
    ..Table::PLAIN
};

#[rustfmt::skip]
static FLAGS: &[Flag] = &[
    HELP,
    vllm(&["EXPERIMENT_DIR"], Rest(1), "EXPERIMENT_DIR", Unset, &OPTIONS, "The directory of the sweep; every summary.json below it counts."),
    vllm(&["--fig-dir"], Str, "DIR", Preset::Str(""), &FIGURE, "Directory for figures, inside the sweep's. Without it, the sweep's own."),
    vllm(&["--fig-by"], Str, "KEYS", Preset::Str(""), &OPTIONS, "Variables that make figures, with commas between."),
    vllm(&["--row-by"], Str, "KEYS", Preset::Str(""), &OPTIONS, "Variables that make rows of panels."),
    vllm(&["--col-by"], Str, "KEYS", Preset::Str(""), &OPTIONS, "Variables that make columns of panels."),
    vllm(&["--curve-by"], Str, "KEYS", Unset, &OPTIONS, "Variables that make curves. Without it, those that were swept."),
    vllm(&["--var-x"], Str, "KEY", Preset::Str("total_token_throughput"), &OPTIONS, "Variable of the horizontal axis."),
    vllm(&["--var-y"], Str, "KEY", Preset::Str("median_ttft_ms"), &OPTIONS, "Variable of the vertical axis."),
    vllm(&["--filter-by"], Str, "RULES", Preset::Str(""), &OPTIONS,
        "Records to keep, such as max_concurrency<1000,n==2. With ==, !=, <=, >=, < and >; all must hold."),
    vllm(&["--bin-by"], Str, "RULES", Preset::Str(""), &OPTIONS,
        "Variables to round down, such as request_throughput%1. Points that fall together are averaged."),
    vllm(&["--scale-x"], Str, "SCALE", Unset, &FIGURE, "Scale of the horizontal axis. linear, log, symlog, asinh, logit or sqrt."),
    vllm(&["--scale-y"], Str, "SCALE", Unset, &FIGURE, "Scale of the vertical axis. The same ones."),
    vllm(&["--fig-name"], Str, "NAME", Preset::Str("FIGURE"), &FIGURE, "File name of figures; the values of --fig-by follow it."),
    vllm(&["--no-error-bars"], Switch, "", Off, &FIGURE, "Do not show the spread over runs."),
    vllm(&["--fig-height"], Float, "INCHES", Preset::Float(6.4), &FIGURE, "Side of each panel."),
    vllm(&["--fig-dpi"], Int, "DPI", Preset::Int(300), &FIGURE, "Dots per inch of PNG files."),
    vllm(&["--dry-run"], Switch, "", Off, &FIGURE, "Say which figures there would be, and draw none."),
    own(&["--svg"], Switch, "", Off, &FORMATS, "Also write each figure as SVG."),
    own(&["--html"], Switch, "", Off, &FORMATS, "Write one page with all figures, to point at, zoom and hide curves on."),
    own(&["--strict-parity"], Switch, "", Off, &FORMATS, "Without --curve-by, join all points into one line, as vLLM does."),
];

/// All flags of `tacho sweep plot`.
#[derive(Debug, Clone)]
pub(crate) struct PlotArgs {
    pub(crate) directory: PathBuf,
    pub(crate) fig_dir: String,
    pub(crate) spec: SweepPlotSpec,
    pub(crate) dpi: i64,
    pub(crate) dry_run: bool,
    pub(crate) svg: bool,
    pub(crate) html: bool,
}

impl PlotArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let directory = only_directory(v, &TABLE)?;
        let rule = |error: tacho_report::Error| Refusal::PlotRule { problem: error.to_string() };
        let list = |name| split(&v.maybe_text(name).unwrap_or_default());
        let filters: Result<Vec<Filter>, _> = list("--filter-by").iter().map(|text| Filter::parse(text)).collect();
        let binners: Result<Vec<Binner>, _> = list("--bin-by").iter().map(|text| Binner::parse(text)).collect();
        let (panel, dpi) = (v.float("--fig-height"), v.int("--fig-dpi"));
        let out_of_range = |flag, value: String, allowed| Refusal::OutOfRange { flag, value, allowed };
        if !(1.0..=100.0).contains(&panel) {
            return Err(out_of_range("--fig-height", panel.to_string(), "1 to 100 inches").into());
        }
        if !(1..=2400).contains(&dpi) {
            return Err(out_of_range("--fig-dpi", dpi.to_string(), "1 to 2400").into());
        }
        let curve_by = v.maybe_text("--curve-by").or_else(|| v.switch("--strict-parity").then(String::new));
        let spec = SweepPlotSpec {
            fig_by: list("--fig-by"),
            row_by: list("--row-by"),
            col_by: list("--col-by"),
            curve_by: curve_by.map(|text| split(&text)),
            x: v.text("--var-x"),
            y: v.text("--var-y"),
            filters: filters.map_err(rule)?,
            binners: binners.map_err(rule)?,
            scale_x: scale(v, "--scale-x")?,
            scale_y: scale(v, "--scale-y")?,
            name: v.text("--fig-name"),
            error_bars: !v.switch("--no-error-bars"),
            panel,
        };
        Ok(PlotArgs {
            directory,
            fig_dir: v.text("--fig-dir"),
            spec,
            dpi,
            dry_run: v.switch("--dry-run"),
            svg: v.switch("--svg"),
            html: v.switch("--html"),
        })
    }
}

/// The parts of a comma list; none for an empty text.
pub(super) fn split(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split(',').map(str::to_owned).collect() }
}

/// The one directory that was named.
pub(super) fn only_directory(v: &Values, table: &Table) -> Result<PathBuf, ArgError> {
    let mut words = v.list("EXPERIMENT_DIR").unwrap_or_default();
    if words.len() > 1 {
        let error = UsageError::Unrecognized { tokens: words.split_off(1) };
        return Err(ArgError::Usage { command: table.command, error });
    }
    words.pop().map(PathBuf::from).ok_or_else(|| missing(table, "EXPERIMENT_DIR"))
}

fn scale(v: &Values, flag: &'static str) -> Result<ScaleKind, Refusal> {
    let Some(name) = v.maybe_text(flag) else { return Ok(ScaleKind::Linear) };
    let allowed = "linear, log, symlog, asinh, logit or sqrt";
    ScaleKind::from_name(&name).ok_or(Refusal::OutOfRange { flag, value: name, allowed })
}
