//! Log-probabilities of two outputs of a request: the first different token, and how far the distributions before it are
//! apart.

use tacho_core::OutputCheck;
use tacho_core::json::{Value, parse};

/// A token, and the most likely ones in its place with their probabilities.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TokenProbabilities {
    token: String,
    likely: Vec<(String, f64)>,
}

/// Least probability of the tokens that are not reported, and of one that is.
const MIN_PROBABILITY: f64 = 1e-9;

/// The tokens of the `logprobs` of a stream's events, each on a line; empty if there are none, or of another form.
pub(super) fn read(lines: &[u8]) -> Vec<TokenProbabilities> {
    let text = String::from_utf8_lossy(lines);
    let events = text.lines().filter_map(|line| parse(line).ok());
    events.flat_map(|event| chat(&event).or_else(|| completion(&event)).unwrap_or_default()).collect()
}

fn chat(event: &Value) -> Option<Vec<TokenProbabilities>> {
    let pair = |one: &Value| Some((one.text("token")?.to_owned(), one.get("logprob")?.as_f64()?.exp()));
    let token = |one: &Value| {
        let mut likely: Vec<(String, f64)> = Vec::new();
        for (text, probability) in
            one.get("top_logprobs").and_then(Value::as_list).into_iter().flatten().filter_map(pair)
        {
            // Different tokens may have the same text.
            match likely.iter_mut().find(|(other, _)| *other == text) {
                Some((_, sum)) => *sum += probability,
                None => likely.push((text, probability)),
            }
        }
        Some(TokenProbabilities { token: pair(one)?.0, likely })
    };
    event.get("content")?.as_list()?.iter().map(token).collect()
}

fn completion(event: &Value) -> Option<Vec<TokenProbabilities>> {
    let (tokens, likely) = (event.get("tokens")?.as_list()?, event.get("top_logprobs")?.as_list()?);
    let token = |(token, likely): (&Value, &Value)| {
        let likely = likely.as_dict().into_iter().flat_map(|likely| likely.iter());
        let likely = likely.filter_map(|(text, logprob)| Some((text.to_owned(), logprob.as_f64()?.exp())));
        Some(TokenProbabilities { token: token.as_str()?.to_owned(), likely: likely.collect() })
    };
    tokens.iter().zip(likely).map(token).collect()
}

/// Adds what the tokens show to the comparison of their texts. Up to the first different token, itself included, both
/// have the same prefix, so that their distributions are comparable.
pub(super) fn compare(check: &mut OutputCheck, expected: &[TokenProbabilities], output: &[TokenProbabilities]) {
    if expected.is_empty() || output.is_empty() {
        return;
    }
    let same = expected.iter().zip(output).take_while(|(a, b)| a.token == b.token).count();
    check.first_token = (same < expected.len().max(output.len())).then_some(same as u32);
    let with_equal_prefix = expected.iter().zip(output).take(same + 1);
    let distances: Vec<f64> = with_equal_prefix.filter_map(|(a, b)| kl_divergence(&a.likely, &b.likely)).collect();
    if !distances.is_empty() {
        check.mean_kl = Some(distances.iter().sum::<f64>() / distances.len() as f64);
        check.max_kl = distances.into_iter().reduce(f64::max);
    }
}

/// The Kullback-Leibler divergence of the second distribution from the first, over the tokens that both report and all
/// others as one: a lower bound of the true one.
fn kl_divergence(expected: &[(String, f64)], output: &[(String, f64)]) -> Option<f64> {
    let of = |token: &String| output.iter().find(|(other, _)| other == token).map(|(_, probability)| *probability);
    let both: Vec<(f64, f64)> = expected.iter().filter_map(|(token, p)| Some((*p, of(token)?))).collect();
    let (p_both, q_both) = both.iter().fold((0.0, 0.0), |(p, q), (more_p, more_q)| (p + more_p, q + more_q));
    let term = |(p, q): (f64, f64)| if p > 0.0 { p * (p / q.max(MIN_PROBABILITY)).ln() } else { 0.0 };
    let others = ((1.0 - p_both).max(MIN_PROBABILITY), (1.0 - q_both).max(MIN_PROBABILITY));
    (!expected.is_empty() && !output.is_empty())
        .then(|| both.into_iter().chain([others]).map(term).sum::<f64>().max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let chat =
            r#"{"content":[{"token":"a","logprob":0.0,"bytes":[97],"top_logprobs":[{"token":"a","logprob":0.0}]}]}"#;
        let completion = r#"{"text_offset":[0],"token_logprobs":[0.0],"tokens":["a"],"top_logprobs":[{"a":0.0}]}"#;
        let wanted = [TokenProbabilities { token: "a".into(), likely: vec![("a".into(), 1.0)] }];
        assert_eq!(read(chat.as_bytes()), wanted);
        assert_eq!(read(format!("{completion}\n{chat}\n").as_bytes()).len(), 2);
        assert_eq!(read(b"null\n{}\nno"), []);
    }

    #[test]
    fn divergences_are_those_of_equal_prefixes() {
        let token = |token: &str, p: f64| TokenProbabilities {
            token: token.into(),
            likely: vec![("a".into(), p), ("b".into(), 0.9 - p)],
        };
        let expected = [token("a", 0.6), token("a", 0.6), token("a", 0.6)];
        let output = [token("a", 0.6), token("b", 0.3), token("a", 0.1)];
        let mut check = OutputCheck::default();
        compare(&mut check, &expected, &output);
        // scipy.stats.entropy([0.6, 0.3, 0.1], [0.3, 0.6, 0.1]) = 0.207944
        let (mean, max) = (check.mean_kl.unwrap(), check.max_kl.unwrap());
        assert!((max - 0.207_944).abs() < 1e-6 && (mean - max / 2.0).abs() < 1e-9, "{mean} {max}");
        assert_eq!(check.first_token, Some(1));
        compare(&mut check, &expected, &expected);
        assert_eq!((check.first_token, check.max_kl), (None, Some(0.0)));
        compare(&mut check, &expected, &expected[..2]);
        assert_eq!(check.first_token, Some(2), "it ends early");
        // A token that one side does not report counts as one of the others: [0.6, 0.4] and [0.3, 0.7].
        let alone = kl_divergence(&[("a".into(), 0.6), ("b".into(), 0.3)], &[("a".into(), 0.3), ("c".into(), 0.6)]);
        assert!((alone.unwrap() - 0.192_042).abs() < 1e-6, "{alone:?}");
    }
}
