//! EBNF grammars with `::=`: literals, character classes, groups, alternatives and repetitions.

use super::grammar::{Grammar, Node, Rules};
use super::{dice::MAX_PARTS, pattern::Pattern};

const MAX_DEPTH: usize = 200;
const EXPECTED: &str = "expected a grammar in EBNF: rules such as root ::= \"a\" | \"b\"";

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Pattern(String),
    Punctuation(&'static str),
    /// `{2,3}`.
    Times(usize, Option<usize>),
}

/// Parses all rules; sentences derive from `root`.
pub(super) fn parse(text: &str) -> Result<Grammar, String> {
    if !text.contains("::=") {
        return Err(EXPECTED.to_owned());
    }
    let words = words(text)?;
    let mut starts: Vec<usize> =
        (0..words.len()).filter(|at| words.get(at + 1) == Some(&Token::Punctuation("::="))).collect();
    if starts.first() != Some(&0) {
        return Err(EXPECTED.to_owned());
    }
    starts.push(words.len());
    let mut rules = Rules::default();
    for pair in starts.windows(2) {
        let Token::Name(name) = &words[pair[0]] else { return Err("a rule has no name".to_owned()) };
        let body = words.get(pair[0] + 2..pair[1]).ok_or("a rule has no name")?;
        let node = Side { words: body, at: 0, depth: 0, rules: &mut rules }.whole()?;
        rules.define(name, node)?;
    }
    rules.finish("root")
}

/// The right side of a rule during parsing.
struct Side<'a> {
    words: &'a [Token],
    at: usize,
    depth: usize,
    rules: &'a mut Rules,
}

impl Side<'_> {
    fn whole(mut self) -> Result<Node, String> {
        let node = self.choice()?;
        match self.words.get(self.at) {
            None => Ok(node),
            Some(word) => Err(format!("{word:?} is not expected here")),
        }
    }

    fn choice(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("groups are nested too deeply".to_owned());
        }
        let mut parts = vec![self.sequence()?];
        while self.eat("|") {
            parts.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(if parts.len() == 1 { parts.remove(0) } else { Node::Choice(parts) })
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut parts = Vec::new();
        while let Some(part) = self.part()? {
            parts.push(self.repeated(part)?);
        }
        Ok(Node::Sequence(parts))
    }

    fn part(&mut self) -> Result<Option<Node>, String> {
        let node = match self.words.get(self.at) {
            Some(Token::Name(name)) => Node::Rule(self.rules.number(name)),
            Some(Token::Text(text)) => Node::Text(text.clone()),
            Some(Token::Pattern(text)) => Node::Pattern(Pattern::parse(text)?),
            Some(Token::Punctuation("(")) => {
                self.at += 1;
                let inner = self.choice()?;
                return if self.eat(")") { Ok(Some(inner)) } else { Err("a group does not end".to_owned()) };
            }
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(node))
    }

    fn repeated(&mut self, mut node: Node) -> Result<Node, String> {
        loop {
            let (min, max) = match self.words.get(self.at) {
                Some(Token::Punctuation("?")) => (0, Some(1)),
                Some(Token::Punctuation("*")) => (0, None),
                Some(Token::Punctuation("+")) => (1, None),
                Some(Token::Times(min, max)) => (*min, *max),
                _ => return Ok(node),
            };
            if max.is_some_and(|max| max < min) {
                return Err("a repetition ends before it begins".to_owned());
            }
            if min > MAX_PARTS {
                return Err(format!("a repetition of {min} times is more than {MAX_PARTS}, the most there may be"));
            }
            self.at += 1;
            node = Node::Times(Box::new(node), min, max);
        }
    }

    fn eat(&mut self, punctuation: &str) -> bool {
        let there = matches!(self.words.get(self.at), Some(Token::Punctuation(word)) if *word == punctuation);
        self.at += usize::from(there);
        there
    }
}

fn words(text: &str) -> Result<Vec<Token>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '#' => (None, rest.split_once('\n').map_or("", |(_, rest)| rest)),
            '"' | '\'' => literal(rest, first).map(|(text, after)| (Some(Token::Text(text)), after))?,
            '[' => {
                let end = class_end(rest)?;
                (Some(Token::Pattern(rest[..end].to_owned())), &rest[end..])
            }
            '{' => times(rest).map(|(word, after)| (Some(word), after))?,
            '.' => (Some(Token::Pattern(".".to_owned())), &rest[1..]),
            _ => punctuation_or_name(rest).map(|(word, after)| (Some(word), after))?,
        };
        words.extend(word);
        rest = after.trim_start();
    }
    Ok(words)
}

