//! Flags of `tacho serve` for results.

use std::path::PathBuf;

use tacho_args::declare::*;
use tacho_core::secret::{REDACTED, is_secret_name};
use tacho_metrics::GoodputLimits;

use super::groups::{FILES, LOG, REPORT};
use super::lists::{goodput, pairs, percentile_list};
use crate::args::error::ArgumentError;
use crate::args::shared::tags::{ONE_RUN, PER_CLASS, WRITES};

flags! {
    ReportArgs? {
        LABEL [
            label: Option<String> = vllm(&["--label"], Str, "NAME", Unset, &FILES,
                "Label of the result, and prefix of its file name. Without it the name starts with the backend.");
        ]
        PROGRESS [
            disable_tqdm: bool = vllm(&["--disable-tqdm"], Switch, "", Off, &REPORT, "Show no progress bars.");
        ]
        RESULT [
            save_result: bool = vllm(&["--save-result"], Switch, "", Off, &FILES, "Write the result as JSON; an older file is replaced.");
            save_detailed: bool = vllm(&["--save-detailed"], Switch, "", Off, &FILES,
                "Include per-request values in the result, for comparisons. Needs --save-result or --append-result.");
            append_result: bool = vllm(&["--append-result"], Switch, "", Off, &FILES, "Append the result to the file, one JSON document per line.");
            metadata: Vec<(String, String)> = vllm(&["--metadata"], AnyNumber, "KEY=VALUE", Unset, &FILES,
                "Key-value pairs to store in the result, such as version=0.6.0. Values are stored as text.") => metadata;
            result_dir: Option<String> = vllm(&["--result-dir"], Str, "DIR", Unset, &FILES, "Directory of the result files; created if missing.");
            result_filename: Option<String> = vllm(&["--result-filename"], Str, "FILE", Unset, &FILES,
                "Name of the result file (default: backend, rate, model and time).").tagged(WRITES);
        ]
        METRICS [
            percentile_metrics: Option<String> = vllm(&["--percentile-metrics"], Str, "NAMES", Unset, &REPORT,
                "Latencies to report: ttft, tpot, itl, e2el, client_queue_time, e2el_including_client_queue; of generated speech \
                 audio_ttfp, audio_rtf, audio_duration, audio_underrun. Separated by commas; default ttft,tpot,itl, or e2el for \
                 responses that are not streamed, and all of speech.");
            metric_percentiles: Vec<f64> = vllm(&["--metric-percentiles"], Str, "LIST", DefaultValue::Str("99"), &REPORT,
                "Percentiles to report, from 0 to 100, such as 50,90,99.") => percentiles;
            goodput: Option<GoodputLimits> = vllm(&["--goodput"], OneOrMore, "NAME:MS", Unset, &REPORT,
                "SLOs of a request in milliseconds: ttft, tpot or e2el; ttft of speech is the first audio. --goodput ttft:200 e2el:5000 reports the rate of requests \
                 that meet all of them.").tagged(PER_CLASS) => goodput;
        ]
        PLOTS [
            plot_timeline: bool = vllm(&["--plot-timeline"], Switch, "", Off, &FILES,
                "Write an HTML timeline of all requests next to the result, also without --save-result.");
            timeline_itl_thresholds: FlagValue<String> = vllm(&["--timeline-itl-thresholds"], Str, "MS,MS", DefaultValue::Str("25,50"), &FILES,
                "Two ITL thresholds, in milliseconds, that set the colors of the timeline.");
            plot_dataset_stats: bool = vllm(&["--plot-dataset-stats"], Switch, "", Off, &FILES,
                "Write a chart (PNG) of prompt and output lengths next to the result, also without --save-result.");
        ]
    }
}

flags! {
    /// Files next to the result, and console output.
    #[derive(Default)]
    Outputs {
        PAGE [
            page: Option<PathBuf> = tacho(&["--report"], Str, "FILE", Unset, &LOG,
                "Write an HTML report: verdict, metrics, distributions, time series, the slowest requests. One self-contained file.").tagged(WRITES).tagged(ONE_RUN);
            card: Option<PathBuf> = tacho(&["--card"], Str, "FILE", Unset, &LOG,
                "Write a share card of the result, 1200 by 630 pixels: load, verdict, four metrics, and the command that repeats the \
                 run. The name ends in .png or .svg.").tagged(WRITES).tagged(ONE_RUN);
        ]
        FILES_ROWS [
            requests: Option<PathBuf> = tacho(&["--save-requests"], Str, "FILE", Unset, &FILES,
                "Write one row per request: .jsonl, .csv (without lists) or .parquet.").tagged(WRITES).tagged(ONE_RUN);
            summary: Option<Destination> = tacho(&["--summary-json"], Str, "FILE", Unset, &FILES,
                "Write the metrics without lists as one JSON object. - writes it to standard output, and the report to standard error.").tagged(WRITES).tagged(ONE_RUN);
        ]
        CONSOLE [
            verbose: bool = switch(&["--verbose"], &REPORT, "Print every metric and confidence interval below the report.");
            no_charts: bool = switch(&["--no-charts"], &REPORT, "Print no charts before the report on a terminal.");
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// `-`: standard output, which then has no other output.
    Stdout,
    File(PathBuf),
}

impl FromWord for Destination {
    fn from_word(word: &str) -> Self {
        match word {
            "-" => Destination::Stdout,
            file => Destination::File(file.into()),
        }
    }
}

/// Metadata to store. Redacts values whose name looks like a secret.
fn metadata(setting: Setting<'_>) -> Result<Vec<(String, String)>, ArgumentError> {
    let mut facts = pairs(setting)?;
    for (_, value) in facts.iter_mut().filter(|(name, _)| is_secret_name(name)) {
        *value = REDACTED.to_owned();
    }
    Ok(facts)
}

fn percentiles(setting: Setting<'_>) -> Result<Vec<f64>, ArgumentError> {
    percentile_list(&String::from_flag(setting))
}
