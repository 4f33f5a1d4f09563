//! A regression gate between two results: failures first, then rules that the candidate must not break. Each rule is
//! within its limit, beyond it, or inconclusive.

mod failures;

pub use self::failures::{FailureRule, Failures};

use std::borrow::Cow;

use tacho_record::metric::{Known, Unit, is_fraction};
use tacho_record::{Error, StoredRun, groups::split};

use crate::compare::{Basis, Confidence, Effect, Scale, Terms, compare, compare_pairs, judged_outputs};

/// By how much a metric may get worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// As a fraction of the baseline.
    Share(f64),
    /// In the metric's own unit.
    Amount(f64),
    /// Not significantly. Such a rule is never inconclusive.
    Insignificant,
}

/// One rule: a metric and by how much it may get worse.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// Key of the metric.
    pub key: String,
    /// The limit.
    pub limit: Limit,
}

impl Rule {
    /// Parses `KEY:5%` or, in the metric's own unit, `KEY:20ms`. A limit without a unit is refused: 5 may mean
    /// either. A limit of a fraction is in percentage points, `KEY:1pp`: a baseline of 0 allows no relative one.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Rule { rule: text.to_owned() };
        let (key, limit) = text.rsplit_once(':').ok_or_else(wrong)?;
        let number = |text: &str| {
            text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(wrong)
        };
        let (key, limit) = (key.trim(), limit.trim());
        let is_fraction = is_fraction(key);
        let points = limit.strip_suffix("pt").filter(|_| unit(key) == "pp");
        let limit = match (limit.strip_suffix('%'), limit.strip_suffix(unit(key)).or(points)) {
            (Some(percent), _) if is_fraction => {
                number(percent)?;
                return Err(Error::LimitPoints { key: key.to_owned(), percent: percent.trim().to_owned() });
            }
            (Some(percent), _) => Limit::Share(number(percent)? / 100.0),
            (None, Some(points)) if is_fraction => Limit::Amount(number(points)? / 100.0),
            (None, Some(amount)) => Limit::Amount(number(amount)?),
            (None, None) => {
                number(limit)?;
                return Err(Error::LimitUnit { unit: unit(key), key: key.to_owned(), limit: limit.to_owned() });
            }
        };
        match key {
            "" => return Err(wrong()),
            // Relative limits of failure counts make no sense: a baseline of zero would forbid everything or nothing.
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
            Limit::Amount(amount) => {
                let amount = if is_fraction(&self.key) { (amount * 1e6).round() / 1e4 } else { amount };
                format!("{amount} {}", unit(&self.key)).trim_end().to_owned()
            }
            Limit::Insignificant => "no significant change for the worse".to_owned(),
        }
    }

    /// The limit on the scale of an effect.
    pub fn allowance(&self, effect: &Effect) -> f64 {
        let base = effect.base.abs();
        match (self.limit, effect.scale) {
            (Limit::Insignificant, _) => 0.0,
            (Limit::Share(share), Scale::Relative) => share,
            (Limit::Share(share), Scale::Points | Scale::Units) => share * base,
            (Limit::Amount(amount), Scale::Relative) => amount / base,
            (Limit::Amount(amount), Scale::Points | Scale::Units) => amount,
        }
    }
}

/// The unit of a limit in the metric's own unit.
fn unit(key: &str) -> &'static str {
    match Known::find(split(key).1).map(Known::unit) {
        Some(Unit::Percent | Unit::Fraction) => "pp",
        Some(unit) => unit.text(),
        None => "",
    }
}

/// The result of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgment {
    /// Even the upper confidence bound of the change is within the limit.
    Within,
    /// Even the lower confidence bound of the change is beyond the limit.
    Beyond,
    /// The limit is between the bounds.
    Inconclusive,
    /// A fixed request rate determined the metric on both sides: it carries no information about the server.
    Scheduled,
}

