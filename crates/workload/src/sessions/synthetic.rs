//! Synthetic conversations: numbers of turns and tokens, and how much of them is shared.

use tacho_pyrand::{Globals, RandomState};
use tacho_text::Tokenizer;

use super::model::{History, Prompt, Trace};
use super::{error::TraceError, kind::Format};
use crate::datasets::shared_prefix::{SharedPrefixSpec, chats};

/// Maximum attempts to find a text with the desired number of tokens.
const ROUNDS: usize = 20;

#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticSpec {
    pub conversations: usize,
    /// Minimum and maximum turns, uniformly distributed.
    pub turns: (usize, usize),
    pub input_len: u64,
    /// Tokens of each later question.
    pub later_len: u64,
    pub output_len: u64,
    /// Tokens of the common prefix of all first questions.
    pub prefix_len: u64,
    /// Fractions of a question that all questions share, and that those of one conversation share. If either is above
    /// 0, questions have no history.
    pub shared: (f64, f64),
    /// The pause before each later turn, in milliseconds.
    pub delay_ms: f64,
    /// Maximum tokens of a prompt and its response.
    pub max_len: Option<u64>,
    /// Seed of the numbers of turns and of the first tokens.
    pub seed: u32,
}

impl Trace {
    /// Generates conversations. Fails if nothing fits the maximum length, or the vocabulary is empty.
    pub fn made(spec: &SyntheticSpec, tokenizer: &Tokenizer) -> Result<Trace, TraceError> {
        let maker = Maker::new(spec, tokenizer)?;
        let mut random = RandomState::new(spec.seed);
        let offset = random.randint_vec(0, maker.allowed.len() as i64, 1)[0] as usize;
        let (min, max) = (spec.turns.0 as i64, spec.turns.1 as i64);
        let turns = random.randint_vec(min, max + 1, spec.conversations);
        let mut trace = Trace::new("made-up conversations".to_owned(), Format::Model);
        for (conversation, &turns) in turns.iter().enumerate() {
            let fitting = maker.fitting(turns as usize);
            if fitting < turns as usize && fitting < 2 {
                continue;
            }
            maker.conversation(&mut trace, conversation, fitting, offset)?;
        }
        let left = trace.trees().1;
        if left < spec.conversations {
            let dropped = spec.conversations - left;
            trace.notices.push(format!("{dropped} conversations do not fit --max-model-len and are left out"));
        }
        if trace.steps.is_empty() {
            let problem = "is too short for two turns of any conversation".to_owned();
            return Err(TraceError::Setting { flag: "--max-model-len", problem });
        }
        Ok(trace)
    }
}

impl Trace {
    /// Conversations of SGLang's generated-shared-prefix: groups of them share a system prompt before the first
    /// question.
    pub fn behind_shared_prefixes(spec: &SharedPrefixSpec, tokenizer: &Tokenizer) -> Result<Trace, TraceError> {
        let chats = chats(spec, tokenizer, &mut Globals::seeded(0)).map_err(Box::new)?;
        let mut trace = Trace::new("generated-shared-prefix".to_owned(), Format::Model);
        for (index, chat) in chats.into_iter().enumerate() {
            let session = format!("{}{index}", spec.request_id_prefix);
            trace.chain(&session, &History::Live, chat.questions, |step, question| {
                step.prompt = Prompt::text(question);
                step.output_tokens = u64::try_from(chat.output_len).ok();
                Ok(0.0)
            })?;
        }
        Ok(trace)
    }
}

struct Maker<'t> {
    spec: &'t SyntheticSpec,
    tokenizer: &'t Tokenizer,
    allowed: Vec<u32>,
}

impl<'t> Maker<'t> {
    fn new(spec: &'t SyntheticSpec, tokenizer: &'t Tokenizer) -> Result<Self, TraceError> {
        let special = tokenizer.special_ids();
        let allowed: Vec<u32> = tokenizer.all_ids().into_iter().filter(|id| !special.contains(id)).collect();
        if allowed.is_empty() {
            let problem = "has no token that could stand in a text".to_owned();
            return Err(TraceError::Setting { flag: "--tokenizer", problem });
        }
        Ok(Maker { spec, tokenizer, allowed })
    }

    fn stands_alone(&self) -> bool {
        self.spec.shared.0 > 0.0 || self.spec.shared.1 > 0.0
    }

    /// Number of leading turns that fit the maximum length.
    fn fitting(&self, turns: usize) -> usize {
        let Some(limit) = self.spec.max_len else { return turns };
        let spec = self.spec;
        let mut history = 0;
        for turn in 0..turns {
            let own = if turn == 0 { spec.prefix_len + spec.input_len } else { spec.later_len };
            if history + own + spec.output_len > limit {
                return turn;
            }
            history = if self.stands_alone() { 0 } else { history + own + spec.output_len };
        }
        turns
    }

    fn conversation(
        &self,
        trace: &mut Trace,
        conversation: usize,
        turns: usize,
        offset: usize,
    ) -> Result<usize, TraceError> {
        let spec = self.spec;
        let history = if self.stands_alone() { History::None } else { History::Live };
        trace.chain(&format!("conv-{conversation}"), &history, 0..turns, |step, turn| {
            let len = if turn == 0 { spec.input_len } else { spec.later_len };
            let start = offset + conversation * spec.turns.1 + turn;
            step.prompt = Prompt::text(self.question(conversation, turn, len, start));
            step.output_tokens = Some(spec.output_len);
            Ok(if turn == 0 { 0.0 } else { spec.delay_ms })
        })
    }

