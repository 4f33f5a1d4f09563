//! Messages for a wrong address, key, or word: one line about the error, one about the fix.

use std::process::Output;

use tacho_testkit::scripted::{Keep, Scripted};
use tacho_testkit::wire::write_plain;

use crate::secure;
use crate::tacho::{Place, stderr, stdout};

const KEY: &str = "sk-the-right-one-1234";

const SMALL: [&str; 6] = ["--num-prompts", "2", "--random-input-len", "4", "--random-output-len", "1"];

/// A server with one model that requires an API key and the right path.
fn keyed() -> Scripted {
    Scripted::start(|seen, stream| {
        let allowed = seen.header("authorization") == Some(&format!("Bearer {KEY}"));
        let (status, reason, body) = match (allowed, seen.path()) {
            (false, _) => (401, "Unauthorized", "{\"error\": \"Unauthorized\"}".to_owned()),
            (true, "/v1/models") => (200, "OK", "{\"data\": [{\"id\": \"m\"}]}".to_owned()),
            (true, "/v1/completions") => (200, "OK", answer()),
            (true, _) => (404, "Not Found", "{\"detail\": \"Not Found\"}".to_owned()),
        };
        write_plain(stream, status, reason, "text/event-stream", body.as_bytes()).map_or(Keep::Close, |()| Keep::Open)
    })
}

fn answer() -> String {
    let token = r#"data: {"choices": [{"text": "a"}]}"#;
    let usage = r#"data: {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 1}}"#;
    format!("{token}\n\n{usage}\n\ndata: [DONE]\n\n")
}

fn serve(place: &Place, key: Option<&str>, args: &[&str]) -> Output {
    let tokenizer = ["--tokenizer", "golden/tokenizers/gpt2"];
    let mut command = place.command(&[&["serve"], &SMALL[..], &tokenizer, args].concat());
    if let Some(key) = key {
        command.env("OPENAI_API_KEY", key);
    }
    command.output().unwrap()
}

/// The line that starts with `hint:`, or the error itself if it contains the advice.
fn hint(output: &Output) -> String {
    let text = stderr(output);
    let hint = text.lines().find_map(|line| line.strip_prefix("hint: ")).map(str::to_owned);
    hint.unwrap_or(text)
}

#[test]
fn a_server_that_wants_a_key_is_given_one() {
    let (place, server) = (Place::new(), keyed());
    let url = format!("http://{}", server.address);
    for model in [&["--model", "m"][..], &[]] {
        let without = serve(&place, None, &[&["--base-url", &url], model].concat());
        assert_eq!(without.status.code(), Some(1), "{}", stderr(&without));
        assert!(
            hint(&without).contains("--api-key") && hint(&without).contains("OPENAI_API_KEY"),
            "{}",
            stderr(&without)
        );
        let wrong = serve(&place, None, &[&["--base-url", &url, "--api-key", "sk-wrong-99887766"], model].concat());
        assert!(hint(&wrong).contains("does not accept the key"), "{}", stderr(&wrong));
        assert!(!(stderr(&wrong) + &stdout(&wrong)).contains("sk-wrong"), "{}", stderr(&wrong));
        let flag = serve(&place, None, &[&["--base-url", &url, "--api-key", KEY], model].concat());
        assert!(flag.status.success(), "{}", stderr(&flag));
        let variable = serve(&place, Some(KEY), &[&["--base-url", &url], model].concat());
        assert!(variable.status.success(), "{}", stderr(&variable));
        let both = serve(&place, Some("sk-wrong-99887766"), &[&["--base-url", &url, "--api-key", KEY], model].concat());
        assert!(both.status.success(), "the flag wins: {}", stderr(&both));
    }
}

#[test]
fn an_address_may_end_in_v1() {
    let (place, server) = (Place::new(), keyed());
    for ending in ["", "/", "/v1", "/v1/"] {
        let output = serve(&place, Some(KEY), &["--base-url", &format!("http://{}{ending}", server.address)]);
        assert!(output.status.success(), "{ending}: {}", stderr(&output));
    }
    let asked: Vec<String> = server.calls().iter().map(|seen| seen.path().to_owned()).collect();
    assert!(asked.iter().all(|path| !path.contains("/v1/v1") && !path.contains("//")), "{asked:?}");
}

#[test]
fn a_path_that_is_not_there_says_what_to_check() {
    let (place, server) = (Place::new(), keyed());
    let url = format!("http://{}", server.address);
    let output = serve(&place, Some(KEY), &["--base-url", &url, "--model", "m", "--endpoint", "/v2/completions"]);
    assert_eq!(output.status.code(), Some(1));
    let hint = hint(&output);
    assert!(hint.contains("/v2/completions") && hint.contains("--endpoint"), "{hint}");
}

#[test]
fn a_port_where_nobody_listens_says_what_to_check() {
    let place = Place::new();
    for model in [&["--model", "m"][..], &[]] {
        let output = serve(&place, None, &[&["--port", &place.port.to_string()], model].concat());
        assert_eq!(output.status.code(), Some(1));
        let hint = hint(&output);
        assert!(hint.contains("--port") && hint.contains("running"), "{hint}");
    }
}

