//! Fuzzes chat templates: an error or a text, never a panic, an abort or an endless loop.

use tacho_core::json;
use tacho_testkit::{Counted, fuzz};

use crate::{ChatInput, template::Templates, template::tests::SMALL};

#[global_allocator]
static COUNTED: Counted = Counted;

const GOOD: [&str; 5] = [
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[{{ m['content'].strip() }}]{% endif %}{% endfor %}",
    "{% set ns = namespace(x=1) %}{% macro f(a) %}{{ a | tojson(indent=2) }}{% endmacro %}{{ f(messages) }}",
    "{{ '%s-%05d' % ('a', 7) }}{{ messages | map(attribute='role') | join(',') }}{% generation %}x{% endgeneration %}",
    "{{ strftime_now('%Y') }}{{ raise_exception('no') if tools else messages[0].content[::-1] }}",
    "{%- set c = cycler('a', 'b') -%}{% for i in range(3) %}{{ c.next() }}{{ loop.index0 }}{% break %}{% endfor %}",
];

#[test]
fn fuzz_templates() {
    let messages = json::parse(r#"[{"role": "user", "content": "hé"}]"#).expect("JSON");
    let now = jiff::civil::date(2024, 7, 26).at(9, 5, 0, 0);
    let named = [("bos_token".to_owned(), "<s>".to_owned())];
    fuzz("templates", &GOOD, |bytes| {
        let mut templates = Templates::default();
        templates.add("default", String::from_utf8_lossy(bytes));
        let Ok(template) = templates.compile_in(Some(SMALL), false, &named) else { return };
        let _ = template.render(&ChatInput { messages: &messages, tools: None, variables: None, now });
    });
}
