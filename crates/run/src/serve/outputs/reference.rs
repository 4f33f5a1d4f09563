//! The reference outputs: chosen requests are sent one at a time before the run, twice, so that what differs without
//! load is known too. Further runs of an experiment know those of equal requests.

use std::{collections::HashMap, path::Path, sync::Arc};

use tacho_client::control::{Caller, first_model};
use tacho_client::{EndpointSpec, PayloadSpec, RequestIdentity};
use tacho_core::json::{Value, parse};
use tacho_core::{Counters, EventSink, Observation, Request, RunEvent, Work};
use tacho_loadgen::StopSignal;
use tacho_pyrand::Generator;

use super::plan::{Alone, CheckPlan, KnownReference, Output, ReferenceSource};
use super::{Checker, Reference, compare::Traits, logprobs, start};
use crate::{
    Error, plan::ServePlan, serve::prepare::Prepared, serve::prepare::identity::Hash, serve::warmup::send_all,
};

/// Makes the references that the plan requests. Fails when there are none: a run that cannot be checked is not started.
pub(crate) fn references(
    plan: &ServePlan,
    prepared: &Prepared,
    payload: &PayloadSpec,
    stop: &StopSignal,
    sink: &dyn EventSink,
) -> Result<Option<Checker>, Error> {
    let Some(check) = &plan.check else { return Ok(None) };
    if plan.ranks.is_some() {
        return Err(Error::NoReferences {
            problem: "outputs are compared by one rank only: remove --ranks".to_owned(),
        });
    }
    let (chosen, numbers) = distinct(plan, prepared, payload, check)?;
    let new: Chosen = {
        let known = check.known.lock();
        chosen.iter().filter(|one| !known.contains_key(&one.digest)).cloned().collect()
    };
    if !new.is_empty() {
        let pass = Pass { plan, prepared, payload, chosen: &new, stop, sink };
        let outputs = pass.expected(check)?;
        let again =
            pass.alone(plan.endpoint.each("")[0].0.clone(), payload, "again, to see which differ without load")?;
        let found = new.iter().zip(outputs).zip(again).filter_map(|((one, output), again)| {
            let output = output?;
            let alone =
                again.map(|again| Alone { differs: again.text != output.text, start: start(&again.text).to_vec() });
            Some((one.digest.clone(), KnownReference { output, alone }))
        });
        check.known.lock().extend(found);
    }
    let (known, mut references, mut of_number) = (check.known.lock(), Vec::new(), HashMap::new());
    for one in &chosen {
        let Some(KnownReference { output, alone }) = known.get(&one.digest) else { continue };
        of_number.insert(numbers[one.index], references.len() as u32);
        references.push(Reference {
            index: one.index,
            text: output.text.clone(),
            tokens: logprobs::read(&output.logprobs),
            traits: Traits::of(&String::from_utf8_lossy(&output.text)),
            alone: alone.clone(),
        });
    }
    if references.is_empty() {
        return Err(Error::NoReferences { problem: "no reference request was answered".to_owned() });
    }
    let earlier = match chosen.len() - new.len() {
        0 => String::new(),
        earlier => format!(", {earlier} of an earlier run"),
    };
    let text = format!("{} of {} distinct requests have a reference output{earlier}.", references.len(), chosen.len());
    sink.event(RunEvent::status(text));
    let of_request = numbers.iter().map(|number| of_number.get(number).copied()).collect();
    Ok(Some(Checker::new(references, of_request, plan.report.keep_texts)))
}

#[derive(Clone)]
struct Candidate {
    /// Its first index.
    index: usize,
    digest: String,
    request: Request,
}

type Chosen = Vec<Candidate>;

/// The distinct requests that have a reference, chosen by the seed, those with a known one first; and for each request of
/// the workload the number of its kind. Requests are equal if the same bytes are sent to the same server.
fn distinct(
    plan: &ServePlan,
    prepared: &Prepared,
    payload: &PayloadSpec,
    check: &CheckPlan,
) -> Result<(Chosen, Vec<usize>), Error> {
    let identity = RequestIdentity::new(plan.endpoint.clone(), &plan.base_path, payload);
    let (mut known, mut numbers, mut first) = (HashMap::new(), Vec::new(), Vec::new());
    let server = format!("{}:{}", plan.endpoint.url.host, plan.endpoint.url.port);
    prepared.requests.each(|index, request| {
        let mut hash = Hash::new();
        hash.part(server.as_bytes());
        identity.parts(index, request, |part| hash.part(part))?;
        let digest = hash.digits();
        let number = *known.entry(digest.clone()).or_insert(first.len());
        if number == first.len() {
            first.push((index, digest));
        }
        numbers.push(number);
        Ok::<_, Error>(())
    })?;
    let mut chosen = Generator::new(u64::from(plan.seed)).permutation(first.len());
    let earlier = check.known.lock();
    chosen.sort_by_key(|number| !earlier.contains_key(&first[*number].1));
    drop(earlier);
    chosen.truncate(check.requests);
    chosen.sort_unstable();
    let candidate = |number: usize| {
        let (index, digest) = first[number].clone();
        Ok(prepared.requests.get(index)?.map(|request| Candidate { index, digest, request }))
    };
    let chosen: Vec<Option<Candidate>> = chosen.into_iter().map(candidate).collect::<Result<_, Error>>()?;
    Ok((chosen.into_iter().flatten().collect(), numbers))
}

