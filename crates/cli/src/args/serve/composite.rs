//! Flags with structured text: URLs, `KEY=VALUE` items, SLOs, percentiles, the range ratio.

use std::collections::BTreeSet;

use tacho_args::declare::*;
use tacho_args::repr::quoted;
use tacho_client::{Task, host_and_port};
use tacho_core::json::{Value, float_repr, parse, python_float};
use tacho_core::secret::redact_header_text;
use tacho_decide::threshold::Threshold;
use tacho_metrics::GoodputLimits;
use tacho_text::TokenizerMode;

use super::{DatasetArgs, ReportArgs, ServeArgs, TargetArgs, replicas::split_urls};
use crate::args::check::thresholds;
use crate::args::error::{ArgumentError, bad_percentile};

impl ServeArgs {
    /// The weights of `--lora-weights`, one for each adapter; empty if they are equal.
    pub(crate) fn lora_weights(&self) -> Result<Vec<f64>, ArgumentError> {
        let Some(text) = &self.own.lora_weights else { return Ok(Vec::new()) };
        let count = self.target.lora_modules.as_ref().map_or(0, Vec::len);
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && number.is_finite());
        let weights: Option<Vec<f64>> = match text.strip_prefix("zipf:") {
            Some(exponent) => number(exponent).map(|by| (1..=count).map(|rank| (rank as f64).powf(-by)).collect()),
            None => text.split(',').map(number).collect(),
        };
        weights
            .filter(|weights| weights.len() == count)
            .ok_or_else(|| ArgumentError::other(format!(
                "--lora-weights {}: write a number above 0 for each of the {count} adapters, such as 8,3,1, or zipf:1.1",
                quoted(text)
            )))
    }

    /// The API path: the given one, or the backend's default. vLLM has the same default for all backends.
    pub(crate) fn endpoint(&self) -> String {
        let default = if self.own.strict_parity { "/v1/completions" } else { self.target.backend().default_endpoint() };
        match self.target.endpoint.typed() {
            // The trailing slash of the address, which would separate them, has been removed.
            Some(path) if !self.own.strict_parity && !path.starts_with('/') && !path.is_empty() => format!("/{path}"),
            Some(path) => path.clone(),
            None => default.to_owned(),
        }
    }

    /// The address of the server, or of the first one.
    pub(crate) fn base_url(&self) -> String {
        self.base_urls().swap_remove(0)
    }

    /// The servers' addresses, at least one, without a trailing slash or `/v1`, which vLLM would duplicate.
    pub(crate) fn base_urls(&self) -> Vec<String> {
        let shortened = |url: &str| {
            let url = url.trim_end_matches('/');
            // Other tools expect the API's address, vLLM's command the server's.
            let doubled = url.strip_suffix("/v1").filter(|_| self.endpoint().starts_with("/v1/"));
            doubled.unwrap_or(url).to_owned()
        };
        match &self.target.base_url {
            Some(url) if self.own.strict_parity => vec![url.clone()],
            Some(urls) => split_urls(urls).into_iter().map(shortened).collect(),
            None => vec![format!("http://{}", self.target.authority())],
        }
    }

    /// Whether servers generate past the end-of-sequence token: always if prompts have no natural response.
    pub(crate) fn ignore_eos(&self) -> bool {
        let sampled = self.own.workload.is_none();
        let trace = self.dataset.kind.name == "timed_trace";
        let forced = self.dataset.kind.ignores_eos && (trace || self.target.backend().is_openai_compatible());
        self.content.ignore_eos || sampled && forced
    }

    /// Whether requests are sent at the timestamps of the dataset.
    pub(crate) fn self_timed(&self) -> bool {
        self.dataset.has_times() && self.load.self_timed.unwrap_or(self.dataset.is_trace())
    }

    pub(crate) fn api_url(&self) -> String {
        self.base_url() + &self.endpoint()
    }
}

impl ServeArgs {
    pub(crate) fn thresholds(&self) -> Result<Vec<Threshold>, ArgumentError> {
        thresholds(&self.own.fail_if)
    }

    /// Refuses conditions on a class or stage that the run does not have. Names of replicas, adapters and the categories of a
    /// dataset are known later.
    pub(super) fn check_groups(&self) -> Result<(), ArgumentError> {
        let labeled = ["--lora-modules", "--response-header", "--workload"];
        let several = self.target.base_url.as_ref().is_some_and(|urls| urls.contains(','));
        let has_categories = ["spec_bench", "speed_bench"].contains(&self.dataset.flags.dataset_name.as_str());
        if several || has_categories || self.replicas.resolve_all || self.values.given_of(labeled).next().is_some() {
            return Ok(());
        }
        let classes = self.classes.iter().map(|class| format!("class.{}", class.name));
        let stages = self.stages.stages.iter().flat_map(|stages| stages.spans());
        let models = || self.classes.iter().map(|class| &class.args.target.model);
        let several = models().any(|model| *model != self.target.model);
        let models: BTreeSet<&String> = models().flatten().filter(|_| several).collect();
        let models = models.into_iter().map(|model| format!("model.{model}"));
        let names: Vec<String> =
            classes.chain(models).chain(stages.map(|stage| format!("stage.{}", stage.name))).collect();
        let matches = |path: &str| {
            let is = |name: &&String| *name == path || name.split_once('.').is_some_and(|(_, name)| name == path);
            names.iter().filter(is).count()
        };
        match self.thresholds()?.into_iter().find(|one| one.group.as_ref().is_some_and(|path| matches(path) != 1)) {
            Some(Threshold { text, .. }) => {
                let known = match names.is_empty() {
                    true => "the run has none".to_owned(),
                    false => format!("use one of {}", names.join(", ")),
                };
                Err(ArgumentError::other(format!("--fail-if {}: no such class or stage; {known}", quoted(&text))))
            }
            None => Ok(()),
        }
    }

