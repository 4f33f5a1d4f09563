//! One file per dataset, and the single list of them: module, settings, row, variant, sampler. A new dataset needs its
//! file, its lines here, and its command-line flags.

mod burstgpt;
mod custom;
mod custom_audio;
mod custom_image;
mod hf;
pub(crate) mod kind;
mod mix;
mod mooncake;
pub(crate) mod names;
mod openai;
mod prefix_repetition;
mod random;
mod random_mm;
mod random_rerank;
mod rows;
mod servegen;
pub(crate) mod shared_prefix;
mod sharegpt;
pub(crate) mod slices;
mod sonnet;
mod spec_bench;
mod speed_bench;
pub(crate) mod timed_trace;

pub use burstgpt::{BurstGptSpec, BurstReplaySpec};
pub use custom::{CustomReplaySpec, CustomSpec};
pub use custom_audio::CustomAudioSpec;
pub use custom_image::CustomImageSpec;
pub use hf::{HfSpec, HfTextSpec};
pub use mix::{ClassSpec, MixOrder, MixSpec};
pub use mooncake::MooncakeSpec;
pub use openai::OpenAiSpec;
pub use prefix_repetition::PrefixRepetitionSpec;
pub(crate) use random::allowed_tokens;
pub use random::{CachedShare, RandomSpec};
pub use random_mm::RandomMmSpec;
pub use random_rerank::RandomRerankSpec;
pub use rows::{RowSource, RowsSpec};
pub use servegen::ServeGenSpec;
pub use shared_prefix::SharedPrefixSpec;
pub use sharegpt::ShareGptSpec;
pub use sonnet::SonnetSpec;
pub use spec_bench::SpecBenchSpec;
pub use speed_bench::SpeedBenchSpec;
pub use timed_trace::TimedTraceSpec;

use tacho_core::{Counters, EventSink, Request};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;

use crate::datasets::kind::Offline::{Listed, WithFile};
use crate::datasets::kind::Rows::{Generated, ReadWhole};
use crate::datasets::kind::{DatasetKind, Times};
use crate::hub::{Hub, HubError};
use crate::requests::carrier::Need::{Chat, Media, TokenIds};
use crate::scenarios::{self, LongDocumentSpec, PrefixCachingSpec, PrioritizationSpec, StructuredSpec};
use crate::{Error, sampling::context::SampleContext, sampling::length_dist::LengthPlan, sampling::sampled::Sampled};

/// The datasets: vLLM's in its order, then tacho's own.
#[rustfmt::skip]
pub const DATASETS: &[DatasetKind] = &[
    DatasetKind { offline: Listed(0), ..DatasetKind::vllm("sharegpt") },
    DatasetKind { fixed_output: true, offline: Listed(2), times: Times::Some, ..DatasetKind::vllm("burstgpt") },
    DatasetKind { offline: Listed(1), rows: Generated, ignores_eos: true, aligns_with_server: true, ..DatasetKind::vllm("random") },
    DatasetKind { offline: Listed(5), rows: Generated, ignores_eos: true, needs: Some(Media), ..DatasetKind::vllm("random-mm") },
    DatasetKind { fixed_output: true, offline: Listed(6), rows: Generated, ..DatasetKind::vllm("random-rerank") },
    DatasetKind { offline: Listed(3), ..DatasetKind::vllm("hf") },
    DatasetKind { offline: WithFile, rows: ReadWhole, times: Times::Some, works_without_tokenizer: true, ..DatasetKind::vllm("custom") },
    DatasetKind { offline: Listed(7), rows: ReadWhole, works_without_tokenizer: true, ..DatasetKind::vllm("custom_audio") },
    DatasetKind { offline: WithFile, rows: ReadWhole, works_without_tokenizer: true, ..DatasetKind::vllm("custom_image") },
    DatasetKind { offline: Listed(4), rows: Generated, aligns_with_server: true, ..DatasetKind::vllm("prefix_repetition") },
    DatasetKind { offline: WithFile, rows: ReadWhole, ..DatasetKind::vllm("spec_bench") },
    DatasetKind { offline: WithFile, rows: ReadWhole, ..DatasetKind::vllm("speed_bench") },
    DatasetKind { fixed_output: true, offline: WithFile, times: Times::All, needs: Some(TokenIds), ignores_eos: true, ..DatasetKind::vllm("timed_trace") },
    DatasetKind { rows: Generated, ignores_eos: true, ..DatasetKind::named("generated-shared-prefix") },
    DatasetKind { fixed_output: true, times: Times::All, needs: Some(TokenIds), ignores_eos: true, ..DatasetKind::named("mooncake") },
    DatasetKind { fixed_output: true, times: Times::All, needs: Some(TokenIds), ignores_eos: true, ..DatasetKind::named("servegen") },
    DatasetKind { rows: ReadWhole, times: Times::Some, needs: Some(Chat), works_without_tokenizer: true, ..DatasetKind::named("openai") },
    DatasetKind { offline: Listed(8), ..DatasetKind::named("sonnet") },
];

