//! Formatting with `%`: the engine supports it for numbers only, so a string literal followed by `%` becomes a filter.

use super::filters::PERCENT;

/// Rewrites `"…" % value` in a template as a filter.
pub(super) fn as_filter(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find(['{']).filter(|_| rest.contains('%')) {
        let close = match rest.as_bytes().get(at + 1) {
            Some(b'{') => "}}",
            Some(b'%') => "%}",
            Some(b'#') => {
                let end = rest[at..].find("#}").map_or(rest.len(), |end| at + end + 2);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            _ => {
                out.push_str(&rest[..=at]);
                rest = &rest[at + 1..];
                continue;
            }
        };
        out.push_str(&rest[..at + 2]);
        rest = expressions(&rest[at + 2..], close, &mut out);
    }
    out + rest
}

/// Copies the content of a tag; the rest begins with the tag's end.
fn expressions<'s>(mut rest: &'s str, close: &str, out: &mut String) -> &'s str {
    while let Some(first) = rest.chars().next() {
        if rest.starts_with(close) || rest.strip_prefix('-').is_some_and(|rest| rest.starts_with(close)) {
            break;
        }
        if first != '"' && first != '\'' {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let (literal, after) = rest.split_at(literal_end(rest));
        out.push_str(literal);
        rest = after;
        let operator = after.trim_start().strip_prefix('%').filter(|value| !value.starts_with('}'));
        if let Some(value) = operator.map(str::trim_start)
            && let Some(end) = operand_end(value)
        {
            let mut inside = String::new();
            expressions(&value[..end], close, &mut inside);
            out.push_str(&format!("|{PERCENT}({inside})"));
            rest = &value[end..];
        }
    }
    rest
}

/// The end of the literal that starts here.
fn literal_end(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == quote && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

/// The end of a name, literal or bracket with its suffixes; `None` if there is none.
fn operand_end(text: &str) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let step = match rest.as_bytes().first() {
            Some(b'"' | b'\'') => literal_end(rest),
            Some(b'(' | b'[' | b'{') => bracket_end(rest)?,
            Some(byte) if byte.is_ascii_alphanumeric() || b"_.".contains(byte) => 1,
            // Filters bind more tightly than the operator.
            Some(b'|') if at > 0 => 1,
            _ => return (at > 0).then_some(at),
        };
        at += step;
    }
}

fn bracket_end(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'"' | b'\'' => at += literal_end(&text[at..]) - 1,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_literals_with_an_operator_change() {
        let same =
            ["{{ a % 2 }}", "{% if 'a' %}%{% endif %}", "\"a\" % b", "{# \"a\" % b #}", "{{ '%' }}", "{{ 'a' -}} %"];
        for source in same {
            assert_eq!(as_filter(source), source);
        }
        assert_eq!(as_filter("{{ '%s' % m.x[0] ~ 'b' }}"), "{{ '%s'|__percent__(m.x[0]) ~ 'b' }}");
        assert_eq!(as_filter("{{- \"%s)\" % (a, ')') }}"), "{{- \"%s)\"|__percent__((a, ')')) }}");
        assert_eq!(as_filter("{% set x = '%d' % 3 %}"), "{% set x = '%d'|__percent__(3) %}");
    }
}
