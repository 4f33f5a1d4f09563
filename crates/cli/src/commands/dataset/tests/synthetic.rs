//! The other synthetic datasets, and re-alignment with a server that uses another tokenizer.

use super::case::{Case, assert_made_again, cases, run, tokenizer};
use tacho_core::{Counters, Request};
use tacho_pyrand::Globals;
use tacho_text::Tokenizer;
use tacho_workload::align::{Alignment, needs_alignment, plan, probe, prompt, replace_prompt};
use tacho_workload::{Error, PrefixRepetitionSpec, RandomRerankSpec, RandomSpec, WorkloadSpec, dataset, sample};

#[test]
fn recorded_synthetic_workloads_are_made_again() {
    assert_made_again("rerank-", 12);
    assert_made_again("prefix-repetition-", 10);
}

/// Emulates the server: tokenizes the client's requests with another tokenizer.
fn align(requests: &mut [Request], server: &Tokenizer) {
    let Some(first) = probe(requests) else { return };
    if !needs_alignment(&requests[0], server.count(first, false)) {
        return;
    }
    for request in requests {
        let ids = server.encode(prompt(request).unwrap(), false);
        if let Alignment::Detokenize(head) = plan(request, &ids) {
            replace_prompt(request, server.decode(&head));
        }
    }
}

fn server_of(case: &Case) -> Option<&'static Tokenizer> {
    let path = case.recorded("server_tokenizer")?.as_str()?;
    Some(tokenizer(path.rsplit('/').next().unwrap()))
}

#[test]
fn recorded_alignments_are_made_again() {
    let cases = cases("align-");
    assert_eq!(cases.len(), 8, "golden cases of alignment");
    for case in cases {
        let (mut sampled, _) = run(&case).unwrap();
        let kind = dataset(case.flag("--dataset-name").unwrap()).unwrap();
        if let Some(server) = server_of(&case).filter(|_| kind.aligns_with_server) {
            align(&mut sampled.requests, server);
        }
        case.assert_equal(&sampled.requests);
    }
}

fn prefix_spec(num_prompts: i64, num_prefixes: i64) -> PrefixRepetitionSpec {
    PrefixRepetitionSpec {
        seed: 0,
        num_prompts,
        prefix_len: 4,
        suffix_len: 2,
        num_prefixes,
        output_len: 1,
        shuffle: true,
    }
}

fn requests(spec: WorkloadSpec) -> Result<usize, Error> {
    let tokenizer = tokenizer("gpt2");
    let sampled = sample(&spec, Some(tokenizer), &mut Globals::seeded(0), &Counters::default())?;
    Ok(sampled.requests.len())
}

#[test]
fn prompts_are_divided_among_prefixes() {
    let count = |prompts, prefixes| requests(WorkloadSpec::PrefixRepetition(prefix_spec(prompts, prefixes)));
    assert_eq!(count(25, 10).unwrap(), 20);
    assert_eq!(count(-1, 10).unwrap(), 0);
    let error = |prompts, prefixes| count(prompts, prefixes).unwrap_err().to_string();
    let few = "must be greater than or equal to --prefix-repetition-num-prefixes (10)";
    assert_eq!(error(3, 10), format!("--num-prompts (3) {few}"));
    assert_eq!(error(0, 10), format!("--num-prompts (0) {few}"));
    assert!(error(3, 0).starts_with("--prefix-repetition-num-prefixes is 0"));
    let negative = PrefixRepetitionSpec { suffix_len: -1, ..prefix_spec(4, 2) };
    let error = requests(WorkloadSpec::PrefixRepetition(negative)).unwrap_err().to_string();
    assert!(error.ends_with("is -1: negative dimensions are not allowed"), "{error}");
    let seed = PrefixRepetitionSpec { seed: 1 << 32, ..prefix_spec(4, 2) };
    assert!(matches!(requests(WorkloadSpec::PrefixRepetition(seed)), Err(Error::SeedOutOfRange { .. })));
}

#[test]
fn rerank_needs_documents() {
    let rerank = |num_prompts, batch_size, is_reranker| {
        let text = RandomSpec { num_prompts, batch_size, input_len: 12, ..RandomSpec::default() };
        requests(WorkloadSpec::RandomRerank(RandomRerankSpec { text, is_reranker }))
    };
    assert_eq!(rerank(5, 2, true).unwrap(), 3);
    assert_eq!(rerank(5, 2, false).unwrap(), 4);
    for (error, problem) in [
        (rerank(1, 2, false), "the query counts as one: got 1 and 2"),
        (rerank(5, 1, false), "the query counts as one: got 5 and 1"),
        (rerank(-5, 1, true), "--num-prompts is -5: negative dimensions are not allowed"),
        (rerank(5, 0, true), "--random-batch-size is 0: a request needs at least one document"),
    ] {
        assert!(error.unwrap_err().to_string().ends_with(problem), "{problem}");
    }
}
