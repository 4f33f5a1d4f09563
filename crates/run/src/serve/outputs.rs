//! `--check-outputs`: the outputs under load against those of the same requests without load. The references are made
//! before the run. `--grade`: the outputs against the answers of the dataset. The thread that collects the rows does
//! both, so that no worker waits for it.

mod compare;
mod grade;
mod grade_command;
mod logprobs;
mod plan;
mod reference;

use std::collections::HashMap;

use tacho_core::json::{Dict, Value, dumps};
use tacho_core::{Content, Mutex, Observation, Request, dict, secret::mask_known};
use tacho_loadgen::StopSignal;
use tacho_metrics::outputs::ACCURACY;

use compare::{Traits, compare};
pub use grade::GradeRule;
use logprobs::TokenProbabilities;
use plan::Alone;
pub use plan::{CheckPlan, GradePlan, KnownReferences, ReferenceSource, can_check};
pub(crate) use reference::references;

use crate::{Error, plan::ServePlan, serve::prepare::Prepared};

/// Bytes at the start of an output by which another request's is recognized, and the fewest that tell.
const START: usize = 64;
const MIN_START: usize = 16;

#[derive(Debug)]
struct Reference {
    /// The first request with it.
    index: usize,
    text: Vec<u8>,
    /// Its tokens, if the response has log-probabilities.
    tokens: Vec<TokenProbabilities>,
    traits: Traits,
    /// The output of a second request without load.
    alone: Option<Alone>,
}

#[derive(Debug)]
pub(crate) struct Checker {
    references: Vec<Reference>,
    /// The reference of each request of the workload, if it has one.
    of_request: Vec<Option<u32>>,
    /// References by their start; `None` if several share it.
    starts: HashMap<Vec<u8>, Option<u32>>,
    keep_texts: bool,
}

impl Checker {
    fn new(references: Vec<Reference>, of_request: Vec<Option<u32>>, keep_texts: bool) -> Self {
        let mut starts: HashMap<Vec<u8>, Option<u32>> = HashMap::new();
        for (number, reference) in references.iter().enumerate().filter(|(_, one)| one.text.len() >= MIN_START) {
            let is_same = |other: &u32| references[*other as usize].text == reference.text;
            let known = starts.entry(start(&reference.text).to_vec()).or_insert(Some(number as u32));
            *known = known.filter(|other| is_same(other));
        }
        Checker { references, of_request, starts, keep_texts }
    }

    pub(crate) fn check(&self, row: &mut Observation) {
        let number = self.of_request.get(row.index).copied().flatten();
        let Some(number) = number.filter(|_| row.outcome.is_complete()) else { return };
        let reference = &self.references[number as usize];
        let mut check = compare(&reference.text, &reference.traits, &row.text, self.keep_texts);
        (check.reference, check.alone_differs) = (number, reference.alone.as_ref().map(|alone| alone.differs));
        if let Some(judged) = &row.judged {
            logprobs::compare(&mut check, &reference.tokens, &logprobs::read(&judged.logprobs));
        }
        if check.differs() {
            check.belongs_to = self.owner(&row.text, number);
            let mut expected = std::mem::take(&mut check.expected).into_bytes();
            mask_known(&mut expected);
            check.expected = String::from_utf8_lossy(&expected).into_owned();
        }
        row.judged.get_or_insert_default().check = Some(check);
    }

    /// The request whose reference starts like this output, unless its own reference or its own output without load does.
    fn owner(&self, output: &[u8], own: u32) -> Option<u32> {
        let number = self.starts.get(start(output)).copied().flatten()?;
        let (other, own) = (&self.references[number as usize], &self.references[own as usize]);
        let is_own = other.text == own.text || own.alone.as_ref().is_some_and(|alone| alone.start == start(output));
        (!is_own).then_some(other.index as u32)
    }
}

/// What is done with the outputs of a run.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    checker: Option<Checker>,
    grader: Option<Grader>,
}

impl Judge {
    pub(crate) fn of(plan: &ServePlan, prepared: &Prepared, checker: Option<Checker>) -> Result<Self, Error> {
        Ok(Judge { checker, grader: plan.grade.as_ref().map(|grade| Grader::of(plan, grade, prepared)).transpose()? })
    }

    pub(crate) fn judge(&self, row: &mut Observation) {
        self.checker.iter().for_each(|checker| checker.check(row));
        self.grader.iter().for_each(|grader| grader.grade(row));
        if let Some(judged) = &mut row.judged {
            judged.logprobs = Vec::new();
        }
    }

    /// The scores of a command, by request; the run is over.
    pub(crate) fn scores(&self, prepared: &Prepared, stop: &StopSignal) -> Result<HashMap<usize, Value>, Error> {
        self.grader.as_ref().map_or_else(|| Ok(HashMap::new()), |grader| grader.scores(prepared, stop))
    }
}

