//! Notices about flags without effect, which vLLM ignores silently.

use std::path::Path;

use tacho_client::BackendKind;
use tacho_core::json::Value;

use super::ServeArgs;
use crate::args::shared::tags::UNUSED_BY_WORKLOAD;

/// Whether a flag has no effect, the flag, and why.
type Case = (bool, &'static str, &'static str);

impl ServeArgs {
    /// The notices about the given flags, for standard error.
    pub(crate) fn notices(&self) -> Vec<String> {
        let no_effect = |flag: &str, reason: &str| format!("{flag} has no effect: {reason}");
        let mut notices = Vec::new();
        if !self.values.duplicates.is_empty() {
            notices.push(format!("Found duplicate keys {}", self.values.duplicates.join(", ")));
        }
        if let Some(path) = &self.tacho.workload {
            let unused = self.values.set_flags().filter(|flag| flag.has(UNUSED_BY_WORKLOAD));
            notices.extend(unused.map(|flag| no_effect(flag.names[0], "--workload has the requests and their times")));
            if self.saved.is_none() && Path::new(path).is_file() {
                notices.push(format!(
                    "{path} has requests but not how they were sent: backend, model, sampling and headers come from the flags"
                ));
            }
        }
        let cases = self.unused_by_backend().into_iter().chain(self.unused_alone());
        notices.extend(cases.filter(|case| case.0).map(|(_, flag, reason)| no_effect(flag, reason)));
        notices
    }

    /// Flags that the server's API does not use.
    fn unused_by_backend(&self) -> [Case; 8] {
        let (backend, content, goodput) = (self.target.backend(), &self.content, self.report.goodput);
        let (textless, pooling) = (self.is_textless(), self.is_pooling());
        let tpot = goodput.is_some_and(|limits| limits.tpot_ms.is_some());
        let tls = self.base_urls().iter().any(|url| url.starts_with("https"));
        let stream = content.extra_body.as_ref().and_then(|body| body.get("stream"));
        let unstreamed = matches!(stream, Some(Value::Bool(false))) || backend.answers_whole();
        let fixed = backend == BackendKind::VllmRerank;
        [
            (textless && !content.sampling().is_empty(), "a sampling flag", "no text is generated"),
            (pooling && goodput.is_some(), "--goodput", "it is defined for generated text only"),
            (textless && !pooling && tpot, "--goodput tpot", "no tokens are generated"),
            (fixed && content.extra_body.is_some(), "--extra-body", "reranking requests have fixed fields"),
            (unstreamed && self.tacho.first_token_timeout.is_some(), "--first-token-timeout", "answers come whole"),
            (self.tacho.ca_file.is_some() && !tls, "--ca-file", "no address begins with https://"),
            (self.media.omni, "--omni", "the backends of vLLM-Omni are always available"),
            (
                !backend.sends_logprobs() && content.logprobs.is_some() && self.tacho.check_outputs.is_none(),
                "--logprobs",
                "only completions send it",
            ),
        ]
    }

    /// Flags that do nothing without another one.
    fn unused_alone(&self) -> [Case; 9] {
        let (target, load, report) = (&self.target, &self.load, &self.report);
        let unramped = load.ramp_up_strategy.is_none();
        let unsaved = !(report.save_result || report.append_result);
        let no_files = unsaved && !report.plot_timeline && !report.plot_dataset_stats && self.tacho.log.is_none();
        let no_adapters = target.lora_modules.is_none();
        let (itl, no_gaps) = (&report.timeline_itl_thresholds, load.request_rate.is_infinite() && unramped);
        let unset = "--ramp-up-strategy is not set";
        [
            (target.trust_remote_code, "--trust-remote-code", "tacho never runs code from a model repository"),
            (unramped && load.ramp_up_start_rps.is_some(), "--ramp-up-start-rps", unset),
            (unramped && load.ramp_up_end_rps.is_some(), "--ramp-up-end-rps", unset),
            (
                target.model.is_none() && target.served_model_name.is_some(),
                "--served-model-name",
                "without --model the server's own name is used",
            ),
            (no_adapters && target.lora_assignment.is_set, "--lora-assignment", "there are no --lora-modules"),
            (
                report.save_detailed && unsaved,
                "--save-detailed",
                "nothing is saved without --save-result or --append-result",
            ),
            (
                no_files && report.result_filename.is_some(),
                "--result-filename",
                "no result is saved without --save-result or --append-result",
            ),
            (!report.plot_timeline && itl.is_set, "--timeline-itl-thresholds", "--plot-timeline is not set"),
            (no_gaps && load.burstiness.is_set, "--burstiness", "at an infinite rate there are no gaps"),
        ]
    }
}
