//! Comparison operators of conditions.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    AtMost,
    AtLeast,
    Below,
    Above,
}

/// The operators as typed and as printed, in the order in which they are matched.
const OPERATORS: [(Operator, &str, &str); 4] = [
    (Operator::AtMost, "<=", "≤"),
    (Operator::AtLeast, ">=", "≥"),
    (Operator::Below, "<", "<"),
    (Operator::Above, ">", ">"),
];

impl Operator {
    /// The operator at the start of a text, and what follows it.
    pub(crate) fn split(text: &str) -> Option<(Self, &str)> {
        OPERATORS.into_iter().find_map(|(operator, sign, _)| Some((operator, text.strip_prefix(sign)?)))
    }

    /// As typed and as printed.
    pub(crate) fn signs(self) -> (&'static str, &'static str) {
        OPERATORS
            .into_iter()
            .find(|(operator, ..)| *operator == self)
            .map_or(("", ""), |(_, typed, printed)| (typed, printed))
    }

    pub(crate) fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Operator::AtMost => value <= limit,
            Operator::AtLeast => value >= limit,
            Operator::Below => value < limit,
            Operator::Above => value > limit,
        }
    }
}
