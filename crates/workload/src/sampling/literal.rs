//! The subset of Python literals that flags need: numbers, strings, tuples, lists and dicts.

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Literal>),
    Dict(Vec<(Literal, Literal)>),
}

impl Literal {
    /// Python's `float` of a number.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Literal::Int(number) => Some(*number as f64),
            Literal::Float(number) => Some(*number),
            _ => None,
        }
    }
}

pub(crate) fn parse(text: &str) -> Option<Literal> {
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let literal = reader.literal()?;
    reader.skip_blanks();
    reader.rest.is_empty().then_some(literal)
}

/// Maximum nesting depth of literals.
const MAX_DEPTH: usize = 64;

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, mark: char) -> bool {
        self.skip_blanks();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn literal(&mut self) -> Option<Literal> {
        self.skip_blanks();
        self.depth += 1;
        let literal = match self.rest.chars().next()? {
            _ if self.depth > MAX_DEPTH => None,
            '{' => self.dict(),
            '(' => self.tuple(')'),
            '[' => self.tuple(']'),
            quote @ ('\'' | '"') => self.text(quote),
            _ => self.number(),
        };
        self.depth -= 1;
        literal
    }

    fn dict(&mut self) -> Option<Literal> {
        self.take('{');
        let mut pairs = Vec::new();
        while !self.take('}') {
            let key = self.literal()?;
            self.take(':').then_some(())?;
            pairs.push((key, self.literal()?));
            if !self.take(',') {
                return self.take('}').then_some(Literal::Dict(pairs));
            }
        }
        Some(Literal::Dict(pairs))
    }

    /// A single item needs a comma to be a tuple; in brackets it does not.
    fn tuple(&mut self, close: char) -> Option<Literal> {
        self.rest = &self.rest[1..];
        let (mut items, mut commas) = (Vec::new(), 0);
        while !self.take(close) {
            items.push(self.literal()?);
            if !self.take(',') {
                self.take(close).then_some(())?;
                break;
            }
            commas += 1;
        }
        if items.len() == 1 && commas == 0 && close == ')' { items.pop() } else { Some(Literal::Tuple(items)) }
    }

    fn text(&mut self, quote: char) -> Option<Literal> {
        let end = self.rest[1..].find(quote)? + 1;
        let text = &self.rest[1..end];
        let literal = (!text.contains('\\')).then(|| Literal::Text(text.to_owned()));
        self.rest = &self.rest[end + 1..];
        literal
    }

    fn number(&mut self) -> Option<Literal> {
        let end = self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-._".contains(c)));
        let (text, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let digits = text.replace('_', "");
        match digits.parse() {
            Ok(number) => Some(Literal::Int(number)),
            Err(_) if digits.contains(|c: char| c.is_ascii_digit()) => digits.parse().ok().map(Literal::Float),
            Err(_) => None,
        }
    }
}
