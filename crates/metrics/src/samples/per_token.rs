//! Inter-token latency by token for events with several tokens: a gap is divided among the tokens that ended it.

use tacho_core::TokenCountSource;

tacho_core::named! {
    /// Source of the number of tokens per event, most reliable first.
    #[derive(PartialOrd, Ord)]
    pub enum TokenSource, "a source of tokens" {
        /// One token per event, of the events that have one.
        Events = "events",
        /// Usage with every event.
        Usage = "usage",
        /// Log-probabilities, one per token.
        Logprobs = "logprobs",
        /// A tokenizer, after the run, event by event.
        Retokenised = "retokenised",
    }
}

impl From<TokenCountSource> for TokenSource {
    fn from(source: TokenCountSource) -> Self {
        match source {
            TokenCountSource::Usage => TokenSource::Usage,
            TokenCountSource::Logprobs => TokenSource::Logprobs,
        }
    }
}

tacho_core::packed! {
    /// The gaps of one request, one per token after those of the first event.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PerToken {
        /// Source of the token counts.
        pub source: TokenSource,
        /// Seconds.
        pub gaps: Vec<f64>,
    }
}

impl PerToken {
    /// From the gaps between events and the tokens of each; `None` if no event has more than one.
    pub fn new(source: TokenSource, event_gaps: &[f64], tokens: &[u32]) -> Option<Self> {
        if tokens.iter().all(|&count| count <= 1) {
            return None;
        }
        let mut gaps = Vec::new();
        // Events without tokens (a role, an end) lengthen the gap before the next token.
        let mut waited = None;
        for (at, &count) in tokens.iter().enumerate() {
            if at > 0 {
                waited = waited.map(|time: f64| time + event_gaps.get(at - 1).copied().unwrap_or(0.0));
            }
            if count > 0 {
                if let Some(time) = waited {
                    gaps.extend(std::iter::repeat_n(time / f64::from(count), count as usize));
                }
                waited = Some(0.0);
            }
        }
        Some(PerToken { source, gaps })
    }
}

/// Tokens of each of `events` events. Marks are (event, total tokens up to it); events between marks have one token.
pub fn tokens_of_events(marks: &[(u32, u32)], events: usize) -> Vec<u32> {
    let mut tokens = vec![1; events];
    let (mut next, mut known) = (0usize, 0u32);
    for &(index, total) in marks {
        let index = index as usize;
        if index >= events || index < next {
            continue;
        }
        let mut left = total.saturating_sub(known);
        for count in &mut tokens[next..index] {
            *count = left.min(1);
            left -= *count;
        }
        tokens[index] = left;
        (next, known) = (index + 1, total.max(known));
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_shared_by_the_tokens_that_ended_it() {
        let per_token = PerToken::new(TokenSource::Usage, &[0.4, 0.3], &[1, 4, 1]).unwrap();
        assert_eq!(per_token.gaps, [0.1, 0.1, 0.1, 0.1, 0.3]);
        assert_eq!(PerToken::new(TokenSource::Usage, &[0.4, 0.3], &[1, 1, 1]), None);
    }

    #[test]
    fn events_without_tokens_end_no_gap() {
        // A role event first: the next event is the first token, not a gap. An empty event in between makes one
        // longer gap.
        let per_token = PerToken::new(TokenSource::Usage, &[0.5, 0.25, 0.25], &[0, 1, 0, 2]).unwrap();
        assert_eq!(per_token.gaps, [0.25, 0.25]);
    }

    #[test]
    fn marks_give_the_tokens_between_them() {
        assert_eq!(tokens_of_events(&[(0, 1), (1, 5), (2, 9), (3, 10)], 4), [1, 4, 4, 1]);
        assert_eq!(tokens_of_events(&[(0, 0), (1, 3)], 2), [0, 3]);
        // Log-probabilities mark only events of several tokens.
        assert_eq!(tokens_of_events(&[(2, 5)], 4), [1, 1, 3, 1]);
        assert_eq!(tokens_of_events(&[(9, 5), (0, 2), (0, 1)], 2), [2, 1]);
    }
}
