//! The formats of sessions and traces, in one table: name, aliases, options, reader.

use super::readers::{
    aiperf, bailian, baseten, columns, conversations, dag, graph, lengths, mooncake, otel, payloads, sglang, tracelab,
    weka,
};
use super::{error::TraceError, kind::Format, model::Trace, options::Options, source::Source, stored};

struct Entry {
    format: Format,
    label: &'static str,
    aliases: &'static [&'static str],
    options: &'static [&'static str],
    read: fn(&Source, &Options) -> Result<Trace, TraceError>,
}

#[rustfmt::skip]
static FORMATS: &[Entry] = &[
    Entry { format: Format::Mooncake, label: "mooncake", aliases: &["mooncake_trace", "mooncake_delta"],
        options: &["block_size", "timestamp_unit", "input_length_is"], read: mooncake::read },
    Entry { format: Format::SingleTurn, label: "aiperf single_turn", aliases: &["single_turn"], options: &[], read: aiperf::single_turn },
    Entry { format: Format::MultiTurn, label: "aiperf multi_turn", aliases: &["multi_turn"], options: &[], read: aiperf::multi_turn },
    Entry { format: Format::RandomPool, label: "aiperf random_pool", aliases: &["random_pool"], options: &[], read: aiperf::random_pool },
    Entry { format: Format::RawPayload, label: "aiperf raw_payload", aliases: &["raw_payload"], options: &[], read: payloads::raw_payload },
    Entry { format: Format::InputsJson, label: "aiperf inputs_json", aliases: &["inputs_json"], options: &[], read: payloads::inputs_json },
    Entry { format: Format::Dag, label: "aiperf dag_jsonl", aliases: &["dag_jsonl", "dag"], options: &[], read: dag::read },
    Entry { format: Format::Sagemaker, label: "aiperf sagemaker_data_capture", aliases: &["sagemaker_data_capture"], options: &[], read: payloads::sagemaker },
    Entry { format: Format::Baseten, label: "aiperf baseten_trace", aliases: &["baseten_trace", "baseten"], options: &[], read: baseten::read },
    Entry { format: Format::TraceLab, label: "tracelab", aliases: &[], options: &[], read: tracelab::read },
    Entry { format: Format::Weka, label: "weka", aliases: &["weka_trace", "cc_traces_weka"], options: &["infer_flat_agents"], read: weka::read },
    Entry { format: Format::Bailian, label: "bailian", aliases: &["bailian_trace", "qwen"],
        options: &["block_size", "timestamp_unit", "input_length_is", "edges"], read: bailian::read },
    Entry { format: Format::Azure, label: "azure", aliases: &["azure_trace"], options: &[], read: lengths::azure },
    Entry { format: Format::BurstGpt, label: "burstgpt", aliases: &["burst_gpt_trace", "burst_gpt"], options: &["timestamp_unit", "sessions"], read: lengths::burstgpt },
    Entry { format: Format::Columns, label: "guidellm columns", aliases: &["columns"], options: &[], read: columns::read },
    Entry { format: Format::Graph, label: "guidellm conversation_turns", aliases: &["conversation_turns"], options: &[], read: graph::read },
    Entry { format: Format::TraceSynthetic, label: "guidellm trace_synthetic", aliases: &["trace_synthetic"], options: &[], read: lengths::trace_synthetic },
    Entry { format: Format::Otel, label: "otel", aliases: &["otel_trace_replay", "opentelemetry"], options: &["edges"], read: otel::read },
    Entry { format: Format::SglangAgentic, label: "sglang agentic-trace", aliases: &["agentic_trace"], options: &["output_tokens"], read: sglang::agentic },
    Entry { format: Format::SglangOpenai, label: "sglang openai", aliases: &["openai"], options: &["output_tokens"], read: sglang::openai },
    Entry { format: Format::ShareGpt, label: "sharegpt", aliases: &[], options: &["history"], read: conversations::sharegpt },
    Entry { format: Format::Conversations, label: "vllm conversations", aliases: &["conversations"], options: &["history"], read: conversations::vllm },
    Entry { format: Format::Model, label: "tacho model", aliases: &["model"], options: &[], read: stored::read },
];

impl Format {
    pub fn label(self) -> &'static str {
        self.entry().label
    }

    /// The format with this name. Case and separators are ignored; the tool's name may be omitted.
    pub fn named(name: &str) -> Result<Self, TraceError> {
        let wanted = plain(name);
        let known =
            |entry: &&Entry| plain(entry.label) == wanted || entry.aliases.iter().any(|name| plain(name) == wanted);
        let found = FORMATS.iter().find(known).map(|entry| entry.format);
        found.ok_or_else(|| TraceError::NoFormat { name: name.to_owned(), known: Format::names() })
    }

    pub fn words() -> impl Iterator<Item = &'static str> {
        let labels = FORMATS.iter().map(|entry| entry.label);
        labels.chain(FORMATS.iter().flat_map(|entry| entry.aliases.iter().copied()))
    }

    pub(crate) fn names() -> String {
        FORMATS.iter().map(|entry| entry.label).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn read(self, source: &Source, options: &Options) -> Result<Trace, TraceError> {
        let entry = self.entry();
        options.only(entry.options)?;
        let mut trace = (entry.read)(source, options)?;
        if trace.steps.is_empty() && trace.pools.is_empty() {
            return Err(source.empty());
        }
        // A stored model names the format that it was read from.
        if self != Format::Model {
            trace.format = self;
        }
        Ok(trace)
    }

    fn entry(self) -> &'static Entry {
        FORMATS.iter().find(|entry| entry.format == self).expect("every format has a row")
    }
}

fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace([' ', '-'], "_")
}