    /// A question: the part common to all, the part common to its conversation, and its own part.
    fn question(&self, conversation: usize, turn: usize, len: u64, start: usize) -> String {
        let spec = self.spec;
        let prefix = if turn == 0 { self.text(0, spec.prefix_len) } else { String::new() };
        if !self.stands_alone() {
            return prefix + &self.text(start, len);
        }
        let part = |share: f64| (spec.input_len as f64 * share) as u64;
        let (all, own) = (part(spec.shared.0), part(spec.shared.1));
        let unique = len.saturating_sub(all + own).max(1);
        let far = self.allowed.len() / 3;
        prefix + &self.text(far, all) + &self.text(2 * far + conversation * 7, own) + &self.text(start, unique)
    }

    /// Consecutive tokens from `start` on, as a text of `len` tokens.
    fn text(&self, start: usize, len: u64) -> String {
        let ids = |count| (0..count).map(|at| self.allowed[(start + at) % self.allowed.len()]).collect();
        text_of_len(self.tokenizer, len, ids)
    }
}

/// The text of `len` tokens, or close to it, that `ids` of some count decode to.
pub(super) fn text_of_len(tokenizer: &Tokenizer, len: u64, mut ids: impl FnMut(usize) -> Vec<u32>) -> String {
    let target = len as usize;
    let mut count = target;
    let mut best = (usize::MAX, String::new());
    for _ in 0..ROUNDS {
        let text = tokenizer.decode(&ids(count));
        let found = tokenizer.count(&text, false);
        if found.abs_diff(target) < best.0 {
            best = (found.abs_diff(target), text);
        }
        match found {
            _ if found == target || target == 0 => break,
            _ if found < target => count += target - found,
            _ => count = count.saturating_sub(found - target).max(1),
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::model::Step;

    fn spec() -> SyntheticSpec {
        SyntheticSpec {
            conversations: 6,
            turns: (2, 4),
            input_len: 40,
            later_len: 12,
            output_len: 8,
            prefix_len: 0,
            shared: (0.0, 0.0),
            delay_ms: 250.0,
            max_len: None,
            seed: 3,
        }
    }

    fn texts(trace: &Trace) -> Vec<String> {
        let text = |step: &Step| match &step.prompt {
            Prompt::Given(content) => content.get("text").unwrap().as_str().unwrap().to_owned(),
            _ => panic!("texts"),
        };
        trace.steps.iter().map(text).collect()
    }

    #[test]
    fn turns_and_lengths_are_as_asked_for() {
        let tokenizer = Tokenizer::builtin();
        let trace = Trace::made(&spec(), &tokenizer).unwrap();
        assert_eq!(trace.trees().1, 6);
        for (step, text) in trace.steps.iter().zip(texts(&trace)) {
            let first = step.parents.is_empty();
            assert_eq!(tokenizer.count(&text, false), if first { 40 } else { 12 });
            assert_eq!(step.history, if first { History::None } else { History::Live });
            assert!(step.parents.iter().all(|edge| edge.after_ms == 250.0));
        }
        assert_eq!(Trace::made(&spec(), &tokenizer).unwrap(), trace, "the same seed makes the same");
    }

    #[test]
    fn shared_parts_are_equal_and_history_is_empty() {
        let spec = SyntheticSpec { shared: (0.5, 0.25), later_len: 40, ..spec() };
        let trace = Trace::made(&spec, &Tokenizer::builtin()).unwrap();
        let texts = texts(&trace);
        let common = texts[0].chars().zip(texts[1].chars()).take_while(|(a, b)| a == b).count();
        let others = texts[0].chars().zip(texts.last().unwrap().chars()).take_while(|(a, b)| a == b).count();
        assert!(common > others && others > 10, "{common} {others}");
        assert!(trace.steps.iter().all(|step| step.history == History::None));
    }

    #[test]
    fn conversations_behind_shared_prefixes_begin_as_the_single_requests_do() {
        let spec = SharedPrefixSpec {
            groups: 2,
            prompts_per_group: 3,
            turns: 3,
            ..crate::datasets::shared_prefix::tests::spec()
        };
        let trace = Trace::behind_shared_prefixes(&spec, &Tokenizer::builtin()).unwrap();
        assert_eq!((trace.trees().1, trace.steps.len(), trace.steps[17].id()), (6, 18, "g-5/2".to_owned()));
        let texts = texts(&trace);
        let system = |text: &str| text.split("\n\n").next().unwrap().to_owned();
        assert_eq!(system(&texts[0]), system(&texts[3]), "one group");
        assert_ne!(system(&texts[0]), system(&texts[9]), "another");
        assert!(texts[0].contains("\n\n") && !texts[1].contains("\n\n") && texts[1] != texts[2]);
    }

    #[test]
    fn what_does_not_fit_is_left_out() {
        let fits = |max_len| Trace::made(&SyntheticSpec { max_len: Some(max_len), ..spec() }, &Tokenizer::builtin());
        // Two turns take 40 + 8 + 12 + 8.
        assert!(fits(68).unwrap().steps.iter().all(|step| step.id().ends_with("/0") || step.id().ends_with("/1")));
        assert!(fits(67).is_err());
    }
}