/// Declares each kind of workload once: its settings, its sampler, and where its seed is, if it draws.
macro_rules! workloads {
    ($($(#[$doc:meta])* $kind:ident($spec:ty) => $sample:path $(, $($seed:ident).+)?;)*) => {
        #[derive(Debug, Clone, PartialEq)]
        pub enum WorkloadSpec {
            $($(#[$doc])* $kind($spec),)*
        }

        fn make(spec: &WorkloadSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
            match spec {
                $(WorkloadSpec::$kind(spec) => $sample(spec, context),)*
            }
        }

        impl WorkloadSpec {
            fn seed_mut(&mut self) -> Option<&mut i64> {
                match self {
                    $($(WorkloadSpec::$kind(spec) => Some(&mut spec.$($seed).+),)?)*
                    _ => None,
                }
            }
        }
    };
}

#[rustfmt::skip]
workloads! {
    Random(RandomSpec) => random::sample, seed;
    RandomMm(RandomMmSpec) => random_mm::sample, text.seed;
    RandomRerank(RandomRerankSpec) => random_rerank::sample, text.seed;
    PrefixRepetition(PrefixRepetitionSpec) => prefix_repetition::sample, seed;
    ShareGpt(ShareGptSpec) => sharegpt::sample, selection.seed;
    BurstGpt(BurstGptSpec) => burstgpt::sample, selection.seed;
    BurstReplay(BurstReplaySpec) => burstgpt::replay;
    Custom(CustomSpec) => custom::sample, selection.seed;
    CustomReplay(CustomReplaySpec) => custom::replay;
    /// Rows of a command or of a file whose columns are mapped.
    Rows(RowsSpec) => rows::sample, selection.seed;
    CustomImage(CustomImageSpec) => custom_image::sample, selection.seed;
    CustomAudio(CustomAudioSpec) => custom_audio::sample, selection.seed;
    Hf(HfSpec) => hf::sample, selection.seed;
    /// A dataset of the Hub of which one column is sent.
    HfText(HfTextSpec) => hf::sample_text, hf.selection.seed;
    OpenAi(OpenAiSpec) => openai::sample;
    /// Groups of questions, each with its own system prompt.
    SharedPrefix(SharedPrefixSpec) => shared_prefix::sample, seed;
    SpecBench(SpecBenchSpec) => spec_bench::sample, selection.seed;
    SpeedBench(SpeedBenchSpec) => speed_bench::sample, selection.seed;
    TimedTrace(TimedTraceSpec) => timed_trace::sample;
    Mooncake(MooncakeSpec) => mooncake::sample;
    ServeGen(ServeGenSpec) => servegen::sample, selection.seed;
    Sonnet(SonnetSpec) => sonnet::sample;
    Structured(StructuredSpec) => scenarios::sample_structured;
    PrefixCaching(PrefixCachingSpec) => scenarios::sample_prefix_caching;
    LongDocument(LongDocumentSpec) => scenarios::sample_long_document;
    Prioritization(PrioritizationSpec) => scenarios::sample_prioritization;
    Mix(MixSpec) => mix::sample;
    /// Another dataset with drawn output lengths.
    OutputLengths(Box<OutputLengthsSpec>) => sample_output_lengths, seed;
}

#[derive(Debug, Clone, PartialEq)]
pub struct OutputLengthsSpec {
    pub seed: i64,
    pub workload: WorkloadSpec,
    pub lengths: LengthPlan,
}

impl WorkloadSpec {
    /// Fails if a file that it reads does not exist.
    ///
    /// # Errors
    /// Returns [`Error::Read`] with the first such file.
    pub fn check_files(&self) -> Result<(), Error> {
        let path = match self {
            WorkloadSpec::ShareGpt(spec) => &spec.path,
            WorkloadSpec::BurstGpt(spec) => &spec.path,
            WorkloadSpec::BurstReplay(spec) => &spec.burst.path,
            WorkloadSpec::Custom(spec) => &spec.path,
            WorkloadSpec::CustomReplay(spec) => &spec.custom.path,
            WorkloadSpec::CustomImage(spec) => &spec.path,
            WorkloadSpec::CustomAudio(spec) => &spec.path,
            WorkloadSpec::OpenAi(spec) => &spec.path,
            WorkloadSpec::SpecBench(spec) => &spec.path,
            WorkloadSpec::TimedTrace(spec) => &spec.path,
            WorkloadSpec::Sonnet(spec) => &spec.path,
            WorkloadSpec::OutputLengths(own) => return own.workload.check_files(),
            WorkloadSpec::Mix(mix) => return mix.classes.iter().try_for_each(|class| class.workload.check_files()),
            _ => return Ok(()),
        };
        std::fs::metadata(path).map(drop).map_err(|source| Error::Read { path: path.clone(), source })
    }

    pub fn is_random_text(&self) -> bool {
        match self {
            WorkloadSpec::Random(_) | WorkloadSpec::RandomMm(_) | WorkloadSpec::RandomRerank(_) => true,
            WorkloadSpec::PrefixRepetition(_) | WorkloadSpec::BurstGpt(_) | WorkloadSpec::BurstReplay(_) => true,
            WorkloadSpec::TimedTrace(_) | WorkloadSpec::Mooncake(_) | WorkloadSpec::ServeGen(_) => true,
            WorkloadSpec::OutputLengths(own) => own.workload.is_random_text(),
            WorkloadSpec::Mix(mix) => mix.classes.iter().all(|class| class.workload.is_random_text()),
            _ => false,
        }
    }
}

/// Generates the requests. Leaves `globals` in the same state as the dataset leaves Python's generators;
/// `counters.finished` counts prompts as they are generated.
pub fn sample(
    spec: &WorkloadSpec,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    counters: &Counters,
) -> Result<Sampled, Error> {
    let sampled = make(spec, &mut SampleContext { tokenizer, globals, counters })?;
    sampled.check(0)?;
    Ok(sampled)
}

/// Generates the requests and passes them to `take` in batches if the dataset supports it; returns the rest of what
/// was sampled.
pub fn sample_in_parts(
    spec: &WorkloadSpec,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    counters: &Counters,
    mut take: impl FnMut(Vec<Request>),
) -> Result<Sampled, Error> {
    match spec {
        WorkloadSpec::Random(spec) if spec.cached.is_none() => {
            let mut position = 0;
            let notices = random::sample_in_parts(spec, tokenizer, counters, |requests| {
                let part = Sampled::of(requests);
                part.check(position)?;
                position += part.requests.len();
                take(part.requests);
                Ok(())
            })?;
            Ok(Sampled { notices, ..Sampled::default() })
        }
        _ => {
            let mut sampled = sample(spec, tokenizer, globals, counters)?;
            take(std::mem::take(&mut sampled.requests));
            Ok(sampled)
        }
    }
}

impl WorkloadSpec {
    pub fn with_output_lengths(self, seed: i64, lengths: LengthPlan) -> WorkloadSpec {
        if lengths.0.is_empty() {
            return self;
        }
        WorkloadSpec::OutputLengths(Box::new(OutputLengthsSpec { seed, workload: self, lengths }))
    }

    /// The spec with its seed advanced by `by`. Rows of a file without random draws repeat unchanged.
    pub fn reseeded(&self, by: i64) -> WorkloadSpec {
        if let WorkloadSpec::Mix(mix) = self {
            return WorkloadSpec::Mix(mix.reseeded(by));
        }
        let mut spec = self.clone();
        if let WorkloadSpec::OutputLengths(own) = &mut spec {
            own.workload = own.workload.reseeded(by);
        }
        if let Some(seed) = spec.seed_mut() {
            // Seeds are 32 bits wide, like those of flags.
            *seed = (*seed).wrapping_add(by).rem_euclid(1 << 32);
        }
        spec
    }

    /// The spec for a run with this model, which its commands are told.
    pub fn for_model(&self, model: &str) -> WorkloadSpec {
        let mut spec = self.clone();
        match &mut spec {
            WorkloadSpec::Rows(RowsSpec { source: RowSource::Command(command), .. }) => {
                command.model = Some(model.to_owned());
            }
            WorkloadSpec::OutputLengths(own) => own.workload = own.workload.for_model(model),
            WorkloadSpec::Mix(mix) => {
                for class in &mut mix.classes {
                    class.workload = class.workload.for_model(class.model.as_deref().unwrap_or(model));
                }
            }
            _ => {}
        }
        spec
    }
}

fn sample_output_lengths(spec: &OutputLengthsSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let mut sampled = make(&spec.workload, context)?;
    spec.lengths.apply_to_outputs(spec.seed.unsigned_abs(), &mut sampled.requests);
    Ok(sampled)
}

impl Hub {
    /// Downloads what a workload reads from the Hub into the cache; does nothing for local files.
    pub fn fetch(&self, spec: &WorkloadSpec, sink: &dyn EventSink) -> Result<(), HubError> {
        match spec {
            WorkloadSpec::Hf(spec) => self.fetch_dataset(&spec.path, spec.needed(), sink),
            WorkloadSpec::HfText(spec) => self.fetch_dataset(&spec.hf.path, spec.needed(), sink),
            WorkloadSpec::Structured(spec) => match spec.needed() {
                Some((id, needed)) => self.fetch_dataset(id, Some(needed), sink),
                None => Ok(()),
            },
            WorkloadSpec::OutputLengths(own) => self.fetch(&own.workload, sink),
            WorkloadSpec::Mix(mix) => mix.classes.iter().try_for_each(|class| self.fetch(&class.workload, sink)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn example_files_are_datasets() {
        let path = |name: &str| {
            std::path::PathBuf::from(format!("{}/../../examples/datasets/{name}.jsonl", env!("CARGO_MANIFEST_DIR")))
        };
        let all = || Selection { num_prompts: -1, ..Selection::default() };
        let custom = CustomSpec {
            path: path("custom"),
            selection: all(),
            output_len: Some(-1),
            chat_template: false,
            template_variables: None,
        };
        let image = CustomImageSpec {
            path: path("custom_image"),
            selection: all(),
            output_len: 8,
            multimodal_chat: true,
            client_side_data: false,
        };
        let openai = OpenAiSpec { path: path("openai"), selection: all(), output_len: None, time_scale: None };
        for (spec, rows) in [
            (WorkloadSpec::Custom(custom), 3),
            (WorkloadSpec::CustomImage(image), 3),
            (WorkloadSpec::OpenAi(openai), 1),
        ] {
            let made = sample(&spec, Some(&Tokenizer::builtin()), &mut Globals::seeded(0), &Counters::default());
            assert_eq!(made.unwrap().requests.len(), rows);
        }
    }
}
