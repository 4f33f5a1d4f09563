//! One choice while its tokens arrive: from positions to text, holding back possible stop strings as vLLM does.

use std::sync::Arc;

use tacho_text::{Decoder, Tokenizer};

use super::written::Written;
use crate::server::request::tools::Call;
use crate::server::request::{Ask, Prompt, tools};
use tacho_engine::{Draw, Finish, LogprobDraws, Tokens, Vocabulary};

#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) output: Tokens,
    pub(crate) finish: Finish,
    pub(crate) produced: usize,
    /// Tokens at the end that have no text.
    pub(super) silent: usize,
    pub(crate) call: Option<Call>,
    /// The call's id on the wire.
    pub(crate) call_id: String,
    /// Bytes of the text that were sent, excluding reasoning.
    pub(crate) sent: usize,
    stop: Option<(String, usize)>,
    decoder: Decoder,
    /// Text held back because a stop string may begin in it.
    held: Option<Held>,
    logprobs: Option<(usize, LogprobDraws)>,
    /// Fraction of a token's probability that a fault moves to others.
    pub(super) noise: f64,
    text_offset: usize,
    name_by_id: bool,
    only_repeats: bool,
}

#[derive(Debug)]
struct Held {
    text: String,
    sent: usize,
    /// Length of the held-back text in characters.
    reserve: usize,
}

/// The contribution of one token, or of several sent together.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) token: u32,
    pub(crate) logprob_tokens: Option<TokenLogprobs>,
    pub(crate) last: bool,
    pub(crate) more: Vec<(u32, Option<TokenLogprobs>)>,
}

impl Piece {
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.token).chain(self.more.iter().map(|(token, _)| *token))
    }

    pub(crate) fn logprob_tokens(&self) -> impl Iterator<Item = &TokenLogprobs> {
        self.logprob_tokens.iter().chain(self.more.iter().filter_map(|(_, logprob_tokens)| logprob_tokens.as_ref()))
    }

    pub(crate) fn then(mut self, next: Piece) -> Piece {
        self.text.push_str(&next.text);
        self.more.push((next.token, next.logprob_tokens));
        self.more.extend(next.more);
        self.last = next.last;
        self
    }
}

/// A token's log-probability and its alternatives', the token first.
#[derive(Debug, Clone)]
pub(crate) struct TokenLogprobs {
    pub(crate) tokens: Vec<(String, f64)>,
    pub(crate) text_offset: usize,
}

/// The prompt as part of its response (`echo`).
#[derive(Debug)]
pub(crate) struct Echo {
    pub(crate) text: String,
    pub(crate) logprob_tokens: Vec<TokenLogprobs>,
}

impl Choice {
    pub(crate) fn new(ask: &Ask, prompt: Arc<Prompt>, draw: &Draw<'_>, output: Written) -> Self {
        let reserve = ask.stop.iter().map(|stop| stop.chars().count()).max().unwrap_or(0);
        let reserve = if ask.keep_stop { 0 } else { reserve.saturating_sub(1) };
        Choice {
            output: output.tokens,
            finish: output.finish,
            produced: 0,
            silent: if ask.only_repeats() { 1 } else { output.silent },
            call: output.call,
            call_id: String::new(),
            sent: 0,
            name_by_id: ask.name_by_id,
            only_repeats: ask.only_repeats(),
            stop: output.stop,
            decoder: Decoder::new(),
            held: (!ask.stop.is_empty()).then(|| Held { text: String::new(), sent: 0, reserve }),
            logprobs: ask.logprobs.map(|others| (others, LogprobDraws::new(draw))),
            noise: 0.0,
            text_offset: 0,
            prompt,
        }
    }

    pub(crate) fn finish_name(&self) -> &'static str {
        let calls = self.call.as_ref().is_some_and(|call| call.choice == tools::Choice::Free);
        if calls && self.finish == Finish::Stop { "tool_calls" } else { self.finish.name() }
    }

    /// The tool call, once it is complete.
    pub(crate) fn made_call(&self) -> Option<&Call> {
        self.call.as_ref().filter(|_| self.finish == Finish::Stop)
    }

    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.stop.as_ref().map(|(stop, _)| stop.as_str())
    }

    pub(crate) fn alternatives(&self) -> usize {
        self.logprobs.as_ref().map_or(0, |(others, _)| *others)
    }

    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Piece {
        let token = self.output.ids()[self.produced];
        self.produced += 1;
        let last = self.produced == self.output.len();
        let silent = self.produced > self.output.len() - self.silent;
        let new = if silent { String::new() } else { self.decoder.push(tokenizer, token) };
        let text = match &mut self.held {
            None => new,
            Some(held) => held.release(&new, last.then_some(self.stop.as_ref().map(|(_, shown)| *shown))),
        };
        let logprob_tokens = if self.only_repeats { None } else { self.rank(tokenizer, vocabulary, token) };
        Piece { text, token, logprob_tokens, last, more: Vec::new() }
    }

    fn rank(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary, token: u32) -> Option<TokenLogprobs> {
        let (others, draws) = self.logprobs.as_mut()?;
        let logprob_tokens = draws.next(vocabulary, token, others.saturating_sub(1), self.noise);
        let by_id = self.name_by_id;
        let name = |id: u32| if by_id { format!("token_id:{id}") } else { tokenizer.decode(&[id]) };
        let tokens: Vec<_> = logprob_tokens.into_iter().map(|(id, logprob)| (name(id), logprob)).collect();
        let text_offset = self.text_offset;
        self.text_offset += tokens[0].0.chars().count();
        Some(TokenLogprobs { tokens, text_offset })
    }

    /// The prompt, for a response that echoes it.
    pub(crate) fn echo(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Echo {
        let prompt = Arc::clone(&self.prompt);
        let logprob_tokens = prompt.ids.iter().filter_map(|token| self.rank(tokenizer, vocabulary, *token)).collect();
        Echo { text: prompt.text(tokenizer), logprob_tokens }
    }
}

impl Held {
    /// Adds text and returns what may be sent; `end` comes with the last token, with the position where a stop string
    /// cuts.
    fn release(&mut self, new: &str, end: Option<Option<usize>>) -> String {
        self.text.push_str(new);
        let until = match end {
            Some(cut) => cut.unwrap_or(self.text.len()),
            None => {
                let kept = self.text.char_indices().rev().take(self.reserve);
                kept.last().map_or(self.text.len(), |(at, _)| at)
            }
        };
        let until = until.max(self.sent);
        let sent = self.text[self.sent..until].to_owned();
        self.sent = until;
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_may_begin_a_stop_string_is_held_back() {
        let mut held = Held { text: String::new(), sent: 0, reserve: 2 };
        assert_eq!(held.release("aé", None), "");
        assert_eq!(held.release("bc", None), "aé");
        assert_eq!(held.release("d", Some(None)), "bcd");
        let mut cut = Held { text: String::new(), sent: 0, reserve: 2 };
        assert_eq!(cut.release("abcd", None), "ab");
        assert_eq!(cut.release("ef", Some(Some(3))), "c");
    }
}
