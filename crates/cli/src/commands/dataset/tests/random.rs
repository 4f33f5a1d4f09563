//! The `random` dataset: regenerates every recorded workload byte for byte and checks the final generator state.

use super::case::{Case, assert_made_again, prompts, refusal, tokenizer};
use tacho_core::{Content, Counters, Request};
use tacho_pyrand::Globals;
use tacho_workload::{CachedShare, Error, PrefixSharing, RandomSpec, RangeRatio, WorkloadSpec, sample};

#[test]
fn recorded_workloads_are_made_again_and_leave_the_generators_as_seeded() {
    assert_made_again("random-gpt2-", 15);
    assert_made_again("random-mistral-", 15);
}

#[test]
fn recorded_errors_are_errors() {
    let all = tacho_testkit::golden_json("datasets/errors.json");
    let mut seen = Vec::new();
    for entry in all.as_array().unwrap() {
        let case = Case::from_error(entry);
        // A path together with a synthetic dataset is rejected by the argument parser.
        let ours = case.flag("--dataset-name") == Some("random") && case.flag("--dataset-path").is_none();
        if !ours || !case.name.starts_with("random-") {
            continue;
        }
        seen.push((case.name, refusal(entry)));
    }
    let kinds: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert!(kinds.contains(&"random-input-too-short") && kinds.contains(&"random-range-ratio-one"), "{kinds:?}");
    let message = |name: &str| seen.iter().find(|(found, _)| found == name).unwrap().1.as_str();
    assert!(message("random-input-too-short-bos").starts_with("--random-input-len is too small"));
    assert!(message("random-range-ratio-one").contains("it is 1.0"));
    assert!(message("random-range-ratio-missing-key").contains("'input' and 'output'"));
}

fn spec(seed: i64) -> RandomSpec {
    RandomSpec { seed, num_prompts: 4, input_len: 64, output_len: 16, batch_size: 1, ..RandomSpec::default() }
}

fn made(spec: RandomSpec) -> Result<tacho_workload::Sampled, Error> {
    sample(&WorkloadSpec::Random(spec), Some(tokenizer("gpt2")), &mut Globals::seeded(0), &Counters::default())
}

fn digest(sampled: &tacho_workload::Sampled) -> String {
    let mut bytes = Vec::new();
    for prompt in sampled.requests.iter().flat_map(prompts) {
        bytes.extend_from_slice(prompt.as_bytes());
        bytes.push(0);
    }
    tacho_testkit::sha256(bytes)
}

#[test]
fn whole_workloads_have_the_published_digest() {
    let plain = made(spec(0)).unwrap();
    assert_eq!(digest(&plain), "c1038b2541ac70fe57fc3dd114426376bc70f20345977fb59cffda98a6a6f5db");
    let spread = RandomSpec { num_prompts: 8, prefix_len: 8, range_ratio: RangeRatio::both(0.3), ..spec(42) };
    let spread = made(spread).unwrap();
    let lens: Vec<(u64, i64)> = spread.requests.iter().map(|r| (r.prompt_len, r.output_len)).collect();
    assert_eq!(lens, [(55, 13), (83, 12), (78, 16), (69, 21), (69, 19), (87, 19), (55, 18), (80, 19)]);
    assert_eq!(digest(&spread), "86c1153bcc496a5a27bf4e9dc39c128b6f58c493e33453458a183a8a6aa316fd");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let error = |spec| made(spec).unwrap_err();
    assert!(matches!(error(spec(-1)), Error::NegativeSeed { seed: -1 }));
    assert!(matches!(error(RandomSpec { num_prompts: -1, ..spec(0) }), Error::NegativeCount { count: -1 }));
    let ratio = |value| RandomSpec { range_ratio: RangeRatio::both(value), ..spec(0) };
    assert!(error(ratio(1.0)).to_string().contains("the shortest prompt would have 0 tokens"));
    assert!(error(ratio(f64::NAN)).to_string().ends_with("cannot convert it to a length"));
    assert!(error(ratio(f64::INFINITY)).to_string().ends_with("cannot convert it to a length"));
    let short = RandomSpec { input_len: 1, prefix_len: -1, ..spec(0) };
    assert!(error(short).to_string().starts_with("--random-input-len is too small"));
    let none = sample(&WorkloadSpec::Random(spec(0)), None, &mut Globals::seeded(0), &Counters::default());
    assert!(matches!(none, Err(Error::NoTokenizer { dataset: "random" })));
}

#[test]
fn no_prompts_make_an_empty_workload() {
    let sampled = made(RandomSpec { num_prompts: 0, ..spec(0) }).unwrap();
    assert!(sampled.requests.is_empty() && sampled.notices.is_empty());
}

#[test]
fn progress_counts_every_prompt() {
    let counters = Counters::default();
    let spec = WorkloadSpec::Random(RandomSpec { num_prompts: 50, batch_size: 7, ..spec(3) });
    let sampled = sample(&spec, Some(tokenizer("gpt2")), &mut Globals::seeded(0), &counters).unwrap();
    assert_eq!(counters.read().0, 50);
    assert_eq!(sampled.requests.len(), 8);
}

/// The parallel sampler speculates on draws; the number of threads must not change workloads with many redraws.
#[test]
fn threads_do_not_change_the_workload() {
    let spec = RandomSpec { num_prompts: 300, input_len: 3, ..spec(5) };
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| made(spec.clone()).unwrap())
    };
    assert_eq!(on(1), on(7));
}

#[test]
fn a_chosen_share_of_the_tokens_can_be_found_again() {
    let cached = CachedShare { fraction: 0.5, ratio: 0.75 };
    let spec = RandomSpec { num_prompts: 400, input_len: 256, token_ids: true, cached: Some(cached), ..spec(0) };
    let sampled = made(spec).unwrap();
    let sharing = PrefixSharing::new(&sampled.requests, tokenizer("gpt2"));
    assert!((sharing.cached_share() - 0.375).abs() < 0.03, "{sharing:?}");
    let begins = |request: &Request| match &request.content {
        Content::Ids(ids) => ids[..16].to_vec(),
        other => panic!("{other:?}"),
    };
    let mut firsts: Vec<Vec<u32>> = sampled.requests.iter().map(begins).collect();
    let chosen = firsts.iter().filter(|first| firsts.iter().filter(|other| other == first).count() > 1).count();
    firsts.dedup();
    let (observed, wanted) = (sharing.cached_share(), chosen as f64 / 400.0 * 0.75);
    assert!((observed - wanted).abs() < 0.01, "{observed} {wanted}");
}
