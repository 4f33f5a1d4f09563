use serde_json::Value;
use tacho_testkit::golden_json;

use super::*;

fn bytes(text: &Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn numbers(list: &Value) -> Vec<u64> {
    let number = |item: &Value| item.as_u64().unwrap_or_else(|| item.as_str().unwrap().parse().unwrap());
    list.as_array().unwrap().iter().map(number).collect()
}

fn assert_digests(input: Input<'_>, case: &Value) {
    let mut out = Vec::new();
    for (algorithm, field) in [(Algorithm::Sha256, "pickle"), (Algorithm::Sha256Cbor, "cbor")] {
        if let Some(expected) = case.get(field) {
            algorithm.encode(input, &mut out);
            assert_eq!(hex(&out), expected.as_str().unwrap(), "{field} of {input:?}");
        }
    }
    for algorithm in Algorithm::ALL {
        let digest = algorithm.digest(input, &mut out);
        assert_eq!(hex(&digest), case["digests"][algorithm.name()], "{} of {input:?}", algorithm.name());
    }
}

#[test]
fn encodings_are_pythons() {
    for case in golden_json("scenarios/hashing/encodings.json").as_array().unwrap() {
        match case.get("text") {
            Some(text) => assert_digests(Input::Text(text.as_str().unwrap()), case),
            None => assert_digests(Input::Block(&bytes(&case["parent"]), &numbers(&case["tokens"])), case),
        }
    }
}

#[test]
fn payloads_and_their_hashes_are_pythons() {
    for case in golden_json("scenarios/hashing/payload.json").as_array().unwrap() {
        let payload = Payload::new(case["seed"].as_i64().unwrap().unsigned_abs());
        assert_eq!(
            (hex(&payload.bytes).as_str(), &payload.numbers),
            (case["bytes"].as_str().unwrap(), &numbers(&case["integers"]))
        );
        assert_digests(payload.input(), case);
        for (seed, hash) in case["builtin_hash"].as_object().unwrap() {
            assert_eq!(payload.builtin_hash(seed.parse().unwrap()).to_string(), hash.as_str().unwrap());
        }
    }
}

fn spec(case: &Value) -> BlocksSpec {
    let field = |name: &str| case[name].as_u64().unwrap();
    BlocksSpec {
        num_blocks: field("num_blocks") as usize,
        block_size: field("block_size") as usize,
        vocab_size: field("vocab_size"),
        seed: field("seed"),
    }
}

#[test]
fn blocks_are_drawn_as_in_python() {
    for case in golden_json("scenarios/hashing/blocks.json").as_array().unwrap() {
        let blocks = make_blocks(&spec(case));
        assert_eq!((&blocks[0], blocks.last().unwrap()), (&numbers(&case["first"]), &numbers(&case["last"])));
        assert_eq!(blocks.iter().flatten().sum::<u64>(), case["sum"].as_u64().unwrap());
    }
}

#[test]
fn chains_are_vllms() {
    for case in golden_json("scenarios/hashing/chains.json").as_array().unwrap() {
        let blocks = make_blocks(&spec(case));
        for (name, expected) in case["algorithms"].as_object().unwrap() {
            let algorithm = Algorithm::parse(name).unwrap();
            let seed = Chain::seed(algorithm, case["PYTHONHASHSEED"].as_str(), "drawn");
            let chain = Chain::new(algorithm, &seed, &blocks);
            assert_eq!(hex(&chain.none_hash), expected["none_hash"], "{name}");
            let hashes: Vec<String> = chain.hashes.iter().map(|hash| hex(hash)).collect();
            assert_eq!(Value::from(hashes), expected["chain"], "{name} of {:?}", spec(case));
        }
    }
}
