//! Lazily drawn output tokens: waiting requests use no memory for them.

use std::sync::{Arc, OnceLock};

/// Draws the tokens; deterministic.
type Draws = dyn Fn() -> Vec<u32> + Send + Sync;

/// Tokens with a known number, drawn at first access. Clones share them.
#[derive(Clone)]
pub struct Tokens {
    len: usize,
    source: Arc<Source>,
}

struct Source {
    draws: Box<Draws>,
    drawn: OnceLock<Vec<u32>>,
}

impl Tokens {
    /// Tokens drawn by `draws`; only the first `len` count.
    pub fn later(len: usize, draws: impl Fn() -> Vec<u32> + Send + Sync + 'static) -> Self {
        Tokens { len, source: Arc::new(Source { draws: Box::new(draws), drawn: OnceLock::new() }) }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn ids(&self) -> &[u32] {
        &self.source.drawn.get_or_init(|| (self.source.draws)())[..self.len]
    }

    /// All tokens, drawn for this call and not kept.
    pub fn draw_once(&self) -> Vec<u32> {
        let mut ids = self.source.drawn.get().cloned().unwrap_or_else(|| (self.source.draws)());
        ids.truncate(self.len);
        ids
    }

    #[must_use]
    pub fn truncated(&self, len: usize) -> Self {
        Tokens { len: len.min(self.len), source: Arc::clone(&self.source) }
    }

    #[cfg(test)]
    fn is_drawn(&self) -> bool {
        self.source.drawn.get().is_some()
    }
}

impl From<Vec<u32>> for Tokens {
    fn from(ids: Vec<u32>) -> Self {
        let (len, drawn) = (ids.len(), OnceLock::from(ids));
        Tokens { len, source: Arc::new(Source { draws: Box::new(Vec::new), drawn }) }
    }
}

impl<const N: usize> From<[u32; N]> for Tokens {
    fn from(ids: [u32; N]) -> Self {
        Vec::from(ids).into()
    }
}

impl FromIterator<u32> for Tokens {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Vec::from_iter(ids).into()
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_drawn_before_the_first_access() {
        let tokens = Tokens::later(3, || vec![7, 8, 9, 10]);
        let copy = tokens.clone();
        assert_eq!((tokens.len(), tokens.is_drawn()), (3, false));
        assert_eq!(tokens.draw_once(), [7, 8, 9]);
        assert!(!tokens.is_drawn(), "a passing look keeps nothing");
        assert_eq!(tokens.truncated(1).ids(), [7]);
        assert!(copy.is_drawn(), "copies share what was drawn");
        assert_eq!(Tokens::from([1, 2]).ids(), [1, 2]);
    }
}
