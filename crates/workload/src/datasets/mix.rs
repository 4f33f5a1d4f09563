//! Several classes of traffic in one workload, drawn by weight or one after another.

use tacho_core::json::{Dict, Value};
use tacho_core::{Request, labels::MODEL};
use tacho_pyrand::{Globals, RandomState};

use super::WorkloadSpec;
use crate::{Error, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq)]
pub struct MixSpec {
    /// Seeds the draws of classes; class `k` samples its own dataset with this seed plus `k`.
    pub seed: u32,
    /// Number of requests of all classes together.
    pub num_prompts: usize,
    pub classes: Vec<ClassSpec>,
    pub order: MixOrder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MixOrder {
    /// The class of each request is drawn by weight.
    Drawn,
    /// One class after another, each with this number of requests: they are the stages of the run.
    Stages(Vec<usize>),
    /// The class of each request, in the order of the classes' own arrivals.
    Arrivals(Vec<u16>),
}

impl MixOrder {
    /// The number of requests that a class must have; `None` if it may end early.
    fn required(&self, class: usize) -> Option<usize> {
        match self {
            MixOrder::Drawn => None,
            MixOrder::Stages(counts) => counts.get(class).copied(),
            MixOrder::Arrivals(order) => Some(order.iter().filter(|of| usize::from(**of) == class).count()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ClassSpec {
    /// Its name, which is the label `class` of its requests unless it is a stage.
    pub name: String,
    /// Its share of the requests is this weight divided by the sum of all.
    pub weight: f64,
    /// Its dataset, with as many requests as [`MixSpec::counts`] says.
    pub workload: WorkloadSpec,
    /// The model that it requests instead of the run's, which is the label `model` of its requests.
    pub model: Option<String>,
    /// The adapters that its requests take, in turn or by weight.
    pub adapters: Vec<String>,
    /// The weights of the adapters; empty if they take turns.
    pub adapter_weights: Vec<f64>,
    /// Body fields that take precedence over those of the run.
    pub body: Dict,
}

/// The class of each request, drawn from a generator of its own.
fn order(seed: u32, weights: &[f64], num_prompts: usize) -> Vec<usize> {
    let total: f64 = weights.iter().sum();
    let mut random = RandomState::new(seed);
    let pick = |position: f64| {
        let mut sum = 0.0;
        let found = weights.iter().position(|weight| {
            sum += weight;
            position < sum
        });
        found.unwrap_or(weights.len() - 1)
    };
    (0..num_prompts).map(|_| pick(random.random_sample() * total)).collect()
}

impl MixSpec {
    /// Number of requests of each class.
    pub fn counts(seed: u32, weights: &[f64], num_prompts: usize) -> Vec<usize> {
        let mut counts = vec![0; weights.len()];
        order(seed, weights, num_prompts).into_iter().for_each(|class| counts[class] += 1);
        counts
    }

    /// The class of each request.
    fn positions(&self) -> Vec<usize> {
        match &self.order {
            MixOrder::Drawn => {
                let weights: Vec<f64> = self.classes.iter().map(|class| class.weight).collect();
                order(self.seed, &weights, self.num_prompts)
            }
            MixOrder::Stages(counts) => {
                counts.iter().enumerate().flat_map(|(position, &count)| std::iter::repeat_n(position, count)).collect()
            }
            MixOrder::Arrivals(order) => order.iter().map(|class| usize::from(*class)).collect(),
        }
    }

    /// The same mix with other draws, for requests after these.
    pub(crate) fn reseeded(&self, by: i64) -> MixSpec {
        let seed = i64::from(self.seed).wrapping_add(by).rem_euclid(1 << 32) as u32;
        let classes =
            self.classes.iter().map(|class| ClassSpec { workload: class.workload.reseeded(by), ..class.clone() });
        MixSpec { seed, classes: classes.collect(), ..self.clone() }
    }
}

/// Samples each class alone and interleaves the requests. A class whose dataset is exhausted ends early.
pub(super) fn sample(spec: &MixSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let SampleContext { tokenizer, counters, .. } = *context;
    let (mut notices, mut digests) = (Vec::new(), Vec::new());
    let mut queues = Vec::new();
    let kind = if matches!(spec.order, MixOrder::Stages(_)) { "stage" } else { "class" };
    for (position, class) in (0..).zip(&spec.classes) {
        let wanted = spec.order.required(position as usize);
        if wanted == Some(0) {
            queues.push(<_>::default());
            continue;
        }
        let mut globals = Globals::seeded(spec.seed.wrapping_add(position));
        let sampled = super::sample(&class.workload, tokenizer, &mut globals, counters)?;
        let found = sampled.requests.len();
        if let Some(wanted) = wanted.filter(|wanted| found < *wanted) {
            return Err(data!(
                "{kind} {:?} sends {wanted} requests and its dataset has {found}: shorten it, use a larger dataset, or \
                 leave out --no-oversample",
                class.name
            ));
        }
        notices.extend(sampled.notices.into_iter().map(|notice| format!("{kind} {}: {notice}", class.name)));
        digests.extend(sampled.digests);
        let adapters = class.adapter_order(spec.seed.wrapping_add(position), found);
        let requests = (0..).zip(sampled.requests).map(|(at, request)| {
            (at, class.applied(adapters.get(at).map(|&adapter| &class.adapters[adapter]), request, kind == "class"))
        });
        queues.push(requests.collect::<std::collections::VecDeque<_>>());
    }
    let mut requests = Vec::with_capacity(spec.num_prompts);
    for class in spec.positions() {
        if let Some((at, mut request)) = queues[class].pop_front() {
            renumber(&mut request, at, requests.len());
            requests.push(request);
        }
    }
    Ok(Sampled { requests, notices, digests })
}

impl ClassSpec {
    /// The adapter of each request; empty without adapters.
    fn adapter_order(&self, seed: u32, requests: usize) -> Vec<usize> {
        match (self.adapters.len(), self.adapter_weights.as_slice()) {
            (0, _) => Vec::new(),
            (count, []) => (0..requests).map(|at| at % count).collect(),
            // Other draws than those of the classes.
            (_, weights) => order(!seed, weights, requests),
        }
    }

    /// A request with the class's own settings, and its label if it is not a stage.
    fn applied(&self, adapter: Option<&String>, mut request: Request, labeled: bool) -> Request {
        if labeled {
            request.labels = request.labels.with("class", &self.name);
        }
        let mut body = self.body.clone();
        if let Some(model) = &self.model {
            request.labels = request.labels.with(MODEL, model);
            body.set("model", model.as_str());
        }
        if let Some(adapter) = adapter {
            request.lora = Some(adapter.clone());
        }
        if let Some(own) = request.overrides.as_ref().and_then(Value::as_dict) {
            body.update(own);
        }
        if !body.is_empty() {
            request.overrides = Some(Value::Dict(body));
        }
        request
    }
}

/// Keeps ids unique: an id that ends with the request's place in its class gets its place in the workload.
fn renumber(request: &mut Request, at: usize, position: usize) {
    if let Some(id) = &mut request.id {
        let prefix = id.strip_suffix(&at.to_string()).map_or_else(|| format!("{id}-"), str::to_owned);
        *id = format!("{prefix}{position}");
    }
}

#[cfg(test)]
mod tests {
    use tacho_core::Counters;
    use tacho_text::Tokenizer;

    use super::*;
    use crate::{RandomSpec, datasets, sampling::context::with_builtin};

    fn class(name: &str, weight: f64, input_len: i64, count: usize) -> ClassSpec {
        let random = RandomSpec {
            seed: 7,
            num_prompts: count as i64,
            input_len,
            output_len: 4,
            request_id_prefix: "r".to_owned(),
            ..RandomSpec::default()
        };
        let workload = WorkloadSpec::Random(random);
        ClassSpec {
            name: name.to_owned(),
            weight,
            workload,
            model: None,
            adapters: Vec::new(),
            adapter_weights: Vec::new(),
            body: Dict::new(),
        }
    }

    fn mix(num_prompts: usize) -> MixSpec {
        let counts = MixSpec::counts(7, &[3.0, 1.0], num_prompts);
        let mut batch = class("batch", 1.0, 64, counts[1]);
        batch.body.set("priority", 1_i64);
        batch.model = Some("large".to_owned());
        MixSpec { seed: 7, num_prompts, classes: vec![class("chat", 3.0, 8, counts[0]), batch], order: MixOrder::Drawn }
    }

    fn mixed(spec: &MixSpec) -> Result<Sampled, Error> {
        with_builtin(|context| sample(spec, context))
    }

    /// The requests of a class in a run of its own.
    fn alone(position: u32, class: &ClassSpec) -> Vec<Request> {
        let (tokenizer, counters) = (Tokenizer::builtin(), Counters::default());
        let mut globals = Globals::seeded(7 + position);
        datasets::sample(&class.workload, Some(&tokenizer), &mut globals, &counters).unwrap().requests
    }

    #[test]
    fn stages_follow_each_other_with_the_requests_of_runs_of_their_own() {
        let classes = vec![class("a", 1.0, 8, 3), class("pause", 1.0, 8, 0), class("b", 1.0, 64, 2)];
        let mut expected = alone(0, &classes[0]);
        expected.extend(alone(2, &classes[2]));
        let spec = MixSpec { seed: 7, num_prompts: 5, classes, order: MixOrder::Stages(vec![3, 0, 2]) };
        let sampled = mixed(&spec).unwrap();
        for (at, (request, expected)) in sampled.requests.iter().zip(&expected).enumerate() {
            let id = Some(format!("r{at}"));
            assert_eq!(*request, Request { id, ..expected.clone() });
        }
        assert_eq!(sampled.requests.len(), 5);
        let short = MixSpec { order: MixOrder::Stages(vec![4, 0, 2]), ..spec };
        let error = mixed(&short).unwrap_err();
        assert!(error.to_string().starts_with("stage \"a\" sends 4 requests and its dataset has 3"), "{error}");
    }

    #[test]
    fn classes_are_drawn_by_weight_and_keep_their_settings() {
        let sampled = mixed(&mix(400)).unwrap();
        let of = |name: &str| {
            sampled.requests.iter().filter(|request| request.labels.get("class") == Some(name)).collect::<Vec<_>>()
        };
        let (chat, batch) = (of("chat"), of("batch"));
        assert_eq!(chat.len() + batch.len(), 400);
        // Three standard deviations of a binomial share of 1/4.
        assert!((74..=126).contains(&batch.len()), "{}", batch.len());
        assert!(chat.iter().all(|request| request.prompt_len == 8 && request.overrides.is_none()));
        let body = r#"{"priority": 1, "model": "large"}"#;
        assert!(batch.iter().all(|request| request.prompt_len == 64
            && request.overrides.as_ref().map(tacho_core::json::dumps).as_deref() == Some(body)
            && request.labels.get("model") == Some("large")));
        let mut ids: Vec<_> = sampled.requests.iter().filter_map(|request| request.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 400, "ids are unique");
    }

    #[test]
    fn a_class_draws_its_adapters_by_weight() {
        let adapters = |weights: &[f64]| {
            let mut spec = mix(400);
            spec.classes[0].adapters = vec!["a".to_owned(), "b".to_owned()];
            spec.classes[0].adapter_weights = weights.to_vec();
            let requests = mixed(&spec).unwrap().requests;
            let count = |name| requests.iter().filter(|request| request.lora.as_deref() == name).count();
            [Some("a"), Some("b"), None].map(count)
        };
        let [a, b, none] = adapters(&[]);
        assert!(a.abs_diff(b) <= 1 && none == MixSpec::counts(7, &[3.0, 1.0], 400)[1], "{a} {b} {none}");
        let [a, b, _] = adapters(&[9.0, 1.0]);
        // Three standard deviations of a binomial share of 1/10 of 300.
        assert!((14..=46).contains(&b) && a > b, "{a} {b}");
    }

    #[test]
    fn a_class_sends_what_it_sends_alone() {
        let sampled = mixed(&mix(50)).unwrap();
        let chat = sampled.requests.iter().filter(|request| request.labels.get("class") == Some("chat"));
        let alone = alone(0, &mix(50).classes[0]);
        assert!(chat.map(|request| &request.content).eq(alone.iter().map(|request| &request.content)));
    }
}
