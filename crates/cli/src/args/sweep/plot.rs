//! Flags of `tacho sweep plot`: vLLM's, and additional formats.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_report::plots::ScaleKind;
use tacho_report::plots::sweep::{Binner, Filter, SweepPlotSpec};

use crate::args::compare::missing;
use crate::args::error::{ArgError, ArgumentError};

static OPTIONS: Group = group("plot options", "options", "Variables and scales.");
static FIGURE: Group = group("figure options", "options", "Files and sizes of figures.");
static FORMATS: Group = group("tacho options", "tacho options", "Additions to vLLM's command.");

pub(crate) static TABLE: Table = Table {
    command: "tacho sweep plot",
    about: "Draw curves from the results of a sweep.",
    examples: &[(
        "tacho sweep plot results/exp --curve-by max_num_seqs --var-x max_concurrency --var-y p99_ttft_ms",
        "a curve per max_num_seqs, in results/exp/FIGURE.png",
    )],
    groups: &[&OPTIONS, &FIGURE, &FORMATS],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    PlotFlags? {
        FLAGS [
            directories: Vec<PathBuf> = vllm(&["EXPERIMENT_DIR"], Rest(1), "EXPERIMENT_DIR", Unset, &OPTIONS, "Directory of the sweep; all summary.json files below it are read.");
            fig_dir: String = vllm(&["--fig-dir"], Str, "DIR", DefaultValue::Str(""), &FIGURE, "Directory of figures, inside that of the sweep (default: the same).");
            fig_by: Commas = vllm(&["--fig-by"], Str, "KEYS", DefaultValue::Str(""), &OPTIONS, "Variables with a figure per value, separated by commas.");
            row_by: Commas = vllm(&["--row-by"], Str, "KEYS", DefaultValue::Str(""), &OPTIONS, "Variables with a row of panels per value.");
            col_by: Commas = vllm(&["--col-by"], Str, "KEYS", DefaultValue::Str(""), &OPTIONS, "Variables with a column of panels per value.");
            curve_by: Option<Commas> = vllm(&["--curve-by"], Str, "KEYS", Unset, &OPTIONS, "Variables with a curve per value (default: those that were swept).");
            var_x: String = vllm(&["--var-x"], Str, "KEY", DefaultValue::Str("total_token_throughput"), &OPTIONS, "Variable of the horizontal axis.");
            var_y: String = vllm(&["--var-y"], Str, "KEY", DefaultValue::Str("median_ttft_ms"), &OPTIONS, "Variable of the vertical axis.");
            filter_by: Vec<Filter> = vllm(&["--filter-by"], Str, "RULES", DefaultValue::Str(""), &OPTIONS,
                "Records to keep, such as max_concurrency<1000,n==2. With ==, !=, <=, >=, < and >; all must hold.") => filters;
            bin_by: Vec<Binner> = vllm(&["--bin-by"], Str, "RULES", DefaultValue::Str(""), &OPTIONS,
                "Variables to round down, such as request_throughput%1. Points that fall together are averaged.") => binners;
            scale_x: ScaleKind = vllm(&["--scale-x"], Str, "SCALE", Unset, &FIGURE, "Scale of the horizontal axis. linear, log, symlog, asinh, logit or sqrt.") => scale;
            scale_y: ScaleKind = vllm(&["--scale-y"], Str, "SCALE", Unset, &FIGURE, "Scale of the vertical axis, as for --scale-x.") => scale;
            fig_name: String = vllm(&["--fig-name"], Str, "NAME", DefaultValue::Str("FIGURE"), &FIGURE, "File name of figures; the values of --fig-by follow it.");
            no_error_bars: bool = vllm(&["--no-error-bars"], Switch, "", Off, &FIGURE, "Do not show the spread over runs.");
            fig_height: f64 = vllm(&["--fig-height"], Float, "INCHES", DefaultValue::Float(6.4), &FIGURE, "Side of each panel.").between(1.0, 100.0);
            fig_dpi: i64 = vllm(&["--fig-dpi"], Int, "DPI", DefaultValue::Int(300), &FIGURE, "Dots per inch of PNG files.").between(1.0, 2400.0);
            dry_run: bool = vllm(&["--dry-run"], Switch, "", Off, &FIGURE, "List the figures without drawing them.");
            svg: bool = tacho(&["--svg"], Switch, "", Off, &FORMATS, "Also write each figure as SVG.");
            html: bool = tacho(&["--html"], Switch, "", Off, &FORMATS, "Write an interactive page with all figures.");
            strict_parity: bool = tacho(&["--strict-parity"], Switch, "", Off, &FORMATS, "Without --curve-by, join all points into one line, as vLLM does.");
        ]
    }
}

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
        let flags = PlotFlags::parse(v)?;
        let directory = only_directory(flags.directories, &TABLE)?;
        let one_curve = || flags.strict_parity.then(Vec::new);
        let spec = SweepPlotSpec {
            fig_by: flags.fig_by.0,
            row_by: flags.row_by.0,
            col_by: flags.col_by.0,
            curve_by: flags.curve_by.map(|keys| keys.0).or_else(one_curve),
            x: flags.var_x,
            y: flags.var_y,
            filters: flags.filter_by,
            binners: flags.bin_by,
            scale_x: flags.scale_x,
            scale_y: flags.scale_y,
            name: flags.fig_name,
            error_bars: !flags.no_error_bars,
            panel: flags.fig_height,
        };
        Ok(PlotArgs {
            directory,
            fig_dir: flags.fig_dir,
            spec,
            dpi: flags.fig_dpi,
            dry_run: flags.dry_run,
            svg: flags.svg,
            html: flags.html,
        })
    }
}

/// A comma-separated list; empty for an empty text.
#[derive(Debug, Clone)]
pub(crate) struct Commas(pub(crate) Vec<String>);

impl FromWord for Commas {
    fn from_word(word: &str) -> Self {
        Commas(if word.is_empty() { Vec::new() } else { word.split(',').map(str::to_owned).collect() })
    }
}

pub(super) fn only_directory(mut directories: Vec<PathBuf>, table: &Table) -> Result<PathBuf, ArgError> {
    directories.pop().ok_or_else(|| missing(table, "EXPERIMENT_DIR"))
}

fn filters(setting: Setting<'_>) -> Result<Vec<Filter>, ArgumentError> {
    parsed(setting, Filter::parse)
}

fn binners(setting: Setting<'_>) -> Result<Vec<Binner>, ArgumentError> {
    parsed(setting, Binner::parse)
}

fn parsed<T>(setting: Setting<'_>, parse: fn(&str) -> Result<T, tacho_report::Error>) -> Result<Vec<T>, ArgumentError> {
    let rule = |text: &String| parse(text).map_err(|error| ArgumentError::other(error.to_string()));
    Commas::from_flag(setting).0.iter().map(rule).collect()
}

fn scale(setting: Setting<'_>) -> Result<ScaleKind, ArgumentError> {
    let Some(name) = setting.value.as_str() else { return Ok(ScaleKind::Linear) };
    let allowed = "linear, log, symlog, asinh, logit or sqrt";
    ScaleKind::from_name(name).ok_or_else(|| ArgumentError::range(setting.flag, name, allowed))
}