    /// The latencies to report; unknown names are kept and select nothing.
    pub(crate) fn percentile_metrics(&self) -> Vec<String> {
        let typed = self.report.percentile_metrics.as_deref().filter(|names| !names.is_empty());
        let default = match self.target.backend().task() {
            Task::Generation => "ttft,tpot,itl",
            Task::Pooling => "e2el",
            Task::Media => "e2el,audio_ttfp,audio_rtf,audio_duration,audio_underrun",
        };
        typed.unwrap_or(default).split(',').map(str::to_owned).collect()
    }
}

impl TargetArgs {
    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }

    /// Host and port, with brackets around an IPv6 address.
    fn authority(&self) -> String {
        host_and_port(&self.host, self.port)
    }
}

impl ReportArgs {
    /// Thresholds in ms at which gaps change color in the timeline, in the given order.
    pub(crate) fn thresholds(&self) -> Result<(f64, f64), ArgumentError> {
        gap_thresholds(&self.timeline_itl_thresholds.value)
    }
}

/// Two thresholds in ms, in the format of `--timeline-itl-thresholds`.
pub(crate) fn gap_thresholds(text: &str) -> Result<(f64, f64), ArgumentError> {
    let numbers: Option<Vec<f64>> = text.split(',').map(python_float).collect();
    match numbers.as_deref() {
        Some(&[low, high]) if low.is_finite() && high.is_finite() => Ok((low, high)),
        _ => Err(ArgumentError::other(format!(
            "--timeline-itl-thresholds {}: use two numbers of milliseconds, such as 25,50",
            quoted(text)
        ))),
    }
}

pub(crate) fn percentile_list(list: &str) -> Result<Vec<f64>, ArgumentError> {
    let percentile = |item: &str| {
        let number = python_float(item).filter(|number| (0.0..=100.0).contains(number));
        number.ok_or_else(|| bad_percentile(item))
    };
    list.split(',').map(percentile).collect()
}

/// The SLOs of `--goodput`, such as `ttft:200`; the last one of a name counts.
pub(crate) fn goodput(setting: Setting<'_>) -> Result<Option<GoodputLimits>, ArgumentError> {
    let Some(items) = Option::<Vec<String>>::from_flag(setting) else { return Ok(None) };
    let mut limits = GoodputLimits::default();
    for item in &items {
        let wrong = |problem: &str| ArgumentError::other(format!("--goodput {}: {problem}", quoted(item)));
        let form = || wrong("write NAME:MILLISECONDS, such as ttft:200");
        let (name, limit) = item.split_once(':').ok_or_else(form)?;
        let ms = python_float(limit).ok_or_else(form)?;
        let known = match name {
            "ttft" => &mut limits.ttft_ms,
            "tpot" => &mut limits.tpot_ms,
            "e2el" => &mut limits.e2el_ms,
            _ => return Err(wrong(&format!("no SLO on {}: use ttft, tpot or e2el", quoted(name)))),
        };
        *known = Some(ms).filter(|ms| *ms >= 0.0).ok_or_else(|| wrong("an SLO is 0 ms or more")).map(Some)?;
    }
    Ok(Some(limits))
}

/// Splits items at the first `=` and trims both sides.
pub(crate) fn pairs(setting: Setting<'_>) -> Result<Vec<(String, String)>, ArgumentError> {
    let flag = setting.flag;
    let pair = |item: String| match item.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => {
            let shown = if flag == "--header" { redact_header_text(&item) } else { item };
            Err(ArgumentError::other(format!("{flag} {}: write KEY=VALUE", quoted(&shown))))
        }
    };
    Vec::<String>::from_flag(setting).into_iter().map(pair).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RangeRatio {
    pub(crate) input: f64,
    pub(crate) output: f64,
    /// As stored by vLLM: one number, or the given object.
    pub(crate) value: Value,
}

impl DatasetArgs {
    pub(crate) fn input_len(&self) -> i64 {
        self.flags.input_len.unwrap_or(self.flags.random_input_len.value)
    }

    pub(crate) fn output_len(&self) -> i64 {
        self.flags.output_len.unwrap_or(self.flags.random_output_len.value)
    }

    pub(crate) fn range_ratio(&self) -> Result<RangeRatio, ArgumentError> {
        let text = &self.flags.random_range_ratio;
        let refusal = |problem: String| {
            ArgumentError::other(format!(
                "--random-range-ratio {}: {problem}; use a number from 0 up to but not including 1, or both: \
                 '{{\"input\": 0.3, \"output\": 0.5}}'",
                quoted(text)
            ))
        };
        let unread =
            || refusal("it is neither a number nor an object of 'input' and 'output' with a number each".into());
        let tacho_workload::RangeRatio { input, output } =
            tacho_workload::RangeRatio::parse(text).map_err(|_| unread())?;
        let value = python_float(text).map_or_else(|| parse(text), |ratio| Ok(Value::Float(ratio)));
        let value = value.map_err(|_| unread())?;
        let sides = [("input", input), ("output", output)];
        match sides.into_iter().find(|(_, side)| !(0.0..1.0).contains(side)) {
            Some((name, side)) if value.as_dict().is_some() => Err(refusal(format!("{name} is {}", float_repr(side)))),
            Some((_, side)) => Err(refusal(format!("it is {}", float_repr(side)))),
            None => Ok(RangeRatio { input, output, value }),
        }
    }
}
