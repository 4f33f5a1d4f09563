//! Checked and graded outputs in the result file.

use tacho_core::json::{Keyed, ListOf, Optional};
use tacho_core::view;
use tacho_decide::outputs::{FALSE_ALARMS, Question, questions};
use tacho_metrics::{OutputStatistics, ScoreStatistics};
use tacho_record::{RunRecord, metric::score_key};

view! {
    /// Outputs compared with their references.
    pub(super) struct Outputs(found: &OutputStatistics, r: &RunRecord) {
        /// Outputs that were compared.
        checked: u64 = found.differing.of,
        /// Distinct requests among them.
        references: u64 = found.references,
        /// Outputs that differ from the reference.
        different: u64 = found.differing.count as u64,
        /// Outputs that differ, of the same requests sent alone before the run.
        different_alone: Optional<u64> = found.alone.map(|alone| alone.count as u64),
        /// Outputs with each flaw: truncated, repetitive, garbled, other_script.
        flaws: Keyed<u64> = found.flaws.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        /// Median characters before the first difference.
        median_first_difference: Optional<f64> = found.first_difference,
        /// Mean edit distance of the outputs that differ, in characters, of at most 256 after the first difference.
        mean_edit_distance: Optional<f64> = found.edits,
        /// Median tokens before the first different one, where responses have log-probabilities.
        median_first_different_token: Optional<f64> = found.first_token,
        /// False-alarm rate of all questions together.
        false_alarm_rate: f64 = FALSE_ALARMS,
        /// What the divergence may depend on.
        questions: ListOf<QuestionPart> = questions(r).iter().map(QuestionPart::of).collect(),
    }
}

view! {
    struct QuestionPart(question: &Question) {
        /// What the divergence may depend on: load, requests in flight, time, prefix cache, or a label.
        factor: String = question.factor.clone(),
        /// The answer: yes, no (by less than 5 percentage points), or inconclusive.
        depends: String = question.answer.name().to_owned(),
        /// The group with more divergence.
        more: String = question.groups.0.clone(),
        /// The group that it is compared with.
        less: String = question.groups.1.clone(),
        /// Difference of their divergences.
        effect: f64 = question.effect,
        /// Its 95% confidence interval.
        interval: [Option<f64>; 2] = [Some(question.interval.low), Some(question.interval.high)],
        /// p-value, corrected for the number of questions (Holm).
        p_value: f64 = question.p_value,
    }
}

view! {
    /// A score of the outputs.
    pub(super) struct Score(score: &ScoreStatistics) {
        /// Its metric in conditions and rules: accuracy, or score_ and its name.
        key: String = score_key(&score.name),
        /// Outputs that have it.
        count: u64 = score.mean.of,
        /// Their mean.
        mean: f64 = score.mean.value,
        /// Its 95% confidence interval; null where one output has no spread.
        interval: [Option<f64>; 2] = [score.mean.interval.low, score.mean.interval.high].map(|bound| Some(bound).filter(|bound| bound.is_finite())),
    }
}
