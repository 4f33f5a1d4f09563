//! Structured output: a text that satisfies a schema, a pattern, a grammar or a choice, drawn by the same seed as any
//! other output.

mod dice;
mod grammar;
mod pattern;
mod schema;
mod syntax;

pub(crate) use dice::Dice;
pub(crate) use pattern::Pattern;
pub(crate) use schema::Schema;

use grammar::Grammar;
use tacho_core::json::Value;

#[derive(Debug)]
pub(crate) enum Guide {
    Schema(Schema),
    /// A text that matches a pattern as a whole.
    Pattern(Pattern),
    Grammar(Grammar),
    Choice(Vec<String>),
    /// One of these start tags, JSON by its schema, and its end tag.
    Tags(Vec<(String, Schema, String)>),
}

impl Guide {
    pub(crate) fn pattern(text: &str) -> Result<Guide, String> {
        Ok(Guide::Pattern(Pattern::parse(text)?))
    }

    pub(crate) fn grammar(text: &str) -> Result<Guide, String> {
        Ok(Guide::Grammar(syntax::parse(text)?))
    }

    /// The constraint of a JSON schema. Fails when nothing can satisfy it.
    pub(crate) fn schema(schema: &Value) -> Result<Guide, String> {
        Ok(Guide::Schema(Schema::new(schema)?))
    }

    pub(crate) fn text(&self, dice: &mut Dice) -> String {
        match self {
            Guide::Schema(schema) => schema.text(dice),
            Guide::Pattern(pattern) => pattern.text(dice),
            Guide::Grammar(grammar) => grammar.text(dice),
            Guide::Choice(texts) => dice.pick(texts).cloned().unwrap_or_default(),
            Guide::Tags(tags) => dice
                .pick(tags)
                .map_or_else(String::new, |(begin, schema, end)| format!("{begin}{}{end}", schema.text(dice))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tacho_core::json;

    use super::*;

    /// Client input must not block the simulator or exhaust its memory.
    #[test]
    fn texts_that_would_never_end_are_ended() {
        let nested = format!("{}x?{}", "(".repeat(60), ")+".repeat(60));
        let counted = format!("{}x?{}", "(".repeat(8), "){1000}".repeat(8));
        let mut rules: String =
            (0..40).map(|rule| format!("r{rule} ::= r{next}* r{next}*\n", next = rule + 1)).collect();
        rules += "r40 ::= \"\"\nroot ::= r0\n";
        let list = |inner: &str| format!(r#"{{"type": "array", "minItems": 65000, "items": {inner}}}"#);
        let lists = (0..6).fold(r#"{"type": "string", "minLength": 1000000}"#.to_owned(), |inner, _| list(&inner));
        let schema = json::parse(&lists).unwrap();
        let long = format!(r#"{{"minItems": 65000, "items": {{"const": "{}"}}}}"#, "x".repeat(100_000));
        // Every value is the whole schema again.
        let member = |at: usize| format!(r##""m{at}": {{"$ref": "#"}}"##);
        let members = (0..900).map(member).collect::<Vec<_>>().join(", ");
        let names = (0..900).map(|at| format!("\"m{at}\"")).collect::<Vec<_>>().join(", ");
        let recursive = format!(
            r#"{{"description": "{}", "properties": {{{members}}}, "required": [{names}], "type": "object"}}"#,
            "x".repeat(100_000)
        );
        let guides = [
            Guide::schema(&json::parse(&recursive).unwrap()),
            Guide::pattern(&nested),
            Guide::pattern(&counted),
            Guide::pattern("(x?){4000000000}"),
            Guide::grammar(&rules),
            Guide::grammar("root ::= (((\"\"{200000}){200000}){200000}){200000}"),
            Guide::schema(&schema),
            Guide::schema(&json::parse(&long).unwrap()),
        ];
        for guide in guides {
            let begun = Instant::now();
            for size in [0, 2, 64] {
                let text = guide.as_ref().unwrap().text(&mut Dice::new(1, size));
                assert!(text.len() < 8 << 20, "{} bytes", text.len());
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?} for {guide:.100?}", begun.elapsed());
        }
    }
}
