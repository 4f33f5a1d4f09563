//! Grammars in Lark's notation: a rule per line, terminals as texts and `/patterns/`, `%import` of the common ones.

use super::grammar::{Grammar, Node, Rules};
use super::pattern::Pattern;
use super::syntax::{Side, Token, literal, punctuation_or_name};

/// Terminals that `%import common.NAME` defines.
const COMMON: [(&str, &str); 14] = [
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[0-9a-fA-F]"),
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", r"[0-9]+\.[0-9]+"),
    ("FLOAT", r"[0-9]+\.[0-9]+"),
    ("NUMBER", r"[0-9]+(\.[0-9]+)?"),
    ("SIGNED_NUMBER", r"[+-]?[0-9]+(\.[0-9]+)?"),
    ("ESCAPED_STRING", r#""[a-zA-Z0-9 ]*""#),
    ("LETTER", "[a-zA-Z]"),
    ("WORD", "[a-zA-Z]+"),
    ("CNAME", "[a-zA-Z_][a-zA-Z0-9_]*"),
    ("WS", "[ \\t\\n]+"),
    ("NEWLINE", "\\n"),
];

/// Parses all rules; sentences derive from `start`.
pub(super) fn parse(text: &str) -> Result<Grammar, String> {
    let mut rules = Rules::default();
    for statement in statements(text) {
        if let Some(directive) = statement.strip_prefix('%') {
            import(directive, &mut rules)?;
            continue;
        }
        let (name, body) = statement.split_once(':').ok_or_else(|| format!("{:?} is not a rule", shown(&statement)))?;
        // A mark before the name and a priority after it change the parse tree, not the sentences.
        let name = name.trim().trim_start_matches(['?', '!']);
        let name = name.split('.').next().unwrap_or_default();
        if name.is_empty() || !name.chars().all(|character| character.is_alphanumeric() || character == '_') {
            return Err(format!("{name:?} is not the name of a rule"));
        }
        let words = words(body)?;
        let node = Side { words: &words, at: 0, depth: 0, rules: &mut rules }.whole()?;
        rules.define(name, node)?;
    }
    rules.finish("start")
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Rules and directives, one each: a line that begins with `|` or a space continues the previous one.
fn statements(text: &str) -> Vec<String> {
    let mut statements: Vec<String> = Vec::new();
    for line in text.lines().map(without_comment).filter(|line| !line.trim().is_empty()) {
        let begins = line.trim_start().starts_with('%') || names_a_rule(line);
        match statements.last_mut() {
            Some(last) if !begins => last.push_str(&format!(" {}", line.trim())),
            _ => statements.push(line.trim().to_owned()),
        }
    }
    statements
}

fn without_comment(line: &str) -> &str {
    let start = line.trim_start();
    if start.starts_with("//") || start.starts_with('#') { "" } else { line }
}

/// Returns whether a line is `name: …`.
fn names_a_rule(line: &str) -> bool {
    let name = line.trim_start().trim_start_matches(['?', '!']);
    let end = name.find(|character: char| !(character.is_alphanumeric() || "_.".contains(character)));
    end.is_some_and(|end| end > 0 && name[end..].trim_start().starts_with(':'))
}

/// `%import common.NAME`, optionally renamed; other directives do not affect sentences.
fn import(directive: &str, rules: &mut Rules) -> Result<(), String> {
    let Some(what) = directive.strip_prefix("import") else { return Ok(()) };
    let what = what.trim();
    let (module, names) = match what.split_once('(') {
        Some((module, names)) => (module.trim(), names.trim_end_matches(')').to_owned()),
        None => what.split_once('.').map_or((what, String::new()), |(module, name)| (module, name.to_owned())),
    };
    if module != "common" {
        return Err(format!("nothing is known of {module:?}, only of common"));
    }
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let (name, called) = name.split_once("->").map_or((name, name), |(name, called)| (name.trim(), called.trim()));
        let found = COMMON.iter().find(|(known, _)| *known == name);
        let (_, pattern) = found.ok_or_else(|| format!("common has no {name:?}"))?;
        rules.define(called, Node::Pattern(Pattern::parse(pattern)?))?;
    }
    Ok(())
}

fn words(text: &str) -> Result<Vec<Token>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        rest = match first {
            blank if blank.is_whitespace() => rest.trim_start(),
            '"' => {
                let (text, after) = literal(rest, '"')?;
                match after.strip_prefix('i') {
                    Some(after) => {
                        words.push(Token::Pattern(format!("(?i:{})", regex_syntax::escape(&text))));
                        after
                    }
                    None => {
                        words.push(Token::Text(text));
                        after
                    }
                }
            }
            '/' => {
                let (word, after) = pattern(rest)?;
                words.push(word);
                after
            }
            '[' => {
                words.push(Token::Punctuation("["));
                &rest[1..]
            }
            '~' => {
                let (word, after) = times(rest[1..].trim_start())?;
                words.push(word);
                after
            }
            // An alias names a branch of the tree, which does not affect sentences.
            '-' if rest.starts_with("->") => {
                let after = rest[2..].trim_start();
                let end = after.find(|character: char| !(character.is_alphanumeric() || character == '_'));
                &after[end.unwrap_or(after.len())..]
            }
            _ => {
                let (word, after) = punctuation_or_name(rest)?;
                words.push(word);
                after
            }
        };
    }
    ranges(&mut words);
    Ok(words)
}

