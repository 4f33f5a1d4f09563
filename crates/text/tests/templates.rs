//! Chat templates: what Hugging Face's renderer offers to them.

use jiff::civil::date;
use tacho_core::json;
use tacho_text::{ChatInput, Error, Tokenizer};

fn tokenizer(template: &str) -> (tempfile::TempDir, Tokenizer) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let gpt2 = tacho_testkit::golden_path("tokenizers/gpt2/tokenizer.json");
    std::fs::copy(gpt2, folder.path().join("tokenizer.json")).expect("the file can be copied");
    std::fs::write(folder.path().join("tokenizer_config.json"), r#"{"bos_token": "<s>", "eos_token": "</s>"}"#)
        .expect("the file can be written");
    std::fs::write(folder.path().join("chat_template.jinja"), template).expect("the file can be written");
    let tokenizer = Tokenizer::load(folder.path()).expect("the tokenizer loads");
    (folder, tokenizer)
}

fn render(template: &str, messages: &str, variables: &str) -> Result<String, Error> {
    let (_folder, tokenizer) = tokenizer(template);
    let messages = json::parse(messages).expect("messages are JSON");
    let variables = json::parse(variables).expect("variables are JSON");
    let now = date(2024, 7, 26).at(9, 5, 0, 0);
    let variables = variables.as_dict();
    tokenizer.chat_template(false)?.render(&ChatInput { messages: &messages, tools: None, variables, now })
}

const HELLO: &str = r#"[{"role": "user", "content": " hé "}]"#;

#[test]
fn blocks_are_trimmed_and_special_tokens_are_known() {
    let template = "{{ bos_token }}\n{% for m in messages %}\n  {% if m.role == 'user' %}\n[{{ m['content'].strip() }}]\n  \
                    {% endif %}\n{% endfor %}\n{{- eos_token if not tools }}\n";
    assert_eq!(render(template, HELLO, "{}").unwrap(), "<s>\n[hé]\n</s>");
}

#[test]
fn json_is_pythons() {
    let template = "{{ messages | tojson }}|{{ messages[0] | tojson(indent=2) }}|{{ 1.0 | tojson }}";
    let expected =
        "[{\"role\": \"user\", \"content\": \" hé \"}]|{\n  \"role\": \"user\",\n  \"content\": \" hé \"\n}|1.0";
    assert_eq!(render(template, HELLO, "{}").unwrap(), expected);
}

#[test]
fn variables_of_the_caller_win() {
    let template = "{{ strftime_now('%d %b %Y') }} {{ add_generation_prompt }} {{ thinking is defined }}";
    assert_eq!(render(template, HELLO, "{}").unwrap(), "26 Jul 2024 True False");
    let given = r#"{"add_generation_prompt": false, "thinking": 1}"#;
    assert_eq!(render(template, HELLO, given).unwrap(), "26 Jul 2024 False True");
}

#[test]
fn python_methods_and_generation_marks_work() {
    let template = "{% generation %}{% for k, v in messages[0].items() %}{{ k.upper() }}={{ v.split()[0] }};{% endfor %}\
                    {% endgeneration %}{{ messages[-1].get('x', 'none') }}{{ 'a,b'.split(',')[-1] }}{{ messages[0:1]|length }}";
    assert_eq!(render(template, HELLO, "{}").unwrap(), "ROLE=user;CONTENT=hé;noneb1");
}

#[test]
fn generation_marks_are_found_however_they_are_written() {
    for template in [
        "{%generation%}a{%endgeneration%}",
        "{%-   generation -%} a {%- endgeneration  %}",
        "{% generation %}a{% endgeneration -%} \n",
    ] {
        assert_eq!(render(template, HELLO, "{}").unwrap(), "a", "{template}");
    }
}

#[test]
fn refusals_and_mistakes_are_errors() {
    let error = render("{{ raise_exception('only one turn') }}", HELLO, "{}").unwrap_err();
    let cause = std::error::Error::source(&error).expect("the template's own error").to_string();
    assert!(cause.contains("only one turn"), "{cause}");
    assert!(matches!(render("{% if %}", HELLO, "{}"), Err(Error::Template { .. })));
    assert!(matches!(Tokenizer::builtin().chat_template(false), Err(Error::NoTemplate)));
}