const REFERENCE: &str = "for reference outputs";

/// The chosen requests, and how they are sent.
struct Pass<'a> {
    plan: &'a ServePlan,
    prepared: &'a Prepared,
    payload: &'a PayloadSpec,
    chosen: &'a Chosen,
    stop: &'a StopSignal,
    sink: &'a dyn EventSink,
}

impl Pass<'_> {
    /// The expected output of each; `None` if it is not known.
    fn expected(&self, check: &CheckPlan) -> Result<Vec<Option<Output>>, Error> {
        match &check.source {
            ReferenceSource::Server => self.alone(self.plan.endpoint.each("")[0].0.clone(), self.payload, REFERENCE),
            ReferenceSource::Other(endpoint) => {
                let asks = self.plan.model.model.is_none() && self.plan.model.served_name.is_none();
                let caller = Caller::new(endpoint, "", endpoint.timeout)?;
                let first = || {
                    let wrong = |error| format!("no answer from {}:{}: {error}", endpoint.url.host, endpoint.url.port);
                    first_model(&caller).map_err(|error| Error::Reference { problem: wrong(error) })
                };
                let model = if asks { first()?.name } else { self.payload.model.clone() };
                self.alone((**endpoint).clone(), &PayloadSpec { model, ..self.payload.clone() }, REFERENCE)
            }
            ReferenceSource::File(path) => {
                let indices: Vec<usize> = self.chosen.iter().map(|one| one.index).collect();
                read_texts(path, &indices, self.prepared)
            }
        }
    }

    /// Sends each request alone. The output is `None` if it fails.
    fn alone(
        &self,
        endpoint: EndpointSpec,
        payload: &PayloadSpec,
        purpose: &str,
    ) -> Result<Vec<Option<Output>>, Error> {
        let lone = |Candidate { request, .. }: &Candidate| Request {
            id: request.id.as_ref().map(|id| format!("{id}-alone")),
            cancel_after: None,
            ..request.clone()
        };
        let requests: Vec<Request> = self.chosen.iter().map(lone).collect();
        let total = requests.len() as u64;
        let counters = Arc::new(Counters::default());
        self.sink.event(RunEvent::status(format!("Sending {total} requests one at a time, {purpose}...")));
        self.sink.event(RunEvent::Started { work: Work::WarmUp, total, counters: counters.clone() });
        let rows = send_all(endpoint, payload, &requests, Some(1), self.stop, &counters);
        self.sink.event(RunEvent::Finished);
        let rows = rows?;
        if self.stop.draining() {
            return Err(Error::Stopped);
        }
        let failures: Vec<&str> = rows.iter().filter_map(|row| Some(row.outcome.failure()?.message.as_str())).collect();
        if let Some(first) = failures.first() {
            let failed = failures.len();
            self.sink
                .event(RunEvent::warning(format!("{failed} of {total} reference requests failed; the first: {first}")));
        }
        let output = |row: Observation| {
            let logprobs = row.judged.map(|judged| judged.logprobs).unwrap_or_default();
            row.outcome.is_complete().then_some(Output { text: row.text, logprobs })
        };
        Ok(rows.into_iter().map(output).collect())
    }
}

/// The texts of these requests in the detailed result of an earlier run.
fn read_texts(path: &Path, indices: &[usize], prepared: &Prepared) -> Result<Vec<Option<Output>>, Error> {
    let wrong = |problem: &str| Error::Reference { problem: format!("{}: {problem}", path.display()) };
    let file = std::fs::read_to_string(path).map_err(|error| wrong(&error.to_string()))?;
    let result = parse(&file).map_err(|_| wrong("not a result file of one run"))?;
    let list = |key: &str| result.get(key).and_then(Value::as_list).map(<[Value]>::to_vec);
    let Some(texts) = list("generated_texts") else {
        return Err(wrong("no generated_texts: make it with --save-result --save-detailed"));
    };
    if texts.len() < prepared.requests.len() {
        return Err(wrong("it has fewer requests than this run"));
    }
    let lens = list("input_lens").unwrap_or_default();
    let text = |index: &usize| {
        let len = lens.get(*index).and_then(Value::as_f64);
        let own = prepared.requests.get(*index)?.map(|request| request.prompt_len as f64);
        if len.is_some() && own.is_some() && len != own {
            return Err(wrong("its prompts have other lengths: use the same dataset, --seed and --num-prompts"));
        }
        let text = texts[*index].as_str().filter(|text| !text.is_empty());
        Ok(text.map(|text| Output { text: text.as_bytes().to_vec(), ..Output::default() }))
    };
    indices.iter().map(text).collect()
}
