//! Parts of a response, in addition to its text, that later requests refer to.

/// The parts of a response that a later request refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The response's ID on a server that stores responses.
    pub id: Option<String>,
    /// The tool calls of the model.
    pub calls: Vec<ToolCall>,
    /// The texts of further choices, if `n` is above 1.
    pub others: Vec<String>,
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The ID that its result must carry.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments as JSON, unless the model wrote invalid JSON.
    pub arguments: String,
}
