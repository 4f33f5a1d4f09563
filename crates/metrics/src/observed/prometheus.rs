//! Counter lines of a Prometheus text, read the way vLLM's benchmark reads them.

/// One `…_total` line.
pub(crate) struct CounterLine<'a> {
    pub(crate) name: &'a str,
    /// Everything up to the value: name and labels.
    pub(crate) head: &'a str,
    /// The value, truncated to an integer; `None` if it is not a number.
    pub(crate) value: Option<i64>,
}

/// The counters in `text` whose names start with `prefix`, one per label set.
pub(crate) fn counters<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = CounterLine<'a>> {
    text.lines().map(str::trim).filter(move |line| line.starts_with(prefix)).filter_map(|line| {
        let (head, rest) = line.split_once(' ').unwrap_or((line, ""));
        let name = head.split('{').next().unwrap_or(head);
        let value = rest.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        name.ends_with("_total").then_some(CounterLine { name, head, value: value.map(|value| value as i64) })
    })
}