/// `"a".."z"` is a character range: two literals separated by a name of two dots.
fn ranges(words: &mut Vec<Token>) {
    let mut at = 0;
    while at + 2 < words.len() {
        if let [Token::Text(low), Token::Name(dots), Token::Text(high)] = &words[at..at + 3]
            && dots == ".."
        {
            let set = format!("[{}-{}]", regex_syntax::escape(low), regex_syntax::escape(high));
            words.splice(at..at + 3, [Token::Pattern(set)]);
        }
        at += 1;
    }
}

fn pattern(text: &str) -> Result<(Token, &str), String> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'/' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    if at >= bytes.len() {
        return Err("a pattern does not end".to_owned());
    }
    let (body, rest) = (&text[1..at], &text[at + 1..]);
    let end = rest.find(|flag: char| !"imsx".contains(flag)).unwrap_or(rest.len());
    let flags = &rest[..end];
    let body = if flags.is_empty() { body.to_owned() } else { format!("(?{flags}:{body})") };
    Ok((Token::Pattern(body), &rest[end..]))
}

/// `3` or `2..4` after a tilde.
fn times(text: &str) -> Result<(Token, &str), String> {
    let end = text.find(|character: char| !(character.is_ascii_digit() || character == '.')).unwrap_or(text.len());
    let number = |digits: &str| digits.parse().map_err(|_| format!("~ {:?} is not a repetition", &text[..end]));
    let word = match text[..end].split_once("..") {
        Some((least, most)) => Token::Times(number(least)?, Some(number(most)?)),
        None => Token::Times(number(&text[..end])?, Some(number(&text[..end])?)),
    };
    Ok((word, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::super::{Dice, Guide};

    #[test]
    fn lark_grammars_give_their_sentences() {
        let grammar = r#"
            // a list of pairs
            ?start: pair ("; " pair)*
            pair: KEY "=" value -> assigned
            value: NUMBER
                 | "yes"i
                 | /[a-f]{2}/
                 | "(" start ")"
            KEY: "x".."z" ~ 2..3
            %import common.NUMBER
            %ignore " "
        "#;
        let guide = Guide::grammar(grammar).unwrap();
        let flat = regex::Regex::new(r"^[x-z]{2,3}=([0-9.]+|(?i:yes)|[a-f]{2}|\()").unwrap();
        for seed in 0..40 {
            let text = guide.text(&mut Dice::new(seed, (seed % 3) as usize));
            assert!(flat.is_match(&text), "{text}");
        }
        for (text, word) in [
            ("?? nonsense", "is not a rule"),
            ("start: missing", "\"missing\" is not defined"),
            ("rule: \"a\"", "\"start\" is not defined"),
            ("start: /a", "pattern"),
            ("%import python.NAME\nstart: NAME", "python"),
        ] {
            let error = Guide::grammar(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
