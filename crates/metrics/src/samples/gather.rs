//! Collects samples in any order: in memory up to a limit, then in a spill file.

use tacho_core::SpillFile;

use super::spill::{SpillWriter, in_order};
use super::{Held, Samples};
use crate::Sample;

/// Collects samples. Of several with the same index the last counts.
#[derive(Debug, Default)]
pub struct Gather {
    kept: Vec<Sample>,
    /// Approximate bytes in memory.
    bytes: usize,
    spill: Option<(usize, SpillWriter)>,
}

impl Gather {
    /// Spills samples beyond about `memory` bytes to `file`.
    pub fn beyond(memory: usize, file: SpillFile) -> Self {
        Gather { spill: Some((memory, SpillWriter::new(file))), ..Gather::default() }
    }

    /// Adds a sample.
    pub fn push(&mut self, sample: Sample) {
        match &mut self.spill {
            Some((memory, writer)) if self.bytes > *memory => {
                std::mem::take(&mut self.kept).iter().for_each(|kept| writer.push(kept));
                writer.push(&sample);
            }
            _ => {
                self.bytes += size_of::<Sample>() + sample.heap();
                self.kept.push(sample);
            }
        }
    }

    /// All samples in index order, and how many were replaced by another with the same index.
    pub fn finish(mut self) -> (Samples, usize) {
        match self.spill {
            Some((memory, writer)) if self.bytes > memory => {
                let (spilled, replaced) = writer.finish(self.kept);
                (Samples { held: Held::Spilled(spilled) }, replaced)
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
