//! Values of `tacho serve` that follow from several flags: addresses, adapters, lengths, the load of the simulator.

use tacho_args::repr::quoted;
use tacho_client::{Balance, Task, host_and_port};
use tacho_core::AudioFormat;
use tacho_core::json::{Value, float_repr, parse, python_float};
use tacho_decide::threshold::Threshold;
use tacho_text::TokenizerMode;
use tacho_workload::{LengthPlan, RequestLengths};

use super::{DatasetArgs, MultiTurnFlags, ReportArgs, ServeArgs, TargetArgs, lists, replicas::split_urls, stops};
use crate::args::check::thresholds;
use crate::args::error::ArgumentError;

/// Bytes of a sample of PCM audio.
const SAMPLE_BYTES: u16 = 2;

impl ServeArgs {
    /// The weights of `--lora-weights`, one for each adapter; empty if they are equal.
    pub(crate) fn lora_weights(&self) -> Result<Vec<f64>, ArgumentError> {
        let Some(text) = &self.tacho.lora_weights else { return Ok(Vec::new()) };
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
        let default =
            if self.tacho.strict_parity { "/v1/completions" } else { self.target.backend().default_endpoint() };
        match self.target.endpoint.typed() {
            // The trailing slash of the address, which would separate them, has been removed.
            Some(path) if !self.tacho.strict_parity && !path.starts_with('/') && !path.is_empty() => format!("/{path}"),
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
            Some(url) if self.tacho.strict_parity => vec![url.clone()],
            Some(urls) => split_urls(urls).into_iter().map(shortened).collect(),
            None => vec![format!("http://{}", host_and_port(&self.target.host, self.target.port))],
        }
    }

    /// Whether servers generate past the end-of-sequence token: always if prompts have no natural response.
    pub(crate) fn ignore_eos(&self) -> bool {
        let sampled = self.tacho.workload.is_none();
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
        thresholds(&self.tacho.fail_if)
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

impl ServeArgs {
    /// Completes the load of `--sim`, unless flags set parts of it: a server whose latencies are well above the error of
    /// a client on a shared machine, and lengths that keep it far from its capacity.
    pub(super) fn fill_moderate_load(&mut self) {
        if !self.has_moderate_load() {
            return;
        }
        if self.tacho.sim_args.is_none() {
            self.tacho.sim_profile.get_or_insert_with(|| "h100-8b".to_owned());
        }
        let flags = &mut self.dataset.flags;
        for (length, tokens) in [(&mut flags.random_input_len, 256), (&mut flags.random_output_len, 32)] {
            if !length.is_set {
                length.value = tokens;
            }
        }
    }

    /// Whether the load is that of `--sim` rather than vLLM's.
    pub(crate) fn has_moderate_load(&self) -> bool {
        self.tacho.has_moderate_load(&self.values) && self.arrivals().is_empty()
    }

    /// The format of generated audio without a header.
    pub(crate) fn pcm(&self) -> AudioFormat {
        let rate = u32::try_from(self.media.pcm_sample_rate).unwrap_or(u32::MAX);
        let frame_bytes = SAMPLE_BYTES.saturating_mul(u16::try_from(self.media.pcm_channels).unwrap_or(1));
        AudioFormat { rate, frame_bytes }
    }

    /// The distributions of the lengths: those of each stage, or of the whole run.
    pub(crate) fn length_plan(&self) -> Result<LengthPlan, tacho_workload::Error> {
        let flags = &self.dataset.flags;
        let of = |own: &[Option<String>; 2]| {
            let [input, output] = [(&own[0], &flags.input_len_dist), (&own[1], &flags.output_len_dist)]
                .map(|(own, general)| own.as_deref().or(general.as_deref()));
            RequestLengths::parse(input, output)
        };
        let stages: Vec<_> = self.stages.lengths().collect();
        let all_default = stages.iter().all(|(_, own)| own.iter().all(Option::is_none));
        if all_default {
            let given = flags.input_len_dist.is_some() || flags.output_len_dist.is_some();
            let whole = given.then(|| of(&[None, None])).transpose()?;
            return Ok(LengthPlan(whole.into_iter().map(|lengths| (0, lengths)).collect()));
        }
        let parts = stages.into_iter().map(|(requests, own)| Ok((requests, of(own)?)));
        parts.collect::<Result<_, _>>().map(LengthPlan)
    }

    /// Whether requests are generated until the duration ends.
    pub(crate) fn goes_on(&self) -> bool {
        self.stops.duration.is_some() && !stops::is_counted(&self.values) && self.arrivals().is_empty()
    }

    pub(crate) fn balance(&self) -> Balance {
        let bytes = usize::try_from(self.replicas.balance_prefix_len).unwrap_or(usize::MAX);
        if self.replicas.balance == Balance::Prefix(0) { Balance::Prefix(bytes) } else { self.replicas.balance }
    }

    /// The requested conversations.
    pub(crate) fn multi_turn(&self) -> Option<MultiTurnFlags> {
        MultiTurnFlags::read(&self.values, &self.dataset.flags)
    }
}

impl TargetArgs {
    pub(crate) fn mode(&self) -> TokenizerMode {
        TokenizerMode::parse(&self.tokenizer_mode).unwrap_or_default()
    }
}

impl ReportArgs {
    /// Thresholds in ms at which gaps change color in the timeline, in the given order.
    pub(crate) fn thresholds(&self) -> Result<(f64, f64), ArgumentError> {
        lists::gap_thresholds(&self.timeline_itl_thresholds.value)
    }
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