/// Grades finished rows, or keeps them for a command.
#[derive(Debug)]
struct Grader {
    plan: GradePlan,
    answers: HashMap<usize, Value>,
    /// Requests and outputs for the command.
    outputs: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Grader {
    fn of(plan: &ServePlan, grade: &GradePlan, prepared: &Prepared) -> Result<Self, Error> {
        let wrong = |problem: &str| Error::Grader { problem: problem.to_owned() };
        if plan.ranks.is_some() {
            return Err(wrong("--grade works with one rank only: remove --ranks"));
        }
        let mut answers = HashMap::new();
        prepared.requests.each(|index, request| {
            answers.extend(request.answer.clone().map(|answer| (index, answer)));
            Ok::<_, Error>(())
        })?;
        if matches!(grade, GradePlan::Rule(_)) && answers.is_empty() {
            return Err(wrong("--grade: no row of the dataset has an answer: add the field \"answer\""));
        }
        if let GradePlan::Rule(rule) = grade {
            let bad = answers.iter().filter_map(|(index, answer)| Some((index, answer, rule.missing(answer)?)));
            if let Some((index, answer, needed)) = bad.min_by_key(|(index, ..)| **index) {
                let (name, answer) = (rule.name(), dumps(answer));
                return Err(wrong(&format!(
                    "--grade {name} needs {needed} as answer, but request {index} has {answer}"
                )));
            }
        }
        Ok(Grader { plan: grade.clone(), answers, outputs: Mutex::default() })
    }

    fn grade(&self, row: &mut Observation) {
        if !row.outcome.is_complete() {
            return;
        }
        match &self.plan {
            GradePlan::Command(_) => {
                let mut outputs = self.outputs.lock();
                outputs.push((row.index, row.text.clone()));
            }
            GradePlan::Rule(rule) => {
                let Some(answer) = self.answers.get(&row.index) else { return };
                let correct = rule.is_correct(&String::from_utf8_lossy(&row.text), answer);
                let scores: Dict = [(ACCURACY.to_owned(), Value::Int(correct.into()))].into_iter().collect();
                row.judged.get_or_insert_default().scores = Some(scores.into());
            }
        }
    }

    fn scores(&self, prepared: &Prepared, stop: &StopSignal) -> Result<HashMap<usize, Value>, Error> {
        let GradePlan::Command(command) = &self.plan else { return Ok(HashMap::new()) };
        let mut outputs = std::mem::take(&mut *self.outputs.lock());
        outputs.iter_mut().for_each(|(_, output)| mask_known(output));
        let line = |(index, output): &(usize, Vec<u8>)| {
            let request = prepared.requests.get(*index)?;
            Ok(dict! {
                "index": *index,
                "request": request.map(asked),
                "output": String::from_utf8_lossy(output).into_owned(),
                "reference": self.answers.get(index).cloned(),
            }
            .into())
        };
        let lines = outputs.iter().map(line).collect::<Result<Vec<Value>, Error>>()?;
        let scores = grade_command::scores(command, &lines, stop)?;
        Ok(outputs.into_iter().map(|(index, _)| index).zip(scores).collect())
    }
}

/// The prompt or the messages of a request.
fn asked(request: Request) -> Value {
    match (request.chat_messages, request.content) {
        (Some(messages), _) => messages,
        (None, Content::Text(text)) => text.into(),
        (None, Content::Texts(texts)) => Value::List(texts.into_iter().map(Value::from).collect()),
        (None, Content::Ids(ids)) => Value::List(ids.into_iter().map(|id| Value::Int(id.into())).collect()),
        (None, Content::Json(value)) => value,
    }
}

fn start(text: &[u8]) -> &[u8] {
    &text[..text.len().min(START)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tacho_core::Timestamp;

    #[test]
    fn outputs_of_other_requests_are_recognized() {
        let texts =
            ["the first answer is long enough", "the second answer is long enough", "short", "one of another model"];
        let reference = |(index, text): (usize, &&str)| Reference {
            index,
            text: text.as_bytes().to_vec(),
            tokens: Vec::new(),
            traits: Traits::of(text),
            alone: Some(Alone { differs: index == 3, start: start(texts[index % 3].as_bytes()).to_vec() }),
        };
        let references = texts.iter().enumerate().map(reference).collect();
        let checker = Checker::new(references, vec![Some(0), Some(1), Some(2), Some(3), None], false);
        let check = |index: usize, text: &str| {
            let mut row = Observation::dispatched(index, Timestamp::ZERO, Timestamp::ZERO);
            row.text = text.as_bytes().to_vec();
            checker.check(&mut row);
            row.check().map(|check| (check.first_difference, check.belongs_to))
        };
        assert_eq!(check(0, texts[0]), Some((None, None)));
        assert_eq!(check(0, texts[1]), Some((Some(4), Some(1))));
        assert_eq!(check(1, "the second answer is wrong"), Some((Some(21), None)));
        assert_eq!(check(0, "short"), Some((Some(0), None)), "too short to tell whose it is");
        assert_eq!(check(3, texts[0]), Some((Some(0), None)), "its own output without load");
        assert_eq!(check(3, texts[1]), Some((Some(0), Some(1))));
        assert_eq!(check(4, texts[0]), None);
    }
}