impl Judgment {
    /// The combined result of the rules and the failures: the worst of them. If the schedule determined all rules,
    /// there is none.
    pub fn overall(failures: &Failures, decisions: &[Decision]) -> Self {
        let any = |wanted: Judgment| decisions.iter().any(|decision| decision.judgment == wanted);
        match failures.judgment {
            Judgment::Beyond => Judgment::Beyond,
            _ if any(Judgment::Beyond) => Judgment::Beyond,
            _ if any(Judgment::Inconclusive) => Judgment::Inconclusive,
            _ if any(Judgment::Scheduled) && !any(Judgment::Within) => Judgment::Inconclusive,
            _ => Judgment::Within,
        }
    }
}

/// What would decide an inconclusive rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// This many more requests per side, if the estimate stays the same.
    Requests(u64),
    /// This many more runs per side, if the estimate stays the same.
    Runs(u64),
    /// This many more pairs of runs, if the estimate stays the same.
    Pairs(u64),
    /// Nothing: the change is so close to the limit that no reasonable amount of data decides.
    TooClose,
    /// An estimate of the variation: single requests, repeated runs, or an assumption.
    Spread,
    /// A side with successful requests.
    Answers,
}

/// A rule and its result.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The rule.
    pub rule: Rule,
    /// The change of its metric.
    pub effect: Effect,
    /// Its result.
    pub judgment: Judgment,
    /// Whether it exceeds its limit on its own, but not after the correction for several rules.
    pub alone: bool,
    /// What would decide it; `None` if it is decided.
    pub remedy: Option<Remedy>,
}

impl Decision {
    /// Those of `pairs` that its metric could not use.
    pub fn left_out(&self, pairs: usize) -> usize {
        if let Basis::Sequence(used) = self.effect.basis { pairs - used } else { 0 }
    }
}

/// Largest multiple of the data that is recommended.
const MAX_DATA: f64 = 100.0;

/// The fewest pairs that can decide at 95% confidence.
const MIN_PAIRS: u64 = 4;

/// The rules with those that every gate has: outputs that both sides checked or graded must not get significantly worse.
fn with_outputs<'r>(rules: &'r [Rule], base: &[StoredRun], new: &[StoredRun]) -> Cow<'r, [Rule]> {
    let is_new = |key: &String| rules.iter().all(|rule| rule.key != *key);
    let implied = judged_outputs(base, new).into_iter().filter(is_new);
    let implied: Vec<Rule> = implied.map(|key| Rule { key, limit: Limit::Insignificant }).collect();
    if implied.is_empty() { rules.into() } else { [rules, &implied].concat().into() }
}

/// Judges `new` against `base` by all rules. The family-wise false-positive rate over all rules and the failure test
/// is at most 5% (at 95% confidence), by Holm's method (1979).
pub fn judge(
    rules: &[Rule],
    failures: &FailureRule,
    base: &[StoredRun],
    new: &[StoredRun],
    terms: Terms,
) -> Result<(Failures, Vec<Decision>), Error> {
    let effect = |rule: &Rule| compare(&rule.key, base, new, terms);
    decide(&with_outputs(rules, base, new), failures.judge(base, new), effect, terms.confidence)
}

/// Judges pairs of runs of the same requests, in the order of measurement, by all rules. The family-wise false-positive
/// rate holds for all looks together, however many follow: a test may stop at any.
pub fn judge_pairs(
    rules: &[Rule],
    failures: &FailureRule,
    base: &[StoredRun],
    new: &[StoredRun],
    confidence: Confidence,
) -> Result<(Failures, Vec<Decision>), Error> {
    let effect = |rule: &Rule| compare_pairs(&rule.key, base, new, confidence);
    decide(&with_outputs(rules, base, new), failures.judge(base, new).at_look(base.len()), effect, confidence)
}

