//! What the divergence of outputs depends on: load, class, replica, adapter, prefix cache, time. Every question is a
//! test of its own, and all of them together raise a false alarm in at most one of twenty runs (Holm).

use std::collections::BTreeMap;

pub use tacho_metrics::outputs::{Dependence, Question};
use tacho_metrics::{Sample, Samples, Share, interval::Interval};
use tacho_pyrand::Generator;
use tacho_record::RunRecord;

/// Probability of a false alarm over all questions of a run.
pub const FALSE_ALARMS: f64 = 0.05;
/// A change of the divergence that is too small to matter.
pub const MARGIN: f64 = 0.05;
/// Fewest outputs of a group that is compared with others.
const MIN_GROUP: usize = 5;
/// Most groups of a label.
const MAX_GROUPS: usize = 20;

/// A checked output, with what it may depend on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// Its reference.
    pub reference: u32,
    /// Whether it differs from it.
    pub differs: bool,
    /// Whether the same request sent alone differs too; `None` if it was not repeated.
    pub alone: Option<bool>,
    /// Number of requests in flight when it was sent.
    pub in_flight: f64,
    /// Its send time.
    pub sent: f64,
    /// The groups it belongs to, each a name and a value.
    pub groups: Vec<(String, String)>,
}

/// Answers all questions that a run allows; empty without checked outputs. They are answered once.
pub fn questions(record: &RunRecord) -> &[Question] {
    record.dependences.get_or_init(|| judge_rows(&checked(&record.measured.samples)))
}

/// Answers all questions that these outputs allow.
pub fn judge_rows(rows: &[Checked]) -> Vec<Question> {
    let mut questions: Vec<Question> = under_load(rows).into_iter().collect();
    // Where all outputs are equal, nothing can depend on anything.
    if !rows.iter().any(|row| row.differs) {
        holm(&mut questions);
        return questions;
    }
    questions.extend(trend("requests in flight", rows, |row| row.in_flight, ["more", "fewer"]));
    questions.extend(trend("time", rows, |row| row.sent, ["later", "earlier"]));
    let mut names: Vec<&String> = rows.iter().flat_map(|row| row.groups.iter().map(|(name, _)| name)).collect();
    names.sort();
    names.dedup();
    questions.extend(names.into_iter().filter_map(|name| between_groups(name, rows)));
    holm(&mut questions);
    questions
}

fn checked(samples: &Samples) -> Vec<Checked> {
    let load = Concurrency::of(samples);
    let row = |sample: &Sample| {
        let check = sample.check.as_ref()?;
        let cached = sample.cached_tokens.map(|tokens| if tokens > 0 { "hit" } else { "miss" });
        let cached = cached.map(|hit| ("prefix cache".to_owned(), hit.to_owned()));
        let labels = sample.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Some(Checked {
            reference: check.reference,
            differs: check.differs(),
            alone: check.alone_differs,
            in_flight: load.at(sample.sent),
            sent: sample.sent,
            groups: labels.chain(cached).collect(),
        })
    };
    let mut rows: Vec<Checked> = samples.iter().filter(|sample| sample.success()).filter_map(|s| row(&s)).collect();
    for (name, value) in UNNAMED {
        let has = |row: &Checked| row.groups.iter().any(|(other, _)| other == name);
        if rows.iter().any(has) {
            let group = || (name.to_owned(), value.to_owned());
            rows.iter_mut().filter(|row| !has(row)).for_each(|row| row.groups.push(group()));
        }
    }
    rows
}

/// The groups of outputs without a value: servers report no cached tokens where there are none.
const UNNAMED: [(&str, &str); 2] = [("adapter", "base model"), ("prefix cache", "miss")];

/// The number of requests in flight when one is sent, with itself. Unlike that during a request, it cannot follow from the
/// output: a longer output meets other requests.
struct Concurrency {
    sent: Vec<f64>,
    done: Vec<f64>,
}

impl Concurrency {
    fn of(samples: &Samples) -> Self {
        let mut load = Concurrency { sent: Vec::new(), done: Vec::new() };
        for sample in samples {
            load.sent.push(sample.sent);
            load.done.push(sample.done);
        }
        load.sent.sort_by(f64::total_cmp);
        load.done.sort_by(f64::total_cmp);
        load
    }

    fn at(&self, time: f64) -> f64 {
        let before = |times: &[f64]| times.partition_point(|other| *other <= time) as f64;
        before(&self.sent) - before(&self.done)
    }
}

