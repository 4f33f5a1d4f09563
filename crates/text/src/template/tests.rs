//! Templates that would exhaust the memory are refused, with the limit.

use std::{error::Error as _, time::Duration};

use tacho_core::json;
use tacho_core::sandbox::{self, Sandbox};

use super::{ChatInput, TEMPLATES, Templates};
use crate::Error;

/// The helper process of the tests is itself a test.
pub(crate) const SMALL: Sandbox = Sandbox {
    args: &["--exact", "template::tests::helper", "--ignored", "--nocapture"],
    bytes: 24 << 20,
    time: Duration::from_secs(60),
};

#[test]
#[ignore = "the helper process of other tests"]
fn helper() {
    let _ = sandbox::serve(&[TEMPLATES]);
}

/// Renders a template that may never end.
fn render(template: &str) -> Result<String, Error> {
    let brief = Sandbox { time: Duration::from_secs(5), ..SMALL };
    let messages = json::parse(r#"[{"role": "user", "content": "hello"}]"#).expect("JSON");
    let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 0);
    let mut templates = Templates::default();
    templates.add("default", template);
    let template = templates.compile_in(Some(brief), false, &[])?;
    template.render(&ChatInput { messages: &messages, tools: None, variables: None, now })
}

fn is_rejected(template: &str) {
    let error = render(template).map(|text| text.len()).unwrap_err();
    let why = error.source().expect("a reason").to_string();
    assert!(why.contains("limit of a template"), "{template:.80}: {why}");
}

#[test]
fn a_helper_renders_as_this_process_does() {
    let messages = json::parse(r#"[{"role": "user", "content": "h\u00e9 \ud83d\ude00", "n": [1, 1.5, null, true]}]"#);
    let messages = messages.expect("JSON");
    let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 7);
    let more = json::parse(r#"{"bos_token": "<other>", "extra": {"a": 1}}"#).expect("JSON");
    let input = ChatInput { messages: &messages, tools: None, variables: more.as_dict(), now };
    let named = [("bos_token".to_owned(), "<s>".to_owned()), ("eos_token".to_owned(), "</s>".to_owned())];
    for template in [
        "{{ bos_token }}{{ eos_token }}{{ extra | tojson }}{{ tools is none }}{{ add_generation_prompt }}",
        "{% for m in messages %}{{ m.content }}{{ m.n }}{{ m | tojson }}{% endfor %}{{ strftime_now('%Y %H %f') }}",
        "{{ raise_exception('no ' ~ messages[0].role) }}",
        "{{ missing.more }}",
        "{% if %}",
    ] {
        let mut templates = Templates::default();
        templates.add("default", template);
        let render = |sandbox| {
            let made = templates.compile_in(sandbox, false, &named)?;
            // A helper can render many times.
            assert_eq!(made.render(&input).ok(), made.render(&input).ok());
            made.render(&input)
        };
        let [here, there] = [None, Some(SMALL)].map(|sandbox| render(sandbox).map_err(|error| format!("{error:?}")));
        assert_eq!(here, there);
    }
}

#[test]
fn a_template_that_takes_too_long_is_stopped() {
    let mut templates = Templates::default();
    templates.add(
        "default",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% set c = a %}{% endfor %}{% endfor %}",
    );
    let brief = Sandbox { time: Duration::from_millis(200), ..SMALL };
    // A loaded machine may need longer than that to start the helper, which gives the same error.
    let render = || {
        let template = templates.compile_in(Some(brief), false, &[])?;
        let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 0);
        template.render(&ChatInput { messages: &json::Value::Null, tools: None, variables: None, now })
    };
    let why = render().unwrap_err().source().expect("a reason").to_string();
    assert!(why.contains("takes longer than"), "{why}");
}

