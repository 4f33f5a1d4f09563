//! The formats of sessions and traces.

/// A file format of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Mooncake traces, and AIPerf's with sessions.
    Mooncake,
    /// AIPerf: one request per row.
    SingleTurn,
    /// AIPerf: one conversation per row.
    MultiTurn,
    /// AIPerf: entries to draw from.
    RandomPool,
    /// AIPerf: request bodies, sent unchanged.
    RawPayload,
    /// AIPerf: request bodies by session.
    InputsJson,
    /// AIPerf: sessions that fork and join.
    Dag,
    /// SageMaker captures.
    Sagemaker,
    /// Baseten tables.
    Baseten,
    /// Agent rounds with tools.
    TraceLab,
    /// Traces of coding agents.
    Weka,
    /// Bailian traces.
    Bailian,
    /// Azure traces.
    Azure,
    /// BurstGPT traces.
    BurstGpt,
    /// GuideLLM: columns with turn numbers.
    Columns,
    /// GuideLLM: one graph per row.
    Graph,
    /// GuideLLM: lengths and times in seconds.
    TraceSynthetic,
    /// OpenTelemetry spans.
    Otel,
    /// SGLang: rounds of new messages.
    SglangAgentic,
    /// SGLang: request bodies with lengths.
    SglangOpenai,
    /// ShareGPT conversations.
    ShareGpt,
    /// Conversations of vLLM's multi-turn benchmark.
    Conversations,
    /// The session model, as printed by `tacho convert trace`.
    Model,
}
