//! Files that do not describe a backend: one line each, with line, field and advice.

use std::path::Path;

use tacho_client::{BackendKind, backends::BUILT_IN_FILES};
use tacho_testkit::fuzz;

const GOOD: &str = "request:
  path: /x
  body:
    prompt: \"{{ prompt }}\"
response:
  framing: sse
  text: a.b
";

/// Files as changes of a good one, and the message.
const BAD: &[(&str, &str, &str)] = &[
    (GOOD, "", "line 1: the file is empty: see `tacho backend init openai` for an example"),
    (GOOD, "- a\n", "line 1: must be a mapping, not a list"),
    (GOOD, "text", "line 1: must be a mapping, not a text"),
    ("request:", "requests:", "line 1: requests: unknown key; known are name, task, request, response, models, ready"),
    ("path: /x", "path: x", "line 2: request.path: is \"x\": it must begin with / and have no spaces"),
    ("path: /x", "path: /x/{id}", "line 2: request.path: is \"/x/{id}\": only {model} can be filled in"),
    ("  path: /x\n", "", "line 2: request.path: is missing; for example path: /v1/generate"),
    ("path: /x", "path: /x\n  method: TRACE", "line 3: request.method: is \"TRACE\", not one of POST, PUT, PATCH, GET"),
    ("path: /x", "path: [x]", "line 2: request.path: must be a text, not a list"),
    (
        "path: /x",
        "path: /x\n  headers: {\"a b\": c}",
        "line 3: request.headers.a b: holds a character that HTTP does not allow",
    ),
    (
        "path: /x",
        "path: /x\n  api_key: 7",
        "line 3: request.api_key: must be true, false or {header: NAME, prefix: TEXT}",
    ),
    (
        "path: /x",
        "path: /x\n  api_key: {prefix: a}",
        "line 3: request.api_key.header: is missing; for example header: x-api-key",
    ),
    ("path: /x", "path: /x\n  path: /y", "line 3: \"path\" is there twice: keep one"),
    (
        "{{ prompt }}",
        "{{ promt }}",
        "line 4: request.body.prompt: unknown variable \"promt\"; known are prompt, messages, token_ids, media, max_tokens, \
         prompt_len, model, adapter, logprobs, ignore_eos, extra_body, session, id, labels, class, row, omit",
    ),
    (
        "{{ prompt }}",
        "{{ prompt",
        "line 4: request.body.prompt: syntax error: unexpected end of input, expected end of variable block",
    ),
    ("{{ prompt }}", "{{ prompt | shout }}", "line 4: request.body: unknown filter: filter shout is unknown"),
    (
        "{{ prompt }}",
        "{% for a in range(90000) %}{% for b in range(90000) %}.{% endfor %}{% endfor %}",
        "line 4: request.body: engine ran out of fuel",
    ),
    ("    prompt: \"{{ prompt }}\"\n", "    {{ prompt }}: 1\n", "line 4: a key must be a word; put {{ … }} in quotes"),
    (
        "  body:\n    prompt: \"{{ prompt }}\"\n",
        "  body: \"{{ prompt }}\"\n  extras: true\n",
        "line 3: request.extras: needs a body that is a mapping: leave it out, and use {{ extra_body }} in the body",
    ),
    (
        "framing: sse",
        "framing: csv",
        "line 6: response.framing: is \"csv\", not one of sse, json-lines, json, aws-event-stream, whole, or a mapping: length_prefixed: {bytes: 4, endian: big}",
    ),
    (
        "framing: sse",
        "framing: text",
        "line 6: response.framing: is \"text\", not one of sse, json-lines, json, aws-event-stream, whole, or a mapping: length_prefixed: {bytes: 4, endian: big}; plain text has no events to time: let the server send server-sent events or JSON lines",
    ),
    ("  framing: sse\n", "", "line 6: response.framing: is missing; for example framing: sse"),
    (
        "framing: sse",
        "framing: {length_prefixed: {bytes: 3}}",
        "line 6: response.framing.length_prefixed.bytes: is 3, not 1, 2, 4 or 8",
    ),
    (
        "framing: sse",
        "framing: {length_prefixed: {endian: middle}}",
        "line 6: response.framing.length_prefixed.endian: is \"middle\", not one of big, little",
    ),
    (
        "framing: sse",
        "framing: {chunked: {}}",
        "line 6: response.framing.chunked: unknown key; known are length_prefixed",
    ),
    (
        "text: a.b",
        "texts: a.b",
        "line 7: response.texts: unknown key; known are framing, status, text, text_is, echoes_prompt, reasoning, other_content, token_event, tokens, count, usage, finish, failed_finish, error, done, ignore, data, unstreamed",
    ),
    (
        "text: a.b",
        "text: a..b",
        "line 7: response.text: the path \"a..b\" cannot be read at \"..b\": write it as choices[0].delta.content or /choices/0/delta",
    ),
    ("text: a.b", "text: a[0", "line 7: response.text: the path \"a[0\" has a [ without a ]"),
    ("text: a.b", "text: {when: {type: x}}", "line 7: response.text: needs a path"),
    (
        "text: a.b",
        "text: {path: a, when: {type: [[x]]}}",
        "line 7: response.text.when: must be a value or a list of values, not a list",
    ),
    ("text: a.b", "text: {is: x}", "line 7: response.text: has \"is\" without \"path\""),
    ("text: a.b", "error: e", "line 6: response.text: is missing; for example text: choices[0].text"),
    (
        "text: a.b",
        "text: a\n  tokens: many",
        "line 8: response.tokens: is \"many\", not one of usage, events, count, tokenizer",
    ),
    (
        "text: a.b",
        "text: a\n  tokens: count",
        "line 8: response.tokens: needs count, the path of the tokens of an event",
    ),
    ("text: a.b", "text: a\n  status: 404", "line 8: response.status: must be one or several of 200 to 299"),
    (
        "text: a.b",
        "text: a\n  failed_finish: bad",
        "line 8: response.failed_finish: needs finish, the path of the finish reason",
    ),
    ("text: a.b", "text: a\n  echoes_prompt: true", "line 8: response.echoes_prompt: needs text_is: cumulative"),
    (
        "text: a.b",
        "text: a\n  echoes_prompt: maybe",
        "line 8: response.echoes_prompt: must be true or false, not a text",
    ),
    (
        "framing: sse",
        "framing: whole\n  done: end",
        "line 7: response.done: has no meaning in a whole response: remove it",
    ),
    (
        "text: a.b",
        "text: a\ntask: pooling",
        "line 6: response.data: is missing; for example data: embeddings, what every response must have",
    ),
    ("text: a.b", "data: a\ntask: pooling", "line 6: response.framing: must be whole for task: pooling"),
    ("text: a.b", "text: a\nmodels: {path: v1}", "line 8: models.path: must begin with /"),
    ("text: a.b", "text: a\nready: {}", "line 8: ready.path: is missing; for example path: /health"),
    ("text: a.b", "text: a\nname: a/b", "line 8: name: must be a word without slashes"),
    ("text: a.b", "text: *a", "line 7: not YAML: while parsing node, found unknown anchor"),
    ("text: a.b", "text: [a", "line 8: not YAML: while parsing a flow sequence, expected ',' or ']'"),
];

