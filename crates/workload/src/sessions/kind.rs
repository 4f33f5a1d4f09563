//! The formats of sessions and traces.

/// What a file may be read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Mooncake's traces, and AIPerf's with sessions.
    Mooncake,
    /// AIPerf: a request a row.
    SingleTurn,
    /// AIPerf: a conversation a row.
    MultiTurn,
    /// AIPerf: entries to draw from.
    RandomPool,
    /// AIPerf: bodies as they are sent.
    RawPayload,
    /// AIPerf: bodies by session.
    InputsJson,
    /// AIPerf: sessions that fork and join.
    Dag,
    /// Captures of SageMaker.
    Sagemaker,
    /// Tables of Baseten.
    Baseten,
    /// Rounds of agents with their tools.
    TraceLab,
    /// Traces of coding agents.
    Weka,
    /// Traces of Bailian.
    Bailian,
    /// Traces of Azure.
    Azure,
    /// Traces of BurstGPT.
    BurstGpt,
    /// GuideLLM: columns with a turn's number.
    Columns,
    /// GuideLLM: a graph a row.
    Graph,
    /// GuideLLM: lengths and times in seconds.
    TraceSynthetic,
    /// Spans of OpenTelemetry.
    Otel,
    /// SGLang: rounds of new messages.
    SglangAgentic,
    /// SGLang: bodies with lengths.
    SglangOpenai,
    /// Conversations of ShareGPT.
    ShareGpt,
    /// Conversations as vLLM's multi-turn benchmark takes them.
    Conversations,
    /// The model itself, as `tacho convert trace` prints it.
    Model,
}
