//! Prefix reuse with an unbounded cache, recomputed from the actual send order: a prefix is cached once a request with
//! it has its first token.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::step::SessionStep;
use crate::Sample;

/// Tokens per block of the server's cache where it does not report it; vLLM's default. Only whole blocks are found.
pub(super) const BLOCK: u64 = 16;

/// Reusable tokens of one prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CachedPrefixes {
    /// Tokens that another request had computed by then.
    pub(super) ideal: u64,
    /// Tokens that another request had begun to compute by then.
    pub(super) begun: u64,
}

/// Reusable tokens of each prompt that was sent; `None` where the segments of prompts are unknown.
pub(super) fn known(
    steps: &[SessionStep],
    samples: &[Option<&Sample>],
    block: u64,
) -> Option<HashMap<usize, CachedPrefixes>> {
    let mut sent: Vec<(usize, &Sample)> =
        samples.iter().enumerate().filter_map(|(index, sample)| sample.map(|sample| (index, sample))).collect();
    if sent.is_empty() || sent.iter().any(|(index, _)| steps[*index].own.is_empty()) {
        return None;
    }
    sent.sort_by(|left, right| left.1.sent.total_cmp(&right.1.sent));
    let mut there: HashMap<u64, f64> = HashMap::new();
    for (index, _) in steps.iter().enumerate().filter(|(_, step)| step.warmed) {
        let context = line(steps, index, samples);
        there.extend(context.iter().rev().skip(1).map(|(name, _)| (*name, f64::NEG_INFINITY)));
    }
    let mut all = HashMap::new();
    for (index, sample) in sent {
        let line = line(steps, index, samples);
        let mut known = CachedPrefixes::default();
        let mut unbroken = true;
        for &(name, tokens) in &line {
            let Some(&since) = there.get(&name) else { break };
            unbroken &= since <= sample.sent;
            known.begun = tokens;
            known.ideal = if unbroken { tokens } else { known.ideal };
        }
        // The last token of a prompt is always computed.
        let whole = |tokens: u64| tokens.min(sample.prompt_len.saturating_sub(1)) / block * block;
        all.insert(index, CachedPrefixes { ideal: whole(known.ideal), begun: whole(known.begun) });
        if sample.ttft > 0.0 || sample.success() {
            let first = sample.sent + sample.ttft;
            for (name, _) in line {
                there.entry(name).and_modify(|since| *since = since.min(first)).or_insert(first);
            }
        }
        if sample.success() {
            let answered = answered(steps, index, samples);
            there.entry(answered).and_modify(|since| *since = since.min(sample.done)).or_insert(sample.done);
        }
    }
    Some(all)
}

/// The prefixes of a prompt: a hash of everything up to each segment, and its tokens.
fn line(steps: &[SessionStep], index: usize, samples: &[Option<&Sample>]) -> Vec<(u64, u64)> {
    let mut prefixes = Vec::new();
    let (mut name, mut tokens) = (0, 0);
    for &(before, choice) in &steps[index].before {
        extend(&steps[before].own, &mut name, &mut tokens, &mut prefixes);
        let Some(sample) = samples[before].filter(|sample| sample.success()) else { continue };
        name = chained(name, response(before, choice, sample));
        // The server's count is exact where known: templates add tokens that no segment has.
        tokens = sample.prompt_len + sample.output_len;
        prefixes.push((name, tokens));
    }
    extend(&steps[index].own, &mut name, &mut tokens, &mut prefixes);
    if let (Some((_, all)), Some(sample)) = (prefixes.last_mut(), samples[index]) {
        // A request with the same segments has the same prompt, template included.
        *all = (*all).max(sample.prompt_len);
    }
    prefixes
}

fn extend(own: &[(u64, u64)], name: &mut u64, tokens: &mut u64, prefixes: &mut Vec<(u64, u64)>) {
    for &(piece, count) in own {
        *name = chained(*name, (piece, count));
        *tokens += count;
        prefixes.push((*name, *tokens));
    }
}

/// The hash of a prompt with its response, which later prompts begin with.
fn answered(steps: &[SessionStep], index: usize, samples: &[Option<&Sample>]) -> u64 {
    let chain = steps[index].before.iter().copied().chain([(index, 0)]);
    chain.fold(0, |name, (at, choice)| {
        let name = steps[at].own.iter().fold(name, |name, piece| chained(name, *piece));
        samples[at].filter(|sample| sample.success()).map_or(name, |sample| chained(name, response(at, choice, sample)))
    })
}