/// A template may contain any number.
#[test]
fn what_would_become_too_long_is_refused() {
    let grow = "{% set ns = namespace(x='ab' * 100000) %}";
    for template in [
        "{{ '%055555555555555555d' % 7 }}",
        "{{ '%(a)99999999s' % {'a': 1} }}",
        "{{ '%.9999999999f' % 1.5 }}",
        "{{ '%9999999999s' | format('a') }}",
        "{{ '{:>9999999999}'.format('a') }}",
        "{{ '{:.9999999999f}'.format(1.5) }}",
        "{{ 'a'.ljust(9999999999) }}",
        "{{ 'a'.rjust(9999999999) }}",
        "{{ 'a'.center(9999999999, 'x') }}",
        "{{ 'a'.zfill(9999999999) }}",
        "{{ 'a' | indent(9999999999, true) }}",
        "{{ 'a' | indent(width=9999999999, first=true) }}",
        "{{ ('\n' * 100000) | indent(90000, true, true) }}",
        "{{ [1] | batch(9999999999, 'x') | list | length }}",
        "{{ [1] | slice(9999999999) | list | length }}",
        "{{ messages | tojson(indent=9999999999999999) }}",
        "{{ messages | tojson(indent=99999999999999999999999) }}",
        "{{ [[1]] | tojson(indent='x' * 90000000) }}",
        "{{ ([1] * 90000000) | list | length }}",
        "{{ ([1] * 90000000) | tojson }}",
        &format!("{grow}{{{{ ns.x.replace('a', ns.x) }}}}"),
        &format!("{grow}{{{{ ns.x | replace('a', ns.x) }}}}"),
        &format!("{grow}{{{{ ([1, 2, 3] * 100) | join(ns.x) | length }}}}"),
        &format!("{grow}{{{{ ns.x.join(range(1000)) }}}}"),
        &format!("{grow}{{% for i in range(1000) %}}{{{{ ns.x }}}}{{% endfor %}}"),
        &format!("{grow}{{% set y %}}{{% for i in range(1000) %}}{{{{ ns.x }}}}{{% endfor %}}{{% endset %}}"),
        &format!("{{% for i in range(90000) %}}{}{{% endfor %}}", "text ".repeat(400)),
    ] {
        is_rejected(template);
    }
}

/// A deeply nested list: every traversal recurses as deep.
#[test]
fn what_is_nested_without_end_does_not_take_the_stack() {
    std::thread::scope(|scope| {
        for end in ["", "{{ ns.x }}", "{{ ns.x | tojson }}", "{{ ns.x == ns.y }}", "{{ ns.x ~ 'a' }}"] {
            let nested = format!(
                "{{% set ns = namespace(x=[1], y=[1]) %}}{{% for a in range(100) %}}{{% for b in range(1000) %}}\
                 {{% set ns.x = [ns.x] %}}{{% set ns.y = [ns.y] %}}{{% endfor %}}{{% endfor %}}{end}"
            );
            scope.spawn(move || drop(render(&nested)));
        }
    });
}

/// A template that repeats `step` with `ns.x`.
fn often(begin: &str, step: &str) -> String {
    format!("{{% set ns = namespace(x={begin}) %}}{{% for i in range(40) %}}{step}{{% endfor %}}")
}

/// Each step is small but doubles the result.
#[test]
fn what_doubles_again_and_again_is_refused() {
    for template in [
        often("'ab'", "{% set ns.x = ns.x ~ ns.x %}"),
        often("'ab'", "{% set ns.x = ns.x + ns.x %}"),
        often("'ab'", "{% set ns.x = ns.x * 2 %}"),
        often("'ab'", "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}"),
        often("[1]", "{% set ns.x = (ns.x + ns.x) | list %}"),
        "{{ (1,) * 10 ** 8 }}".to_owned(),
        "{{ ('ab' * (5 * 10 ** 7)) | upper }}".to_owned(),
    ] {
        is_rejected(&template);
    }
}

#[test]
#[ignore = "slow: they are printed up to the limit"]
fn slow_group_what_doubles_when_it_is_printed_is_refused() {
    for template in [
        often("[1]", "{% set ns.x = [ns.x, ns.x] %}") + "{{ ns.x }}",
        often("[1]", "{% set ns.x = [ns.x, ns.x] %}") + "{{ ns.x ~ '' }}",
        often("[1]", "{% set ns.x = {'a': ns.x, 'b': ns.x} %}") + "{{ ns.x | tojson }}",
    ] {
        is_rejected(&template);
    }
}
