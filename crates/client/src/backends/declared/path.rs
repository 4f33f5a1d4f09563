//! Paths into JSON: `choices[0].delta.content`, `parts[*].text`, or a JSON Pointer such as `/choices/0/delta`.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// A member of an object, as its key is written in JSON.
    Key(Vec<u8>),
    /// An item of a list.
    Index(usize),
    /// A number in a JSON Pointer: an item of a list, or a member of an object.
    Either(usize),
    /// Every item of a list.
    Each,
}

/// Parses a path; `$` alone is the whole event.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, String> {
    if text.starts_with('/') {
        return text.split('/').skip(1).map(token).collect();
    }
    let (mut rest, mut steps) = (text.strip_prefix('$').unwrap_or(text), Vec::new());
    let mut first = rest.len() == text.len();
    if text.is_empty() {
        return Err("the path is empty: write $ for the whole event".to_owned());
    }
    while !rest.is_empty() {
        let (step, after) = match rest.strip_prefix('[') {
            Some(inside) => bracket(inside, text)?,
            None => {
                let name = if first { rest } else { rest.strip_prefix('.').ok_or_else(|| odd(text, rest))? };
                let end = name.find(['.', '[', ']', '"', ' ']).unwrap_or(name.len());
                if end == 0 {
                    return Err(odd(text, rest));
                }
                (Step::Key(name.as_bytes()[..end].to_vec()), &name[end..])
            }
        };
        steps.push(step);
        rest = after;
        first = false;
    }
    Ok(steps)
}

/// What follows an opening bracket: a number, a star, or a key in quotes.
fn bracket<'t>(inside: &'t str, text: &str) -> Result<(Step, &'t str), String> {
    let quote = inside.chars().next().filter(|c| matches!(c, '"' | '\''));
    if let Some(quote) = quote {
        let (key, after) = inside[1..].split_once(quote).ok_or_else(|| odd(text, inside))?;
        let after = after.strip_prefix(']').ok_or_else(|| odd(text, inside))?;
        return Ok((Step::Key(key.as_bytes().to_vec()), after));
    }
    let (word, after) = inside.split_once(']').ok_or_else(|| format!("the path {text:?} has a [ without a ]"))?;
    let step = match word {
        "*" | "" => Step::Each,
        number => {
            Step::Index(number.parse().map_err(|_| format!("[{word}] in the path {text:?} is neither a number nor *"))?)
        }
    };
    Ok((step, after))
}

fn token(text: &str) -> Result<Step, String> {
    let is_number = text == "0" || (!text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit()));
    match text.parse() {
        Ok(index) if is_number => Ok(Step::Either(index)),
        _ => Ok(Step::Key(text.replace("~1", "/").replace("~0", "~").into_bytes())),
    }
}

fn odd(text: &str, rest: &str) -> String {
    format!("the path {text:?} cannot be read at {rest:?}: write it as choices[0].delta.content or /choices/0/delta")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Step {
        Step::Key(name.as_bytes().to_vec())
    }

    #[test]
    fn both_forms_name_the_same_place() {
        let expected = vec![key("choices"), Step::Index(0), key("delta"), key("content")];
        assert_eq!(parse("choices[0].delta.content").unwrap(), expected);
        assert_eq!(parse("$.choices[0].delta.content").unwrap(), expected);
        let pointer = vec![key("choices"), Step::Either(0), key("delta"), key("content")];
        assert_eq!(parse("/choices/0/delta/content").unwrap(), pointer);
        assert_eq!(parse("a[*][\"b.c\"]").unwrap(), vec![key("a"), Step::Each, key("b.c")]);
        assert_eq!(parse("/a~1b/~0").unwrap(), vec![key("a/b"), key("~")]);
        assert_eq!(parse("$").unwrap(), vec![]);
    }

    #[test]
    fn a_broken_path_is_refused() {
        for text in ["", "a..b", "a[", "a[x]", "a[0", ".a", "a b", "a['b]", "a.[0]"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