fn decide(
    rules: &[Rule],
    mut failures: Failures,
    effect: impl Fn(&Rule) -> Result<Effect, Error>,
    level: Confidence,
) -> Result<(Failures, Vec<Decision>), Error> {
    let effects: Vec<Effect> = rules.iter().map(effect).collect::<Result<_, _>>()?;
    let beyond = |at: usize, confidence: Confidence| {
        let min = effects[at].harm_bounds(confidence, 1.0);
        min.is_some_and(|(min, _)| min > rules[at].allowance(&effects[at]))
    };
    // Without a change there is nothing to test, and the other rules need no correction for it.
    let is_tested = |at: &usize| {
        effects[*at].offered.is_none() && (rules[*at].limit != Limit::Insignificant || effects[*at].change != 0.0)
    };
    // Holm's step-down: a rule that is beyond its limit at the strictest level is removed, and the rest is judged at
    // the next level.
    let mut open: Vec<usize> = (0..rules.len()).filter(is_tested).collect();
    let tested = open.clone();
    let mut more_fail = failures.is_testable();
    loop {
        let confidence = level.each_of(open.len() + usize::from(more_fail));
        let found = open.len();
        open.retain(|&at| !beyond(at, confidence));
        let failing = more_fail && failures.chance < (1.0 - confidence.share()) / 2.0;
        if failing {
            failures.judgment = Judgment::Beyond;
            more_fail = false;
        }
        if open.is_empty() || (open.len() == found && !failing) {
            break;
        }
    }
    let alone: Vec<bool> = (0..rules.len()).map(|at| open.contains(&at) && beyond(at, level)).collect();
    let stricter = level.each_of(open.len().max(1) + usize::from(more_fail));
    let decisions = effects.into_iter().zip(rules).enumerate().map(|(at, (effect, rule))| {
        let judgment = match effect.offered {
            Some(_) => Judgment::Scheduled,
            None if tested.contains(&at) && !open.contains(&at) => Judgment::Beyond,
            None => inconclusive_or_within(rule, &effect, level),
        };
        let remedy = (judgment == Judgment::Inconclusive).then(|| remedy(rule, &effect, (level, stricter)));
        Decision { rule: rule.clone(), effect, judgment, alone: alone[at], remedy }
    });
    Ok((failures, decisions.collect()))
}

fn inconclusive_or_within(rule: &Rule, effect: &Effect, confidence: Confidence) -> Judgment {
    match effect.harm_bounds(confidence, 1.0) {
        Some(_) if rule.limit == Limit::Insignificant => Judgment::Within,
        Some((_, max)) if max <= rule.allowance(effect) => Judgment::Within,
        _ => Judgment::Inconclusive,
    }
}

/// The amount of data that would decide, if the estimate stays the same: within the limit at the requested
/// confidence, or beyond it at the level that the open rules share.
fn remedy(rule: &Rule, effect: &Effect, (requested, stricter): (Confidence, Confidence)) -> Remedy {
    let limit = rule.allowance(effect);
    let within = |data: f64| effect.harm_bounds(requested, data).is_some_and(|(_, max)| max <= limit);
    let decides = |data: f64| within(data) || effect.harm_bounds(stricter, data).is_some_and(|(min, _)| min > limit);
    match effect.basis {
        Basis::Single => return Remedy::Spread,
        Basis::Empty => return Remedy::Answers,
        Basis::Sequence(count @ 0..2) => return Remedy::Pairs(MIN_PAIRS - count as u64),
        _ => {}
    }
    let mut data = 1.0;
    while data < MAX_DATA {
        data *= 1.05;
        if decides(data) {
            let more = |count: usize| ((count as f64 * (data - 1.0)).ceil() as u64).max(1);
            return match effect.basis {
                Basis::Requests(count) | Basis::Iterations(count) | Basis::Outputs(count) => {
                    Remedy::Requests(more(count))
                }
                Basis::Runs(count) | Basis::Paired(count) => Remedy::Runs(more(count)),
                Basis::Sequence(count) => Remedy::Pairs(more(count)),
                _ => Remedy::Runs(more(1)),
            };
        }
    }
    Remedy::TooClose
}

#[cfg(test)]
mod tests;
