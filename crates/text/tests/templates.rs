//! Chat templates: the features of Hugging Face's renderer.

use jiff::civil::date;
use tacho_core::json;
use tacho_text::{ChatInput, Error, Tokenizer};

fn tokenizer(template: &str) -> (tempfile::TempDir, Tokenizer) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let gpt2 = tacho_testkit::golden_path("tokenizers/gpt2/tokenizer.json");
    std::fs::copy(gpt2, directory.path().join("tokenizer.json")).expect("the file can be copied");
    std::fs::write(directory.path().join("tokenizer_config.json"), r#"{"bos_token": "<s>", "eos_token": "</s>"}"#)
        .expect("the file can be written");
    std::fs::write(directory.path().join("chat_template.jinja"), template).expect("the file can be written");
    let tokenizer = Tokenizer::load(directory.path()).expect("the tokenizer loads");
    (directory, tokenizer)
}

fn render(template: &str, messages: &str, variables: &str) -> Result<String, Error> {
    let (_directory, tokenizer) = tokenizer(template);
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
    let endless =
        "{% macro m(a) %}{% for b in [a] %}{{ m([b] | map('list') | list) }}{% endfor %}{% endmacro %}{{ m([1]) }}";
    assert!(render(endless, HELLO, "{}").is_err(), "it calls itself");
    let nested = "{% macro m(n) %}{% if n %}({{ m(n - 1) }}){% endif %}{% endmacro %}{{ m(20) }}";
    assert_eq!(render(nested, HELLO, "{}").unwrap(), "(".repeat(20) + &")".repeat(20));
    assert!(matches!(Tokenizer::builtin().chat_template(false), Err(Error::NoTemplate)));
}

#[test]
fn what_jinja_offers_in_python_is_there() {
    for (template, expected) in [
        ("{{ '%s-%d' % ('a', 3) }} {{ '%s' % messages[0].role }} {{ '%.2f' % 1.005 }} {{ 7 % 4 }}", "a-3 user 1.00 3"),
        (
            "{{ 1e20 }} {{ 1e-5 }} {{ [1e16, 'x'] }} {{ {'a': (0.5,)} }} {{ 2.0|string }}",
            "1e+20 1e-05 [1e+16, 'x'] {'a': (0.5,)} 2.0",
        ),
        (
            "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{% set _ = c.reset() %}{{ c.current }}",
            "abbaa",
        ),
        ("{% set j = joiner('; ') %}{% for i in range(3) %}{{ j() }}{{ i }}{% endfor %}", "0; 1; 2"),
        (
            "{{ 'x'|int }} {{ none|default(1, boolean=true) }} {{ missing|length }} {{ missing|items|list }} {{ 'a b'|wordcount }}",
            "0 1 0 [] 2",
        ),
        ("{{ 'a' is sequence }} {{ {} is sequence }} {{ 1 is sequence }}", "True True False"),
        ("{{ 'é'|tojson(true) }} {{ {none: 1, true: 2}|tojson }}", r#""\u00e9" {"null": 1, "true": 2}"#),
        (
            "{{ 'a.b.c'.rsplit('.', 1) }} {{ ' a b '.rsplit(none, 1) }} {{ 'a=b'.partition('=') }} {{ 'x'.rpartition('=') }}",
            "['a.b', 'c'] [' a', 'b'] ('a', '=', 'b') ('', '', 'x')",
        ),
        (
            "{{ 'ab'.center(5, '*') }} {{ '-7'.zfill(4) }} {{ 'a'.ljust(2) }}| {{ 'xy'.removeprefix('x') }} {{ 'xy'.removesuffix('y') }}",
            "**ab* -007 a | y x",
        ),
        (
            "{{ \"they're\".title() }} {{ 'aB'.swapcase() }} {{ 'héb'.index('b') }} {{ [4, 5].index(5) }}",
            "They'Re Ab 2 1",
        ),
    ] {
        assert_eq!(render(template, HELLO, "{}").unwrap(), expected, "{template}");
    }
}

#[test]
fn ordinary_widths_and_counts_are_fine() {
    let ordinary = "{{ '%05d|%-4s|%.2f|%% 20241116' % (7, 'a', 1.5) }}{{ '{:>3}'.format('b') }}{{ 'c\nd' | indent(2) }}\
                    {{ [1, 2, 3] | batch(2) | list }}{{ ['x', 'y'] | join(', ') }}{{ 'aa' | replace('a', 'b') }}\
                    {{ messages | map(attribute='role') | list }}{{ [2, 1] | sort(reverse=true) }}";
    let expected = "00007|a   |1.50|% 20241116  bc\n  d[[1, 2], [3]]x, ybb['user'][2, 1]";
    assert_eq!(render(ordinary, HELLO, "{}").unwrap(), expected);
}