#[test]
fn a_bad_file_is_refused_in_one_line_that_says_what_to_do() {
    assert!(BackendKind::from_text(GOOD, "x").is_ok());
    let mut wrong = Vec::new();
    for (old, new, expected) in BAD {
        assert!(GOOD.contains(old), "{old}");
        let message = BackendKind::from_text(&GOOD.replace(old, new), "x").map(BackendKind::name);
        let message = message.map_or_else(|error| error.to_string(), |_| "accepted".to_owned());
        if message != *expected || message.contains('\n') {
            wrong.push(format!("{new:?}\n  {message}\n  not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), BAD.len(), wrong.join("\n"));
}

#[test]
fn a_file_is_named_in_its_messages() {
    let directory = std::env::temp_dir().join(format!("tacho-bad-files-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("mine.yaml");
    let read = |path: &Path| BackendKind::from_file(path).map_err(|error| error.to_string());
    std::fs::write(&path, GOOD.replace("sse", "csv")).unwrap();
    assert!(read(&path).unwrap_err().starts_with(&format!("{}: line 6: response.framing: ", path.display())));
    assert!(read(&directory.join("none.yaml")).unwrap_err().contains("none.yaml: cannot be read: No such file"));
    std::fs::write(&path, GOOD).unwrap();
    let (first, again) = (read(&path).unwrap(), read(&path).unwrap());
    assert_eq!((first.name(), first), ("mine", again));
    // A comment makes it another file.
    std::fs::write(&path, format!("# changed\n{GOOD}")).unwrap();
    assert_ne!(read(&path).unwrap().file_digest(), first.file_digest());
    std::fs::write(&path, vec![b' '; 2 << 20]).unwrap();
    assert!(read(&path).unwrap_err().ends_with("is larger than 1024 KiB: is it a backend file?"));
    let _ = std::fs::remove_dir_all(&directory);
}

/// A damaged file is read or refused, whatever it is.
#[test]
fn fuzz_backend_files() {
    let good: Vec<Vec<u8>> = BUILT_IN_FILES.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
    fuzz("backend files", &good, |bytes| {
        if let Err(error) = BackendKind::from_text(&String::from_utf8_lossy(bytes), "fuzz") {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    });
}