fn punctuation_or_name(text: &str) -> Result<(Token, &str), String> {
    const PUNCTUATION: [&str; 7] = ["::=", "(", ")", "|", "*", "+", "?"];
    if let Some(punctuation) = PUNCTUATION.into_iter().find(|punctuation| text.starts_with(punctuation)) {
        return Ok((Token::Punctuation(punctuation), &text[punctuation.len()..]));
    }
    let named = |character: char| character.is_alphanumeric() || "_-.".contains(character);
    let end = text.find(|character| !named(character)).unwrap_or(text.len());
    if end == 0 {
        let shown: String = text.chars().take(10).collect();
        return Err(format!("{shown:?} is not expected here"));
    }
    Ok((Token::Name(text[..end].to_owned()), &text[end..]))
}

/// A quoted literal, unescaped, and the rest.
fn literal(text: &str, quote: char) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            _ if character == quote => return Ok((out, &text[at + 1..])),
            '\\' => {
                let (_, escaped) = characters.next().ok_or("a literal does not end")?;
                let digits = match escaped {
                    'x' => 2,
                    'u' => 4,
                    'U' => 8,
                    _ => 0,
                };
                let code: String = characters.by_ref().take(digits).map(|(_, digit)| digit).collect();
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    _ if digits > 0 => u32::from_str_radix(&code, 16)
                        .ok()
                        .and_then(char::from_u32)
                        .ok_or_else(|| format!("\\{escaped}{code} is not a character"))?,
                    other => other,
                });
            }
            other => out.push(other),
        }
    }
    Err("a literal does not end".to_owned())
}

fn class_end(text: &str) -> Result<usize, String> {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b']' => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err("a set of characters does not end".to_owned())
}

/// `{2}`, `{2,}` or `{2,3}`.
fn times(text: &str) -> Result<(Token, &str), String> {
    let (inner, rest) = text[1..].split_once('}').ok_or("a repetition does not end")?;
    let number = |text: &str| text.trim().parse().map_err(|_| format!("{{{inner}}} is not a repetition"));
    let word = match inner.split_once(',') {
        None => Token::Times(number(inner)?, Some(number(inner)?)),
        Some((min, "")) => Token::Times(number(min)?, None),
        Some((min, max)) => Token::Times(number(min)?, Some(number(max)?)),
    };
    Ok((word, rest))
}

#[cfg(test)]
mod tests {
    use super::super::{Dice, Guide};

    #[test]
    fn sentences_follow_the_rules() {
        let sql = r#"
        root ::= select_statement

        select_statement ::= "SELECT " column " from " table " where " condition

        column ::= "col_1 " | "col_2 "

        table ::= "table_1 " | "table_2 "

        condition ::= column "= " number

        number ::= "1 " | "2 "
        "#;
        let whole = regex::Regex::new("^SELECT col_[12]  from table_[12]  where col_[12] = [12] $").unwrap();
        let guide = Guide::grammar(sql).unwrap();
        for seed in 0..40 {
            let text = guide.text(&mut Dice::new(seed, 2));
            assert!(whole.is_match(&text), "{text:?}");
        }
    }

    #[test]
    fn recursion_ends_and_repetitions_count() {
        let sums =
            Guide::grammar("root ::= term (\" + \" term){1,3} # a sum\nterm ::= [0-9]+ | \"(\" root \")\"").unwrap();
        for seed in 0..40 {
            let text = sums.text(&mut Dice::new(seed, (seed % 3) as usize));
            assert!(text.contains(" + ") && text.len() < 100_000, "{text}");
            assert_eq!(text.matches('(').count(), text.matches(')').count());
        }
    }

    #[test]
    fn invalid_grammars_are_errors() {
        for (text, word) in [
            ("root ::= b", "\"b\" is not defined"),
            ("root ::= ::= \"a\"", "name"),
            ("root ::= root \"a\"", "ends"),
            ("root ::= (\"a\"", "group"),
            ("root ::= \"a", "literal"),
            ("other ::= \"a\"", "\"root\" is not defined"),
            ("root ::= \"a\"{3,2}", "ends before"),
            ("root ::= ~", "not expected"),
            ("root ::= [a-z]{99999999999}", "a repetition of 99999999999 times"),
            ("start: \"a\"", "expected a grammar in EBNF"),
            ("", "expected a grammar in EBNF"),
        ] {
            let error = Guide::grammar(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
