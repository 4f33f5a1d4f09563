//! Notices about flags without effect, which vLLM ignores silently.

use tacho_client::BackendKind;
use tacho_core::json::Value;

use super::ServeArgs;
use super::saved::WITHOUT_EFFECT;

/// A notice for standard error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Flags were given more than once.
    Duplicates(Vec<String>),
    NoEffect {
        flag: &'static str,
        reason: &'static str,
    },
    /// A workload file without the settings of its requests.
    WithoutSettings(String),
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Notice::Duplicates(flags) => write!(f, "Found duplicate keys {}", flags.join(", ")),
            Notice::NoEffect { flag, reason } => write!(f, "{flag} has no effect: {reason}"),
            Notice::WithoutSettings(path) => {
                write!(
                    f,
                    "{path} has requests but not how they were sent: backend, model, sampling and headers come from the flags"
                )
            }
        }
    }
}

impl ServeArgs {
    /// Returns the notices about the given flags.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        let duplicates = &self.values.duplicates;
        let mut notices: Vec<Notice> =
            (!duplicates.is_empty()).then(|| Notice::Duplicates(duplicates.clone())).into_iter().collect();
        let (target, load) = (&self.target, &self.load);
        let ramped = load.ramp_up_strategy.is_some();
        let saved = self.report.save_result || self.report.append_result;
        let pooling = self.is_pooling();
        let tls = self.base_urls().iter().any(|url| url.starts_with("https"));
        let stream = self.content.extra_body.as_ref().and_then(|body| body.get("stream"));
        let unstreamed = matches!(stream, Some(Value::Bool(false)));
        let whole = unstreamed || target.backend().answers_whole();
        let cases = [
            (self.is_textless() && !self.content.sampling().is_empty(), "a sampling flag", "no text is generated"),
            (pooling && self.report.goodput.is_some(), "--goodput", "it is defined for generated text only"),
            (
                self.is_textless()
                    && !pooling
                    && self.report.goodput.iter().flatten().any(|slo| slo.starts_with("tpot")),
                "--goodput tpot",
                "no tokens are generated",
            ),
            (
                target.backend() == BackendKind::VllmRerank && self.content.extra_body.is_some(),
                "--extra-body",
                "reranking requests have fixed fields",
            ),
            (whole && self.own.first_token_timeout.is_some(), "--first-token-timeout", "answers come whole"),
            (self.own.ca_file.is_some() && !tls, "--ca-file", "the server is not spoken to over TLS"),
            (self.media.omni, "--omni", "the backends of vLLM-Omni are always available"),
            (target.trust_remote_code, "--trust-remote-code", "tacho never runs code from a model repository"),
            (
                !target.backend().sends_logprobs() && self.content.logprobs.is_some(),
                "--logprobs",
                "only completions send it",
            ),
            (!ramped && load.ramp_up_start_rps.is_some(), "--ramp-up-start-rps", "--ramp-up-strategy is not set"),
            (!ramped && load.ramp_up_end_rps.is_some(), "--ramp-up-end-rps", "--ramp-up-strategy is not set"),
            (
                target.model.is_none() && target.served_model_name.is_some(),
                "--served-model-name",
                "without --model the server's own name is used",
            ),
            (
                target.lora_modules.is_none() && target.lora_assignment.is_given,
                "--lora-assignment",
                "there are no --lora-modules",
            ),
            (
                self.report.save_detailed && !saved,
                "--save-detailed",
                "nothing is saved without --save-result or --append-result",
            ),
            (
                !(saved || self.report.plot_timeline || self.report.plot_dataset_stats || self.own.log.is_some())
                    && self.report.result_filename.is_some(),
                "--result-filename",
                "no result is saved without --save-result or --append-result",
            ),
            (
                !self.report.plot_timeline && self.report.timeline_itl_thresholds.is_given,
                "--timeline-itl-thresholds",
                "--plot-timeline is not set",
            ),
            (
                load.request_rate.is_infinite() && !ramped && load.burstiness.is_given,
                "--burstiness",
                "at an infinite rate there are no gaps",
            ),
        ];
        if let Some(path) = &self.own.workload {
            let reason = "--workload has the requests and their times";
            let ignored = self.values.given_of(WITHOUT_EFFECT);
            notices.extend(ignored.map(|flag| Notice::NoEffect { flag, reason }));
            notices.extend(self.saved.is_none().then(|| Notice::WithoutSettings(path.clone())));
        }
        notices
            .extend(cases.into_iter().filter(|case| case.0).map(|(_, flag, reason)| Notice::NoEffect { flag, reason }));
        notices
    }
}
