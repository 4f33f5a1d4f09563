//! One variant per dataset, with only its own settings, and the one function that makes requests of them.

use tacho_core::{Counters, Request};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;

use crate::Error;
use crate::datasets::burstgpt::{self, BurstGptSpec, BurstReplaySpec};
use crate::datasets::custom::{self, CustomReplaySpec, CustomSpec};
use crate::datasets::custom_audio::{self, CustomAudioSpec};
use crate::datasets::custom_image::{self, CustomImageSpec};
use crate::datasets::hf::{self, HfSpec, HfTextSpec};
use crate::datasets::mooncake::{self, MooncakeSpec};
use crate::datasets::openai::{self, OpenAiSpec};
use crate::datasets::prefix_repetition::{self, PrefixRepetitionSpec};
use crate::datasets::random::{self, RandomSpec};
use crate::datasets::random_mm::{self, RandomMmSpec};
use crate::datasets::random_rerank::{self, RandomRerankSpec};
use crate::datasets::shared_prefix::{self, SharedPrefixSpec};
use crate::datasets::sharegpt::{self, ShareGptSpec};
use crate::datasets::sonnet::{self, SonnetSpec};
use crate::datasets::spec_bench::{self, SpecBenchSpec};
use crate::datasets::speed_bench::{self, SpeedBenchSpec};
use crate::datasets::timed_trace::{self, TimedTraceSpec};

/// What a workload is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkloadSpec {
    /// Random tokens.
    Random(RandomSpec),
    /// Random tokens with random images and films.
    RandomMm(RandomMmSpec),
    /// A random query with random documents.
    RandomRerank(RandomRerankSpec),
    /// Random tokens behind a few shared prefixes.
    PrefixRepetition(PrefixRepetitionSpec),
    /// The first questions of recorded conversations.
    ShareGpt(ShareGptSpec),
    /// Recorded lengths with made-up text.
    BurstGpt(BurstGptSpec),
    /// Recorded lengths at recorded times.
    BurstReplay(BurstReplaySpec),
    /// Prompts of one's own.
    Custom(CustomSpec),
    /// Prompts of one's own at their own times.
    CustomReplay(CustomReplaySpec),
    /// Prompts of one's own with images.
    CustomImage(CustomImageSpec),
    /// Prompts of one's own with sounds.
    CustomAudio(CustomAudioSpec),
    /// A dataset of the Hugging Face Hub.
    Hf(HfSpec),
    /// A dataset of the Hub of which one column is sent.
    HfText(HfTextSpec),
    /// Recorded bodies of chat requests.
    OpenAi(OpenAiSpec),
    /// Groups of questions, each behind its system prompt.
    SharedPrefix(SharedPrefixSpec),
    /// Questions of Spec-Bench.
    SpecBench(SpecBenchSpec),
    /// Questions of SPEED-Bench.
    SpeedBench(SpeedBenchSpec),
    /// Recorded lengths, times and shared blocks.
    TimedTrace(TimedTraceSpec),
    /// A trace of Mooncake's.
    Mooncake(MooncakeSpec),
    /// Lines of a poem.
    Sonnet(SonnetSpec),
}

/// A finished workload.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sampled {
    /// The requests, in sending order.
    pub requests: Vec<Request>,
    /// What a user should know about them.
    pub notices: Vec<String>,
}

/// Makes the requests. `globals` are left as the same dataset leaves Python's generators; `counters.finished` counts
/// prompts as they are made.
///
/// # Errors
/// When the settings contradict each other or need what is not there.
pub fn sample(
    spec: &WorkloadSpec,
    tokenizer: Option<&Tokenizer>,
    globals: &mut Globals,
    counters: &Counters,
) -> Result<Sampled, Error> {
    match spec {
        WorkloadSpec::Random(spec) => random::sample(spec, tokenizer, counters),
        WorkloadSpec::RandomMm(spec) => random_mm::sample(spec, tokenizer, counters),
        WorkloadSpec::RandomRerank(spec) => random_rerank::sample(spec, tokenizer, counters),
        WorkloadSpec::PrefixRepetition(spec) => prefix_repetition::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::ShareGpt(spec) => sharegpt::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::BurstGpt(spec) => burstgpt::sample(spec, tokenizer, counters),
        WorkloadSpec::BurstReplay(spec) => burstgpt::replay(spec, tokenizer, counters),
        WorkloadSpec::CustomReplay(spec) => custom::replay(spec, tokenizer, globals, counters),
        WorkloadSpec::Custom(spec) => custom::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::CustomImage(spec) => custom_image::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::CustomAudio(spec) => custom_audio::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::Hf(spec) => hf::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::HfText(spec) => hf::sample_text(spec, tokenizer, globals, counters),
        WorkloadSpec::OpenAi(spec) => openai::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::SharedPrefix(spec) => shared_prefix::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::SpecBench(spec) => spec_bench::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::SpeedBench(spec) => speed_bench::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::TimedTrace(spec) => timed_trace::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::Mooncake(spec) => mooncake::sample(spec, tokenizer, globals, counters),
        WorkloadSpec::Sonnet(spec) => sonnet::sample(spec, tokenizer, globals, counters),
    }
}
