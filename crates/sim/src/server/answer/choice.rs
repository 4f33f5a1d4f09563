//! One answer while its tokens come: from positions to text, with stop strings held back as vLLM does.

use std::sync::Arc;

use tacho_text::{Decoder, Tokenizer};

use super::written::Written;
use crate::server::request::ask::Ask;
use crate::server::request::prompt::Prompt;
use crate::server::request::tools::{self, Call};
use tacho_engine::{Draw, Finish, LogprobDraws, Tokens, Vocabulary};

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) prompt: Arc<Prompt>,
    pub(crate) output: Tokens,
    pub(crate) finish: Finish,
    pub(crate) produced: usize,
    /// Tokens at the end that have no text.
    silent: usize,
    /// The call that the text is.
    pub(crate) call: Option<Call>,
    /// The call's name on the wire.
    pub(crate) call_id: String,
    /// Bytes of the answer's text that have been told, thoughts aside.
    pub(crate) told: usize,
    stop: Option<(String, usize)>,
    decoder: Decoder,
    /// Text is kept back only when stop strings may still begin in it.
    held: Option<Held>,
    logprobs: Option<(usize, LogprobDraws)>,
    text_offset: usize,
    name_by_id: bool,
    only_repeats: bool,
}

#[derive(Debug)]
struct Held {
    text: String,
    told: usize,
    /// Characters that a stop string might begin in.
    reserve: usize,
}

/// What one token adds to an answer.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) token: u32,
    pub(crate) ranked: Option<Ranked>,
    pub(crate) last: bool,
    /// The tokens after the first, where several are told together.
    pub(crate) more: Vec<(u32, Option<Ranked>)>,
}

impl Piece {
    /// Its tokens in order.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::once(self.token).chain(self.more.iter().map(|(token, _)| *token))
    }

    /// Their log-probabilities, where those were asked for.
    pub(crate) fn ranked(&self) -> impl Iterator<Item = &Ranked> {
        self.ranked.iter().chain(self.more.iter().filter_map(|(_, ranked)| ranked.as_ref()))
    }

    /// This piece with the next one behind it.
    pub(crate) fn then(mut self, next: Piece) -> Piece {
        self.text.push_str(&next.text);
        self.more.push((next.token, next.ranked));
        self.more.extend(next.more);
        self.last = next.last;
        self
    }
}

/// A token's log-probability and its alternatives', the token first.
#[derive(Debug, Clone)]
pub(crate) struct Ranked {
    pub(crate) tokens: Vec<(String, f64)>,
    pub(crate) text_offset: usize,
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
            told: 0,
            name_by_id: ask.name_by_id,
            only_repeats: ask.only_repeats(),
            stop: output.stop,
            decoder: Decoder::new(),
            held: (!ask.stop.is_empty()).then(|| Held { text: String::new(), told: 0, reserve }),
            logprobs: ask.logprobs.map(|others| (others, LogprobDraws::new(draw))),
            text_offset: 0,
            prompt,
        }
    }

    /// Why it ends, as conversations say it.
    pub(crate) fn finish_name(&self) -> &'static str {
        let calls = self.call.as_ref().is_some_and(|call| call.choice == tools::Choice::Free);
        if calls && self.finish == Finish::Stop { "tool_calls" } else { self.finish.name() }
    }

    /// The call that the answer was, once it is whole.
    pub(crate) fn made_call(&self) -> Option<&Call> {
        self.call.as_ref().filter(|_| self.finish == Finish::Stop)
    }

    /// The stop string that ends it.
    pub(crate) fn stop_reason(&self) -> Option<&str> {
        self.stop.as_ref().map(|(stop, _)| stop.as_str())
    }

    /// Alternatives per token that were asked for.
    pub(crate) fn alternatives(&self) -> usize {
        self.logprobs.as_ref().map_or(0, |(others, _)| *others)
    }

    /// Takes the next token.
    pub(crate) fn advance(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Piece {
        let token = self.output.ids()[self.produced];
        self.produced += 1;
        let last = self.produced == self.output.len();
        let silent = self.produced > self.output.len() - self.silent;
        let new = if silent { String::new() } else { self.decoder.push(tokenizer, token) };
        let text = match &mut self.held {
            None => new,
            Some(held) => held.tell(&new, last.then_some(self.stop.as_ref().map(|(_, shown)| *shown))),
        };
        let ranked = if self.only_repeats { None } else { self.rank(tokenizer, vocabulary, token) };
        Piece { text, token, ranked, last, more: Vec::new() }
    }

    fn rank(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary, token: u32) -> Option<Ranked> {
        let (others, draws) = self.logprobs.as_mut()?;
        let ranked = draws.next(vocabulary, token, others.saturating_sub(1));
        let by_id = self.name_by_id;
        let name = |id: u32| if by_id { format!("token_id:{id}") } else { tokenizer.decode(&[id]) };
        let tokens: Vec<_> = ranked.into_iter().map(|(id, logprob)| (name(id), logprob)).collect();
        let text_offset = self.text_offset;
        self.text_offset += tokens[0].0.chars().count();
        Some(Ranked { tokens, text_offset })
    }

    /// Log-probabilities of the prompt's tokens, for an answer that repeats it.
    pub(crate) fn rank_prompt(&mut self, tokenizer: &Tokenizer, vocabulary: &Vocabulary) -> Vec<Ranked> {
        let prompt = Arc::clone(&self.prompt);
        prompt.ids.iter().filter_map(|token| self.rank(tokenizer, vocabulary, *token)).collect()
    }
}

impl Held {
    /// Adds text and returns what may be told; `end` is given with the last token, and in it where a stop string cuts.
    fn tell(&mut self, new: &str, end: Option<Option<usize>>) -> String {
        self.text.push_str(new);
        let until = match end {
            Some(cut) => cut.unwrap_or(self.text.len()),
            None => {
                let kept = self.text.char_indices().rev().take(self.reserve);
                kept.last().map_or(self.text.len(), |(at, _)| at)
            }
        };
        let until = until.max(self.told);
        let told = self.text[self.told..until].to_owned();
        self.told = until;
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_may_begin_a_stop_string_is_held_back() {
        let mut held = Held { text: String::new(), told: 0, reserve: 2 };
        assert_eq!(held.tell("aé", None), "");
        assert_eq!(held.tell("bc", None), "aé");
        assert_eq!(held.tell("d", Some(None)), "bcd");
        let mut cut = Held { text: String::new(), told: 0, reserve: 2 };
        assert_eq!(cut.tell("abcd", None), "ab");
        assert_eq!(cut.tell("ef", Some(Some(3))), "c");
    }
}
