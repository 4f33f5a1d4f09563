//! A gate between two results: failures first, then rules that a new result must not break. Three answers: within the
//! limit, beyond it, inconclusive.

mod failures;

pub use self::failures::{FailureRule, Failures};

use tacho_record::number::{Known, Unit};
use tacho_record::{Error, StoredRun};

use crate::compare::{Basis, Confidence, Effect, Terms, compare};

/// How much worse a number may get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// By a fraction of the base.
    Share(f64),
    /// By an amount in the number's own unit.
    Amount(f64),
}

/// One rule: a number and how much worse it may get.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The key of the number.
    pub key: String,
    /// The limit.
    pub limit: Limit,
}

impl Rule {
    /// Reads `KEY:5%` or, in the metric's own unit, `KEY:20ms`. A limit without a unit is refused: 5 may mean either.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Rule { rule: text.to_owned() };
        let (key, limit) = text.rsplit_once(':').ok_or_else(wrong)?;
        let number = |text: &str| {
            text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
        };
        let limit = match limit.trim().strip_suffix('%') {
            Some(percent) => Limit::Share(number(percent)? / 100.0),
            None => match limit.trim().strip_suffix(unit(key.trim())) {
                Some(amount) => Limit::Amount(number(amount)?),
                None => {
                    number(limit)?;
                    let (key, limit) = (key.trim().to_owned(), limit.trim().to_owned());
                    return Err(Error::LimitUnit { unit: unit(&key), key, limit });
                }
            },
        };
        let key = key.trim();
        match key {
            "" => return Err(wrong()),
            // Shares of failures are no ratios: none on the base side would forbid everything or nothing.
            "failed" | "completed" => return Err(Error::Failures { key: key.to_owned() }),
            _ => Known::judged(key)?,
        };
        Ok(Rule { key: key.to_owned(), limit })
    }

    /// The limit with its unit.
    pub fn limit_text(&self) -> String {
        match self.limit {
            // 0.07 * 100 is not 7.
            Limit::Share(share) => format!("{}%", (share * 1e6).round() / 1e4),
            Limit::Amount(amount) => format!("{amount} {}", unit(&self.key)).trim_end().to_owned(),
        }
    }

    /// The limit as a fraction of `base`.
    pub fn share(&self, base: f64) -> f64 {
        match self.limit {
            Limit::Share(share) => share,
            Limit::Amount(amount) => amount / base.abs(),
        }
    }
}

/// The unit of a limit in the metric's own unit.
fn unit(key: &str) -> &'static str {
    match Known::find(key).map(Known::unit) {
        Some(Unit::Percent) => "pp",
        Some(unit) => unit.text(),
        None => "",
    }
}

/// What a rule says of two results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// Even the largest change that is plausible is within the limit.
    Within,
    /// Even the least change that is plausible is beyond the limit.
    Beyond,
    /// Neither is sure.
    Inconclusive,
    /// A fixed request rate determined the metric on both sides: it says nothing about the server.
    Scheduled,
}

impl Judgement {
    /// What the rules and the failures say together: the worst of them. Rules that are all determined by the schedule answer
    /// nothing.
    pub fn overall(failures: &Failures, decisions: &[Decision]) -> Self {
        let any = |wanted: Judgement| decisions.iter().any(|decision| decision.judgement == wanted);
        match failures.judgement {
            Judgement::Beyond => Judgement::Beyond,
            _ if any(Judgement::Beyond) => Judgement::Beyond,
            _ if any(Judgement::Inconclusive) => Judgement::Inconclusive,
            _ if any(Judgement::Scheduled) && !any(Judgement::Within) => Judgement::Inconclusive,
            _ => Judgement::Within,
        }
    }
}

/// What would decide an open rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// This many more requests on each side, if they say the same.
    Requests(u64),
    /// This many more runs on each side, if they say the same.
    Runs(u64),
    /// The change is so close to the limit that no sensible number of them would.
    TooClose,
    /// A spread: single requests, repeated runs, or an assumption.
    Spread,
    /// A side that answers.
    Answers,
}