#[test]
fn the_wrong_scheme_is_told_in_both_directions() {
    let (place, plain) = (Place::new(), keyed());
    let address = secure::start(&place);
    for model in [&["--model", "m"][..], &[]] {
        let output =
            serve(&place, Some(KEY), &[&["--base-url", &format!("https://{}", plain.address)], model].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(
            hint(&output).contains("http://") && !stderr(&output).contains("InvalidContentType"),
            "{}",
            stderr(&output)
        );
        let output = serve(&place, None, &[&["--base-url", &format!("http://{address}")], model].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(hint(&output).contains("https://"), "{}", stderr(&output));
    }
}

#[test]
fn mistyped_words_get_a_suggestion() {
    let place = Place::new();
    place.write("bench.json", r#"[{"max_concurency": 2}]"#);
    place.write("serve.json", r#"[{"max_num_seq": 2}]"#);
    place.write("sla.json", r#"[{"p99_tfft_ms": "<=200"}]"#);
    let sweep = ["sweep", "serve", "--sim", "--bench-cmd", "tacho serve --num-prompts 2"];
    let sla = ["sweep", "serve_sla", "--sim", "--bench-cmd", "tacho serve --num-prompts 2", "--sla-params", "sla.json"];
    for (args, meant) in [
        (&["srve"][..], "tacho serve"),
        (&["serve-sla"], "tacho sweep serve_sla"),
        (&["help", "rate"], "tacho help rates"),
        (&["help", "swep"], "sweep"),
        (&["serve", "--num-promts", "5"], "--num-prompts"),
        (&["serve", "--dataset-name", "sharegptt"], "sharegpt"),
        (&["serve", "--sim", "--fail-if", "p99_tfft_ms>3"], "p99_ttft_ms"),
        (&[&sweep[..], &["--bench-params", "bench.json"]].concat(), "--max-concurrency"),
        (&[&sweep[..], &["--serve-params", "serve.json"]].concat(), "--max-num-seqs"),
        (&sla[..], "p99_ttft_ms"),
        (&["completions", "bsh"], "bash"),
        (&["man", "srve"], "serve"),
    ] {
        let output = place.run(args);
        let text = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {:?}", output.status);
        let said = text.split("did you mean ").nth(1);
        assert!(said.is_some_and(|said| said.contains(meant)), "{args:?}: no {meant} in {text}");
    }
}

#[test]
fn where_few_names_are_possible_they_are_all_said() {
    let place = Place::new();
    for (args, names) in [
        (["--goodput", "tfft:3"], &["tfft", "ttft", "tpot", "e2el"][..]),
        (["--percentile-metrics", "ttft,tpt"], &["tpt", "ttft", "tpot", "itl", "e2el"]),
        (["--random-range-ratio", r#"{"inptu": 0.1, "output": 0.2}"#], &["input", "output"]),
        (["--sim-profile", "h100-8"], &["h100-8", "h100-8b", "tiny"]),
        (["--compare", "a.json"], &["--compare", "two results"]),
        (["--multi-turn-delay-ms", "5"], &["needs --multi-turn"]),
        (["--sweep-request-rate", "1,x"], &["--sweep-request-rate", "1,x"]),
    ] {
        let output = place.run(&[&["serve", "--sim"], &args[..]].concat());
        let text = stderr(&output);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{args:?}: {:?}", output.status);
        let missing: Vec<_> = names.iter().filter(|name| !text.contains(**name)).collect();
        assert!(missing.is_empty(), "{args:?}: no {missing:?} in {text}");
    }
}

#[test]
fn a_model_that_the_server_does_not_have_is_named() {
    let (place, server) = (Place::new(), keyed());
    let url = format!("http://{}", server.address);
    let args = ["serve", "--base-url", &url, "--model", "org/other", "--num-prompts", "1"];
    let mut command = place.command(&args);
    command.env("OPENAI_API_KEY", KEY).env("HF_HUB_OFFLINE", "1").env("HF_HOME", place.path().join("home"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("serves \"m\", not \"org/other\"") && text.contains("--tokenizer gpt2"), "{text}");
    assert!(text.contains("caused by: "), "{text}");
}

#[test]
fn flags_of_another_command_have_a_hint() {
    let place = Place::new();
    for (args, wanted) in [
        (&["sim", "--sim-profile", "tiny"][..], "--profile"),
        (&["--sim"], "tacho serve --sim"),
        (&["serve", "--sim", "--profile", "h100-8b"], "--sim-profile h100-8b"),
        (&["multi-turn", "--base-url", "http://h"], "--url"),
        (&["serve", "--sim", "--header", "Name: value"], "KEY=VALUE"),
        (&["serve", "--sim", "--dataset-name", "azure"], "--sessions FILE"),
    ] {
        let output = place.run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(wanted), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn values_that_cannot_work_exit_with_2_and_in_strict_parity_with_1() {
    let place = Place::new();
    let common = ["serve", "--sim", "--num-prompts", "2", "--dataset-name"];
    for args in [
        &["prefix_repetition", "--prefix-repetition-num-prefixes", "5"][..],
        &["hf", "--dataset-path", "nobody/unknown"],
    ] {
        let args = [&common[..], args].concat();
        let output = place.run(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        let strict = place.run(&[&args[..], &["--strict-parity"]].concat());
        assert_eq!(strict.status.code(), Some(1), "{args:?}: {}", stderr(&strict));
    }
}

#[test]
fn warnings_are_plain_lines() {
    let place = Place::new();
    place.write("chats.json", r#"[{"id": "a", "messages": [{"role": "user", "content": "why?"}]}]"#);
    let output = place.run(&["convert", "trace", "chats.json", "-o", "c.json"]);
    let text = stderr(&output);
    assert!(!text.contains(" WARN ") && !text.contains("tacho::"), "{text}");
}