/// The hash of a response: of its text, which another conversation may share. Of its position where the text was not
/// kept, as for all choices but the first.
fn response(index: usize, choice: usize, sample: &Sample) -> (u64, u64) {
    let mut hasher = DefaultHasher::new();
    match choice {
        0 if !sample.text.is_empty() => sample.text.hash(&mut hasher),
        _ => (index, choice).hash(&mut hasher),
    }
    (u64::MAX, hasher.finish())
}

fn chained(name: u64, piece: (u64, u64)) -> u64 {
    let mut hasher = DefaultHasher::new();
    (name, piece).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RareFields;

    fn step(own: &[(u64, u64)], before: &[usize]) -> SessionStep {
        let before = before.iter().map(|&before| (before, 0)).collect();
        SessionStep { own: own.to_vec(), before, ..SessionStep::default() }
    }

    fn sample(sent: f64, prompt_len: u64) -> Sample {
        Sample { sent, ttft: 1.0, done: sent + 2.0, prompt_len, output_len: 20, ..Sample::default() }
    }

    #[test]
    fn contexts_sent_before_the_run_are_known_without_their_last_response() {
        let warm = SessionStep { warmed: true, ..step(&[(1, 64), (2, 16)], &[]) };
        let steps = [warm, step(&[(3, 40)], &[0])];
        let sent = sample(0.0, 120);
        let ideal = |steps: &[SessionStep]| known(steps, &[None, Some(&sent)], BLOCK).unwrap()[&1].ideal;
        assert_eq!(ideal(&steps), 64);
        assert_eq!(ideal(&[SessionStep { warmed: false, ..steps[0].clone() }, steps[1].clone()]), 0);
    }

    #[test]
    fn blocks_are_known_once_their_first_sender_has_a_token() {
        let steps = [step(&[(1, 64), (2, 64)], &[]), step(&[(1, 64), (3, 64)], &[]), step(&[(1, 64), (2, 64)], &[])];
        let samples = [sample(0.0, 128), sample(0.5, 128), sample(1.5, 128)];
        let samples: Vec<Option<&Sample>> = samples.iter().map(Some).collect();
        let known = known(&steps, &samples, BLOCK).unwrap();
        assert_eq!(known[&0], CachedPrefixes::default());
        assert_eq!(known[&1], CachedPrefixes { ideal: 0, begun: 64 }, "the first sender was not there yet");
        assert_eq!(known[&2].ideal, 112, "all but the last token, in whole blocks");
    }

    #[test]
    fn two_conversations_with_equal_responses_share_prefixes() {
        let steps = [step(&[(1, 30)], &[]), step(&[(2, 30)], &[0]), step(&[(1, 30)], &[]), step(&[(2, 30)], &[2])];
        let responded = |sent, prompt_len, text: &str| Sample {
            rare: RareFields { text: text.into(), ..RareFields::default() }.into(),
            ..sample(sent, prompt_len)
        };
        // The second conversation's last prompt: question and response are 52 tokens. With the next question it equals
        // the first one's: all 100 tokens that the server counted.
        for (text, ideal) in [("the same", 96), ("another", 48)] {
            let samples = [
                responded(0.0, 32, "the same"),
                responded(5.0, 100, "x"),
                responded(0.0, 32, text),
                responded(9.0, 100, "y"),
            ];
            let samples: Vec<Option<&Sample>> = samples.iter().map(Some).collect();
            assert_eq!(known(&steps, &samples, BLOCK).unwrap()[&3].ideal, ideal);
        }
    }

    #[test]
    fn a_turn_reuses_the_previous_prompt_and_response() {
        let steps = [step(&[(1, 30)], &[]), step(&[(2, 10)], &[0])];
        let samples = [sample(0.0, 37), sample(5.0, 80)];
        let samples: Vec<Option<&Sample>> = samples.iter().map(Some).collect();
        // 37 and 20 tokens were cached, by the server's count: three whole blocks.
        assert_eq!(known(&steps, &samples, BLOCK).unwrap()[&1].ideal, 48);
        assert_eq!(known(&steps, &samples, 32).unwrap()[&1].ideal, 32, "larger blocks are whole less often");
        assert_eq!(known(&[step(&[], &[])], &samples[..1], BLOCK), None, "unknown segments have no prefixes");
    }
}
