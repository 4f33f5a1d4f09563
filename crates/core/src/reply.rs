//! What an answer says in addition to its text, for the requests that follow from it.

/// The parts of an answer that a later request refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// The answer's name on the server, where it keeps answers.
    pub id: Option<String>,
    /// The tools that the model wants called.
    pub calls: Vec<ToolCall>,
    /// The texts of further answers, where several were asked for.
    pub others: Vec<String>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// What its result is to name.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments as JSON, if the model got that right.
    pub arguments: String,
}
