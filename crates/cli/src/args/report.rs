//! Flags of `tacho report`.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_core::json::python_float;
use tacho_metrics::{GoodputLimits, MetricKind};
use tacho_run::rebuild::{Changes, Window};

use super::compare::missing;
use super::error::{ArgError, ArgumentError};
use super::serve::{Destination, Outputs, gap_thresholds, goodput, percentile_list};
use crate::args::shared::tags::WRITES;

static REPORT: Group = group("report options", "report options", "Tables and formats.");
static LOG: Group =
    group("options for logs", "options for logs", "Report of a run, from its log or a detailed result.");

static LOG_FILES: Group = group("files of logs", "options for logs", "Files to write from a log.");

pub(crate) static TABLE: Table = Table {
    command: "tacho report",
    about: "Rebuild reports from logs or results; tabulate a directory of results.",
    examples: &[
        ("tacho report run.rows --metric-percentiles 50,90,99", "reports a logged run with other percentiles"),
        ("tacho report run.rows --save-requests requests.parquet", "writes its requests for pandas, polars or DuckDB"),
        (
            "tacho report result.json --html run.html",
            "makes the page of a run, of its log if that is in the same directory",
        ),
        ("tacho report result.json --card run.png", "makes a picture of the result to share"),
        ("tacho report a.json b.json --html both.html", "overlays the distributions of two runs"),
        (
            "tacho report benchmarks.json --html run.html",
            "makes the page of a result of GuideLLM, AIPerf or another tool",
        ),
        ("tacho report results --markdown", "prints tables; --save writes benchmark_results.md and .json there"),
    ],
    groups: &[&REPORT, &LOG_FILES, &LOG],
    flags: rows!(&[HELP], FLAGS),
    ..Table::PLAIN
};

