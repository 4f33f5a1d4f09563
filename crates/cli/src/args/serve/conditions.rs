//! Conditions on metrics, of `--fail-if`, `--until`, `--slo` and `--max-regression`: rejected before a run that cannot report
//! the metric, or that does not have the class or stage.

use std::collections::BTreeSet;

use tacho_args::repr::quoted;
use tacho_client::Task;
use tacho_core::live::Output;
use tacho_record::ResultKind;
use tacho_record::groups::split;
use tacho_record::metric::{Known, Metric, Part};

use super::ServeArgs;
use crate::args::error::ArgumentError;

impl ServeArgs {
    pub(super) fn check_own_conditions(&self) -> Result<(), ArgumentError> {
        for one in self.thresholds()? {
            self.check_condition("--fail-if", &one.text, one.group.as_deref(), &one.key)?;
        }
        self.stops
            .until
            .as_ref()
            .map_or(Ok(()), |until| self.check_condition("--until", &until.metric, None, &until.metric))
    }

    /// Checks the metric of a condition, which can be one of a class or stage (`class.chat.p99_ttft_ms`).
    pub(crate) fn check_metric(&self, flag: &str, metric: &str) -> Result<(), ArgumentError> {
        let (group, key) = split(metric);
        self.check_condition(flag, metric, group, key)
    }

    fn check_condition(&self, flag: &str, text: &str, group: Option<&str>, key: &str) -> Result<(), ArgumentError> {
        let invalid = |problem: String| ArgumentError::other(format!("{flag} {}: {problem}", quoted(text)));
        if let Some(problem) = Known::find(key).and_then(|known| self.missing(known)) {
            return Err(invalid(problem));
        }
        match group.and_then(|group| self.missing_group(group)) {
            Some(names) if names.is_empty() => {
                Err(invalid("no such class or stage; the run has none: see --class and --stages".to_owned()))
            }
            Some(names) => Err(invalid(format!("no such class or stage; use one of {}", names.join(", ")))),
            None => Ok(()),
        }
    }

    /// Why the run does not report a metric.
    fn missing(&self, known: Known) -> Option<String> {
        if known.kind() != ResultKind::Serving {
            return Some("tacho serve does not report this metric; tacho help metrics lists those it does".to_owned());
        }
        let flag = known.flag();
        let has_turns = flag == "--sessions" && self.values.is_set("--multi-turn");
        let in_class = || self.classes.iter().any(|class| class.args.values.is_set(flag));
        if !flag.is_empty() && !self.values.is_set(flag) && !has_turns && !in_class() {
            return Some(format!("the metric is reported only with {flag}: add {flag}"));
        }
        let backend = self.target.backend();
        let (task, is_audio) = (backend.task(), backend.output() == Output::Audio);
        let is_reported = match known {
            Known::Row(Metric { part: Part::Audio, .. }) => is_audio,
            Known::Row(Metric { part: Part::Images, .. }) => task == Task::Media && !is_audio,
            Known::Row(Metric { key: "output_throughput" | "total_output_tokens", .. }) => task == Task::Generation,
            Known::Timed(timed) if timed.times.is_audio() => is_audio,
            Known::Timed(timed) => task == Task::Generation || !["ttft", "tpot", "itl"].contains(&timed.times.name),
            _ => true,
        };
        (!is_reported).then(|| format!("--backend {} does not report this metric: choose another", backend.name()))
    }

    /// The classes and stages of the run, if none of them is this one. Names of replicas, adapters and the categories of a dataset
    /// are known later.
    fn missing_group(&self, path: &str) -> Option<Vec<String>> {
        let labeled = ["--lora-modules", "--response-header", "--workload"];
        let several = self.target.base_url.as_ref().is_some_and(|urls| urls.contains(','));
        let has_categories = ["spec_bench", "speed_bench"].contains(&self.dataset.flags.dataset_name.as_str());
        if several || has_categories || self.replicas.resolve_all || self.values.set_of(labeled).next().is_some() {
            return None;
        }
        let classes = self.classes.iter().map(|class| format!("class.{}", class.name));
        let stages = self.stages.stages.iter().flat_map(|stages| stages.spans());
        let models = || self.classes.iter().map(|class| &class.args.target.model);
        let several = models().any(|model| *model != self.target.model);
        let models: BTreeSet<&String> = models().flatten().filter(|_| several).collect();
        let models = models.into_iter().map(|model| format!("model.{model}"));
        let names: Vec<String> =
            classes.chain(models).chain(stages.map(|stage| format!("stage.{}", stage.name))).collect();
        let is = |name: &&String| *name == path || name.split_once('.').is_some_and(|(_, name)| name == path);
        (names.iter().filter(is).count() != 1).then_some(names)
    }
}