/// Counts of differing outputs by reference.
fn share<'a>(rows: impl Iterator<Item = &'a Checked>) -> Option<Share> {
    let mut clusters: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
    for row in rows {
        let cluster = clusters.entry(row.reference).or_default();
        *cluster = (cluster.0 + f64::from(u8::from(row.differs)), cluster.1 + 1);
    }
    Share::of_clusters(&clusters.into_values().collect::<Vec<_>>())
}

/// The difference of two shares, by Newcombe's interval.
fn question(factor: &str, groups: [&str; 2], more: Share, less: Share, p_value: f64) -> Question {
    let effect = more.value - less.value;
    let low = (more.value - more.interval.low).hypot(less.interval.high - less.value);
    let high = (more.interval.high - more.value).hypot(less.value - less.interval.low);
    Question {
        factor: factor.to_owned(),
        groups: (groups[0].to_owned(), groups[1].to_owned()),
        effect,
        interval: Interval { low: effect - low, high: effect + high },
        p_value,
        answer: Dependence::Inconclusive,
    }
}

/// Divergence under load against the same requests sent alone. Without an effect of load, each of the outputs of a
/// request is equally likely the one that was sent alone: the number of differing ones among these has a
/// Poisson-binomial distribution. With one output of each request under load this is McNemar's exact test.
fn under_load(rows: &[Checked]) -> Option<Question> {
    let mut strata: BTreeMap<u32, (f64, f64, bool)> = BTreeMap::new();
    for row in rows {
        let Some(alone) = row.alone else { continue };
        let (differ, of, known) = strata.entry(row.reference).or_default();
        (*differ, *of, *known) = (*differ + f64::from(u8::from(row.differs)), *of + 1.0, alone);
    }
    let lone = strata.values().filter(|(.., alone)| *alone).count();
    let chances = strata.values().map(|(differ, of, alone)| (differ + f64::from(u8::from(*alone))) / (of + 1.0));
    let mut distribution = vec![1.0];
    for chance in chances {
        distribution.push(0.0);
        for at in (0..distribution.len()).rev() {
            let fewer = if at > 0 { distribution[at - 1] } else { 0.0 };
            distribution[at] = distribution[at] * (1.0 - chance) + fewer * chance;
        }
    }
    let at_most: f64 = distribution[..=lone].iter().sum();
    let at_least: f64 = distribution[lone..].iter().sum();
    let p_value = (2.0 * at_most.min(at_least)).min(1.0);
    let loaded = share(rows.iter().filter(|row| row.alone.is_some()))?;
    let alone = Share::of(lone as u64, strata.len() as u64)?;
    Some(question("load", ["under load", "alone"], loaded, alone, p_value))
}

/// Whether divergence grows or falls with a number.
fn trend(factor: &str, rows: &[Checked], value: impl Fn(&Checked) -> f64, names: [&str; 2]) -> Option<Question> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| value(&rows[*a]).total_cmp(&value(&rows[*b])));
    let median = value(&rows[*order.get(rows.len() / 2)?]);
    let (above, below): (Vec<&Checked>, Vec<&Checked>) = rows.iter().partition(|row| value(row) >= median);
    if above.len() < MIN_GROUP || below.len() < MIN_GROUP {
        return None;
    }
    // Equal values have the mean of their ranks: their order is that of the workload, which may matter by itself.
    let mut ranks = vec![0.0; rows.len()];
    let mut from = 0;
    for equal in order.chunk_by(|a, b| value(&rows[*a]) == value(&rows[*b])) {
        equal.iter().for_each(|at| ranks[*at] = from as f64 + (equal.len() as f64 - rows.len() as f64) / 2.0);
        from += equal.len();
    }
    let p_value = permuted(&units(rows, true), |order: &[(usize, f64)]| {
        order.iter().map(|(row, residual)| ranks[*row] * residual).sum::<f64>().abs()
    });
    let (more, less) = (share(above.into_iter())?, share(below.into_iter())?);
    Some(if more.value >= less.value {
        question(factor, names, more, less, p_value)
    } else {
        question(factor, [names[1], names[0]], less, more, p_value)
    })
}