flags! {
    ReportFlags? {
        FLAGS [
            paths: Vec<PathBuf> = tacho(&["DIR"], Rest(usize::MAX), "DIR", Unset, &REPORT,
                "The logs of runs (--log), result files of tacho, vLLM or other tools, or one directory of results. Several logs are reported as one run: requests \
                 sent by several machines. Several result files are runs of their own, for one page with --html. Commands recorded with the results add columns.");
            result: Option<PathBuf> = tacho(&["--result", "-r"], Str, "DIR", Unset, &REPORT, "Directory of results, under the name of vLLM's script.");
            markdown: bool = tacho(&["--markdown"], Switch, "", Off, &REPORT, "Print Markdown tables; this is the default for results.");
            json: bool = tacho(&["--json"], Switch, "", Off, &REPORT, "Print the rows as JSON, as tacho compare reads them.");
            save: bool = tacho(&["--save"], Switch, "", Off, &REPORT,
                "Write benchmark_results.md and benchmark_results.json into the directory.");
            save_benchmark_report: Option<PathBuf> = tacho(&["--save-benchmark-report"], Str, "FILE", Unset, &REPORT,
                "Write the metrics of one run as a benchmark report 0.2 of llm-d (JSON), and nothing else.").tagged(WRITES);
            percentile_metrics: Option<Vec<MetricKind>> = tacho(&["--percentile-metrics"], Str, "NAMES", Unset, &LOG, "Latencies to report, as of tacho serve.") => metrics;
            metric_percentiles: Option<Vec<f64>> = tacho(&["--metric-percentiles"], Str, "LIST", Unset, &LOG, "Percentiles to report, such as 50,90,99.") => percentiles;
            goodput: Option<GoodputLimits> = tacho(&["--goodput"], OneOrMore, "NAME:MS", Unset, &LOG, "SLOs of a request in milliseconds: ttft, tpot or e2el.") => goodput;
            window: Option<Window> = tacho(&["--window"], Str, "START:END", Unset, &LOG,
                "Only requests that ended in this part of the run, in seconds from its start. Throughput is then that of the \
                 window; either side may be left out. `steady` selects the steady-state window.") => window;
            tokenizer: Option<String> = tacho(&["--tokenizer"], Str, "NAME", Unset, &LOG,
                "Tokenizer to count responses again, if its recorded name is not found.");
            save_result: Option<PathBuf> = tacho(&["--save-result"], Str, "FILE", Unset, &LOG_FILES, "Write the result file, as tacho serve does.").tagged(WRITES);
            save_detailed: bool = tacho(&["--save-detailed"], Switch, "", Off, &LOG_FILES, "Include per-request values in the result.");
            plot_timeline: Option<PathBuf> = tacho(&["--plot-timeline"], Str, "FILE", Unset, &LOG_FILES, "Write a timeline page with each request as a row of segments.").tagged(WRITES);
            timeline_itl_thresholds: (f64, f64) = tacho(&["--timeline-itl-thresholds"], Str, "MS,MS", DefaultValue::Str("25,50"), &LOG_FILES,
                "Inter-token latencies at which the timeline changes color.") => thresholds;
            plot_dataset_stats: Option<PathBuf> = tacho(&["--plot-dataset-stats"], Str, "FILE", Unset, &LOG_FILES, "Write a chart (PNG) of prompt and output lengths.").tagged(WRITES);
            html: Option<PathBuf> = tacho(&["--html"], Str, "FILE", Unset, &LOG_FILES,
                "Write an HTML report: verdict, metrics, distributions, time series, the slowest requests.").tagged(WRITES);
            card: Option<PathBuf> = tacho(&["--card"], Str, "FILE", Unset, &LOG_FILES,
                "Write a share card of the run, 1200 by 630 pixels: load, verdict, four metrics, and the command that repeats it. \
                 The name ends in .png or .svg.").tagged(WRITES);
            save_requests: Option<PathBuf> = tacho(&["--save-requests"], Str, "FILE", Unset, &LOG_FILES,
                "Write one row per request: .jsonl, .csv (without lists) or .parquet.").tagged(WRITES);
            summary_json: Option<Destination> = tacho(&["--summary-json"], Str, "FILE", Unset, &LOG_FILES,
                "Write the metrics without lists as one JSON object; - prints it, and the report to standard error.").tagged(WRITES);
            verbose: bool = tacho(&["--verbose"], Switch, "", Off, &LOG, "Print every metric and confidence interval below the report.");
            no_charts: bool = tacho(&["--no-charts"], Switch, "", Off, &LOG, "Print no charts before the report on a terminal.");
        ]
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ReportCommandArgs {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) flags: ReportFlags,
    pub(crate) changes: Changes,
    pub(crate) outputs: Outputs,
    /// Log flags that were given; they do not apply to a results directory.
    pub(crate) log_flags: Vec<&'static str>,
}

impl ReportCommandArgs {
    pub(crate) fn read(v: &Values) -> Result<Self, ArgError> {
        let flags = ReportFlags::parse(v)?;
        let paths: Vec<PathBuf> = flags.paths.iter().chain(&flags.result).cloned().collect();
        if paths.is_empty() {
            return Err(missing(&TABLE, "DIR"));
        }
        let of_logs = |flag: &&Flag| [&LOG, &LOG_FILES].contains(&flag.group);
        Ok(ReportCommandArgs {
            paths,
            changes: Changes {
                percentile_metrics: flags.percentile_metrics.clone(),
                metric_percentiles: flags.metric_percentiles.clone(),
                goodput: flags.goodput,
                window: flags.window,
                tokenizer: flags.tokenizer.clone(),
            },
            outputs: Outputs {
                requests: flags.save_requests.clone(),
                page: flags.html.clone(),
                card: flags.card.clone(),
                summary: flags.summary_json.clone(),
                verbose: flags.verbose,
                no_charts: flags.no_charts,
            },
            log_flags: v.set_flags().filter(of_logs).map(|flag| flag.names[0]).collect(),
            flags,
        })
    }

    /// Whether Markdown is printed. `--save` prints nothing unless a format is requested.
    pub(crate) fn prints_markdown(&self) -> bool {
        self.flags.markdown || !(self.flags.json || self.flags.save)
    }
}

fn percentiles(setting: Setting<'_>) -> Result<Option<Vec<f64>>, ArgumentError> {
    setting.value.as_str().map(percentile_list).transpose()
}

fn thresholds(setting: Setting<'_>) -> Result<(f64, f64), ArgumentError> {
    gap_thresholds(&String::from_flag(setting))
}

fn metrics(setting: Setting<'_>) -> Result<Option<Vec<MetricKind>>, ArgumentError> {
    let kind = |name: &str| MetricKind::ALL.into_iter().find(|kind| kind.name() == name);
    let allowed = "names of ttft, tpot, itl, e2el, client_queue_time and e2el_including_client_queue";
    let unknown = |name: &str| ArgumentError::range(setting.flag, name, allowed);
    let list = setting.value.as_str();
    list.map(|list| list.split(',').map(|name| kind(name).ok_or_else(|| unknown(name))).collect()).transpose()
}

fn window(setting: Setting<'_>) -> Result<Option<Window>, ArgumentError> {
    let text = match setting.value.as_str() {
        None => return Ok(None),
        Some("steady") => return Ok(Some(Window::Steady)),
        Some(text) => text,
    };
    let wrong =
        || ArgumentError::range(setting.flag, text, "START:END in seconds, the start before the end, or steady");
    let (start, end) = text.split_once(':').ok_or_else(wrong)?;
    let side = |text: &str, open: f64| if text.is_empty() { Some(open) } else { python_float(text) };
    match (side(start, 0.0), side(end, f64::INFINITY)) {
        (Some(start), Some(end)) if start >= 0.0 && start < end => Ok(Some(Window::Span(start, end))),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::json::Value;

    fn read<T>(reader: impl Fn(Setting<'_>) -> Result<Option<T>, ArgumentError>, text: &str) -> Option<T> {
        reader(Setting { flag: "--x", value: &Value::from(text), is_set: true }).ok().flatten()
    }

    #[test]
    fn windows_have_a_start_before_their_end() {
        assert_eq!(read(window, "1.5:4"), Some(Window::Span(1.5, 4.0)));
        assert_eq!(read(window, ":4"), Some(Window::Span(0.0, 4.0)));
        assert_eq!(read(window, "3:"), Some(Window::Span(3.0, f64::INFINITY)));
        assert_eq!(read(window, "steady"), Some(Window::Steady));
        for text in ["4:1", "3", "a:b", "-1:2", "2:2", "nan:3"] {
            assert_eq!(read(window, text), None, "{text}");
        }
    }

    #[test]
    fn unknown_latencies_are_refused() {
        assert_eq!(read(metrics, "ttft,e2el"), Some(vec![MetricKind::Ttft, MetricKind::E2el]));
        assert_eq!(read(metrics, "ttft,tpt"), None);
    }
}
