//! Taking samples in, in any order: into memory as long as there is room for them, then aside.

use super::spill::{Shelf, in_order};
use super::{Held, Samples, Store};
use crate::Sample;

/// Samples on their way. Of several with one index the last counts.
#[derive(Debug, Default)]
pub struct Gather {
    kept: Vec<Sample>,
    /// About the bytes of what is kept.
    bytes: usize,
    aside: Option<(usize, Shelf)>,
}

impl Gather {
    /// Beyond about `room` bytes of them they go to `store`.
    pub fn beyond(room: usize, store: Box<dyn Store>) -> Self {
        Gather { aside: Some((room, Shelf::new(store))), ..Gather::default() }
    }

    /// Takes one in.
    pub fn push(&mut self, sample: Sample) {
        match &mut self.aside {
            Some((room, shelf)) if self.bytes > *room => {
                std::mem::take(&mut self.kept).iter().for_each(|kept| shelf.push(kept));
                shelf.push(&sample);
            }
            _ => {
                self.bytes += size_of::<Sample>() + sample.heap();
                self.kept.push(sample);
            }
        }
    }

    /// All of them, in the order of their indices, and how many were replaced by another of the same index.
    pub fn finish(mut self) -> (Samples, usize) {
        match self.aside {
            Some((room, shelf)) if self.bytes > room => {
                let (aside, replaced) = shelf.with_all(self.kept);
                (Samples { held: Held::Aside(aside) }, replaced)
            }
            _ => {
                let before = self.kept.len();
                in_order(&mut self.kept);
                let replaced = before - self.kept.len();
                (self.kept.into(), replaced)
            }
        }
    }
}