/// Whether groups of outputs differ in their divergence.
fn between_groups(name: &str, rows: &[Checked]) -> Option<Question> {
    let group_of = |row: &Checked| row.groups.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let mut members: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        members.entry(group_of(row)?).or_default().push(at);
    }
    members.retain(|_, members| members.len() >= MIN_GROUP);
    if !(2..=MAX_GROUPS).contains(&members.len()) {
        return None;
    }
    let mut group_of_row = vec![usize::MAX; rows.len()];
    members.values().enumerate().for_each(|(group, rows)| rows.iter().for_each(|row| group_of_row[*row] = group));
    let sizes: Vec<f64> = members.values().map(|members| members.len() as f64).collect();
    // A property of the request is compared between requests, one of the response within each request too.
    let mut group_of_reference: BTreeMap<u32, usize> = BTreeMap::new();
    let varies = rows
        .iter()
        .zip(&group_of_row)
        .any(|(row, group)| *group_of_reference.entry(row.reference).or_insert(*group) != *group);
    let p_value = permuted(&units(rows, varies), |order: &[(usize, f64)]| {
        let mut sums = vec![0.0; sizes.len()];
        for (row, residual) in order.iter().filter(|(row, _)| group_of_row[*row] < sizes.len()) {
            sums[group_of_row[*row]] += residual;
        }
        sums.iter().zip(&sizes).map(|(sum, size)| sum * sum / size).sum()
    });
    let compared = members.iter().filter_map(|(value, inside)| {
        let own = share(inside.iter().map(|row| &rows[*row]))?;
        let others = members.iter().filter(|(other, _)| *other != value).flat_map(|(_, rows)| rows);
        Some((value, own, share(others.map(|row| &rows[*row]))?))
    });
    let (worst, more, less) = compared.max_by(|a, b| (a.1.value - a.2.value).total_cmp(&(b.1.value - b.2.value)))?;
    let other = if members.len() == 2 { members.keys().find(|key| *key != worst)? } else { "others" };
    Some(question(name, [worst, other], more, less, p_value))
}

/// Rows of which any order is equally likely if nothing matters, with their residuals: whether they differ, less the mean
/// among them.
struct Stratum(Vec<(usize, f64)>);

/// The outputs of each request if it has several, and all others together. Without `within`, one row for each request.
fn units(rows: &[Checked], within: bool) -> Vec<Stratum> {
    let mut by_reference: BTreeMap<u32, Vec<(usize, f64)>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        by_reference.entry(row.reference).or_default().push((at, f64::from(u8::from(row.differs))));
    }
    let (mut strata, mut single) = (Vec::new(), Vec::new());
    for outputs in by_reference.into_values() {
        if !within || outputs.len() == 1 {
            single.push((outputs[0].0, mean(&outputs)));
        } else {
            strata.push(outputs);
        }
    }
    strata.push(single);
    let centered = |mut rows: Vec<(usize, f64)>| {
        let mean = mean(&rows);
        rows.iter_mut().for_each(|(_, differs)| *differs -= mean);
        Stratum(rows)
    };
    // Outputs that are all equal in this say nothing, in any order.
    strata.into_iter().map(centered).filter(|Stratum(rows)| rows.iter().any(|(_, residual)| *residual != 0.0)).collect()
}

fn mean(rows: &[(usize, f64)]) -> f64 {
    rows.iter().map(|(_, value)| value).sum::<f64>() / rows.len().max(1) as f64
}

/// The fraction of orders whose statistic is at least that of the observed one.
fn permuted(strata: &[Stratum], statistic: impl Fn(&[(usize, f64)]) -> f64) -> f64 {
    let mut rows: Vec<(usize, f64)> = strata.iter().flat_map(|Stratum(rows)| rows.iter().copied()).collect();
    if rows.is_empty() {
        return 1.0;
    }
    let observed = statistic(&rows) * (1.0 - 1e-9);
    let draws = (20_000_000 / rows.len()).clamp(199, 999);
    let mut generator = Generator::new(0);
    let mut residuals: Vec<f64> = rows.iter().map(|(_, residual)| *residual).collect();
    let mut extreme = 1;
    for _ in 0..draws {
        let mut from = 0;
        for Stratum(own) in strata {
            generator.shuffle(&mut residuals[from..from + own.len()]);
            from += own.len();
        }
        rows.iter_mut().zip(&residuals).for_each(|(row, residual)| row.1 = *residual);
        extreme += usize::from(statistic(&rows) >= observed);
    }
    extreme as f64 / (draws + 1) as f64
}

/// Corrects the p-values and answers the questions.
fn holm(questions: &mut [Question]) {
    let mut order: Vec<usize> = (0..questions.len()).collect();
    order.sort_by(|a, b| questions[*a].p_value.total_cmp(&questions[*b].p_value));
    let mut min = 0.0_f64;
    for (done, at) in order.iter().enumerate() {
        let question = &mut questions[*at];
        min = min.max(question.p_value * (order.len() - done) as f64).min(1.0);
        question.p_value = min;
        question.answer = if min <= FALSE_ALARMS {
            Dependence::Found
        } else if question.interval.low.abs().max(question.interval.high.abs()) <= MARGIN {
            Dependence::Excluded
        } else {
            Dependence::Inconclusive
        };
    }
}

#[cfg(test)]
mod tests;
