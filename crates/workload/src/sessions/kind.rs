//! The formats of sessions and traces.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Mooncake traces, and AIPerf's with sessions.
    Mooncake,
    /// AIPerf: one request per row.
    SingleTurn,
    MultiTurn,
    /// AIPerf: entries to draw from.
    RandomPool,
    /// AIPerf: request bodies, sent unchanged.
    RawPayload,
    /// AIPerf: request bodies by session.
    InputsJson,
    /// AIPerf: sessions that fork and join.
    Dag,
    Sagemaker,
    Baseten,
    /// Agent rounds with tools.
    TraceLab,
    Weka,
    Bailian,
    Azure,
    BurstGpt,
    /// GuideLLM: columns with turn numbers.
    Columns,
    /// GuideLLM: one graph per row.
    Graph,
    /// GuideLLM: lengths and times in seconds.
    TraceSynthetic,
    Otel,
    /// SGLang: rounds of new messages.
    SglangAgentic,
    /// SGLang: request bodies with lengths.
    SglangOpenai,
    ShareGpt,
    /// Conversations of vLLM's multi-turn benchmark.
    Conversations,
    /// The session model, as printed by `tacho convert trace`.
    Model,
}