/// A rule and what became of it.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The rule.
    pub rule: Rule,
    /// The change of its number.
    pub effect: Effect,
    /// What the rule says.
    pub judgement: Judgement,
    /// Whether it is beyond its limit by its own interval, which is not sure enough where several are judged together.
    pub alone: bool,
    /// What would decide it; nothing where it is decided.
    pub remedy: Option<Remedy>,
}

/// Largest factor of data that is advised.
const MOST_DATA: f64 = 100.0;

/// Judges `new` against `base` by all rules together: in at most one of twenty comparisons of equal builds (at 95%) is any
/// of them, or the failures, called beyond (Holm 1979).
pub fn judge(
    rules: &[Rule],
    failures: &FailureRule,
    base: &[StoredRun],
    new: &[StoredRun],
    terms: Terms,
) -> Result<(Failures, Vec<Decision>), Error> {
    let effects: Vec<Effect> =
        rules.iter().map(|rule| compare(&rule.key, base, new, terms)).collect::<Result<_, _>>()?;
    let mut failures = failures.judge(base, new);
    let beyond = |at: usize, confidence: Confidence| {
        let least = effects[at].harm_bounds(confidence, 1.0);
        least.is_some_and(|(least, _)| least > rules[at].share(effects[at].base))
    };
    // Whatever is beyond at the strictest level left is beyond; then the others are judged as if it were not there.
    let mut open: Vec<usize> = (0..rules.len()).filter(|&at| effects[at].offered.is_none()).collect();
    let mut more_fail = failures.is_testable();
    loop {
        let confidence = terms.confidence.each_of(open.len() + usize::from(more_fail));
        let found = open.len();
        open.retain(|&at| !beyond(at, confidence));
        let failing = more_fail && failures.chance < (1.0 - confidence.share()) / 2.0;
        if failing {
            failures.beyond_chance();
            more_fail = false;
        }
        if open.is_empty() || (open.len() == found && !failing) {
            break;
        }
    }
    let alone: Vec<bool> = (0..rules.len()).map(|at| open.contains(&at) && beyond(at, terms.confidence)).collect();
    let surer = terms.confidence.each_of(open.len().max(1) + usize::from(more_fail));
    let decisions = effects.into_iter().zip(rules).enumerate().map(|(at, (effect, rule))| {
        let judgement = match effect.offered {
            Some(_) => Judgement::Scheduled,
            None if open.contains(&at) => inconclusive_or_within(rule, &effect, terms.confidence),
            None => Judgement::Beyond,
        };
        let remedy = (judgement == Judgement::Inconclusive).then(|| remedy(rule, &effect, (terms.confidence, surer)));
        Decision { rule: rule.clone(), effect, judgement, alone: alone[at], remedy }
    });
    Ok((failures, decisions.collect()))
}

fn inconclusive_or_within(rule: &Rule, effect: &Effect, confidence: Confidence) -> Judgement {
    match effect.harm_bounds(confidence, 1.0) {
        Some((_, most)) if most <= rule.share(effect.base) => Judgement::Within,
        _ => Judgement::Inconclusive,
    }
}

/// How much more data, saying the same, would decide: within the limit as sure as is asked for, or beyond it as sure as
/// the rules that are open must be together.
fn remedy(rule: &Rule, effect: &Effect, (asked, surer): (Confidence, Confidence)) -> Remedy {
    let limit = rule.share(effect.base);
    let within = |data: f64| effect.harm_bounds(asked, data).is_some_and(|(_, most)| most <= limit);
    let decides = |data: f64| within(data) || effect.harm_bounds(surer, data).is_some_and(|(least, _)| least > limit);
    match effect.basis {
        Basis::Single => return Remedy::Spread,
        Basis::Empty => return Remedy::Answers,
        _ => {}
    }
    let mut data = 1.0;
    while data < MOST_DATA {
        data *= 1.05;
        if decides(data) {
            let more = |count: usize| ((count as f64 * (data - 1.0)).ceil() as u64).max(1);
            return match effect.basis {
                Basis::Requests(count) | Basis::Iterations(count) => Remedy::Requests(more(count)),
                Basis::Runs(count) | Basis::Alike(count) => Remedy::Runs(more(count)),
                _ => Remedy::Runs(more(1)),
            };
        }
    }
    Remedy::TooClose
}

#[cfg(test)]
mod tests;
