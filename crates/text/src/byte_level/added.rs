//! Added tokens: texts such as `<
//! endoftext
//! >` that are tokens at any position, matched before anything else.

use daachorse::{DoubleArrayAhoCorasick, DoubleArrayAhoCorasickBuilder, MatchKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Added {
    pub(crate) id: u32,
    pub(crate) content: String,
    pub(crate) special: bool,
    /// Whether it is matched after normalization, and so after the tokens that are not.
    pub(crate) normalized: bool,
}

pub(crate) enum Piece<'t> {
    Token(u32),
    /// Text between added tokens, never empty.
    Text(&'t str),
}

pub(crate) struct AddedTokens {
    tokens: Vec<Added>,
    raw: Option<DoubleArrayAhoCorasick<u32>>,
    normalized: Option<DoubleArrayAhoCorasick<u32>>,
}

impl AddedTokens {
    /// Builds the matcher. The contents must be distinct and not empty.
    pub(crate) fn new(tokens: Vec<Added>) -> Self {
        let finder = |normalized: bool| {
            let patterns: Vec<(&str, u32)> = tokens
                .iter()
                .filter(|token| token.normalized == normalized)
                .map(|token| (token.content.as_str(), token.id))
                .collect();
            if patterns.is_empty() {
                return None;
            }
            let builder = DoubleArrayAhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest);
            Some(builder.build_with_values(patterns).expect("contents are distinct and not empty"))
        };
        let (raw, normalized) = (finder(false), finder(true));
        AddedTokens { tokens, raw, normalized }
    }

    pub(crate) fn tokens(&self) -> &[Added] {
        &self.tokens
    }

    pub(crate) fn pieces<'t>(&self, text: &'t str, mut take: impl FnMut(Piece<'t>)) {
        cut(self.raw.as_ref(), text, &mut |piece| match piece {
            Piece::Text(text) => cut(self.normalized.as_ref(), text, &mut take),
            token => take(token),
        });
    }
}

fn cut<'t>(finder: Option<&DoubleArrayAhoCorasick<u32>>, text: &'t str, take: &mut dyn FnMut(Piece<'t>)) {
    let mut from = 0;
    for found in finder.iter().flat_map(|finder| finder.leftmost_find_iter(text)) {
        if from < found.start() {
            take(Piece::Text(&text[from..found.start()]));
        }
        take(Piece::Token(found.value()));
        from = found.end();
    }
    if from < text.len() {
        take(Piece::Text(&text[from..]));
    }
}
