//! Samples in a spill file: those of neighboring requests are stored together, so that they can be read in workload
//! order, whatever the order in which they arrived.

use std::sync::{Arc, OnceLock};
use std::{collections::BTreeMap, io};

use tacho_core::spill::{Span, unpack_all};
use tacho_core::{SpillFile, packed::Pack};

use crate::Sample;

/// Requests per block; a multiple of 64.
const NEIGHBORS: usize = 512;
/// Size of the write buffer in bytes.
const BUFFER: usize = 2 << 20;

#[derive(Debug)]
pub(super) struct SpillWriter {
    file: SpillFile,
    blocks: BTreeMap<usize, Block>,
    buffered: usize,
    replaced: usize,
}

/// The samples of neighboring requests.
#[derive(Debug, Default)]
struct Block {
    /// One bit per sample that is present.
    seen: [u64; NEIGHBORS / 64],
    buffer: Vec<u8>,
    spans: Vec<Span>,
}

impl SpillWriter {
    pub(super) fn new(file: SpillFile) -> Self {
        SpillWriter { file, blocks: BTreeMap::new(), buffered: 0, replaced: 0 }
    }

    pub(super) fn push(&mut self, sample: &Sample) {
        let block = self.blocks.entry(sample.index / NEIGHBORS).or_default();
        let slot = sample.index % NEIGHBORS;
        let (word, bit) = (&mut block.seen[slot / 64], 1 << (slot % 64));
        self.replaced += usize::from(*word & bit != 0);
        *word |= bit;
        let before = block.buffer.len();
        sample.pack(&mut block.buffer);
        self.buffered += block.buffer.len() - before;
        if self.buffered > BUFFER {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for block in self.blocks.values_mut().filter(|block| !block.buffer.is_empty()) {
            block.spans.push(self.file.append(std::mem::take(&mut block.buffer)));
        }
        self.buffered = 0;
    }

    /// All samples including `more`, and how many were replaced.
    pub(super) fn finish(mut self, more: Vec<Sample>) -> (Arc<SpilledSamples>, usize) {
        more.iter().for_each(|sample| self.push(sample));
        self.flush();
        let blocks: Vec<Block> = self.blocks.into_values().collect();
        let count = blocks.iter().flat_map(|block| block.seen).map(|word| word.count_ones() as usize).sum();
        (Arc::new(SpilledSamples { file: self.file, blocks, count, fault: OnceLock::new() }), self.replaced)
    }
}

/// Samples that are read back block by block.
#[derive(Debug)]
pub(super) struct SpilledSamples {
    file: SpillFile,
    blocks: Vec<Block>,
    count: usize,
    fault: OnceLock<String>,
}

impl SpilledSamples {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// The samples of a block; `None` beyond the last. A block that cannot be read is skipped and recorded as a
    /// fault.
    pub(super) fn read(&self, block: usize) -> Option<Vec<Sample>> {
        let block = self.blocks.get(block)?;
        let read = block.spans.iter().try_fold(Vec::new(), |mut samples, span| {
            samples.extend(unpack_all::<Sample>(&self.file.read(span)?)?);
            io::Result::Ok(samples)
        });
        let mut samples = read.unwrap_or_else(|error| {
            let _ = self.fault.set(error.to_string());
            Vec::new()
        });
        in_order(&mut samples);
        Some(samples)
    }
}

/// Sorts samples by index; of several with the same index the last stays.
pub(super) fn in_order(samples: &mut Vec<Sample>) {
    samples.sort_by_key(|sample| sample.index);
    samples.dedup_by(|later, earlier| {
        let same = later.index == earlier.index;
        if same {
            std::mem::swap(later, earlier);
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::{Gather, Samples};

    fn sample(index: usize) -> Sample {
        let sent = index as f64 * 0.001;
        let itl = vec![0.001 * (index % 7) as f64; index % 5].into();
        Sample { index, sent, itl, output_len: index as u64, ..Sample::default() }
    }

    fn in_memory() -> SpillFile {
        SpillFile::default()
    }

    fn on_disk() -> SpillFile {
        SpillFile::in_directory(&std::env::temp_dir())
    }

    fn gathered(indices: impl Iterator<Item = usize>, file: SpillFile) -> (Samples, usize) {
        let mut gather = Gather::beyond(1000, file);
        indices.map(sample).for_each(|sample| gather.push(sample));
        gather.finish()
    }

    /// All numbers below `count`, shuffled.
    fn mixed(count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |at| at * 7919 % count)
    }

    #[test]
    fn samples_come_back_in_workload_order() {
        let expected: Samples = (0..40_000).map(sample).collect();
        for file in [in_memory(), on_disk()] {
            let (samples, replaced) = gathered(mixed(40_000), file);
            assert!(matches!(samples.held, crate::samples::Held::Spilled(_)) && samples.fault().is_none());
            assert_eq!((samples.len(), samples.iter().size_hint().0, replaced), (40_000, 40_000, 0));
            assert!(samples == expected);
            let mut left = samples.iter();
            assert_eq!((left.next().is_some(), left.size_hint().0), (true, 39_999));
        }
    }

    #[test]
    fn the_last_of_an_index_counts() {
        for memory in [0, usize::MAX] {
            let mut gather = Gather::beyond(memory, on_disk());
            (0..600).map(sample).for_each(|sample| gather.push(sample));
            (590..610).for_each(|index| gather.push(Sample { retries: 3, ..sample(index) }));
            let (samples, replaced) = gather.finish();
            assert_eq!((samples.len(), replaced), (610, 10));
            assert!(samples.iter().all(|sample| (sample.retries == 3) == (sample.index >= 590)));
        }
    }

    #[test]
    fn samples_that_cannot_be_read_back_are_a_fault() {
        let write_only = File::options().write(true).open("/dev/null").unwrap();
        let (samples, _) = gathered(0..2000, write_only.into());
        assert_eq!((samples.len(), samples.fault()), (2000, None));
        assert_eq!(samples.iter().count(), 0);
        assert!(samples.fault().is_some());
    }

    #[test]
    fn few_stay_in_memory_and_can_be_changed() {
        let (mut samples, _) = gathered([2, 0, 1].into_iter(), on_disk());
        assert!(matches!(samples.held, crate::samples::Held::Memory(_)));
        samples.change(|samples| samples[2].retries = 9);
        assert_eq!(samples.iter().map(|sample| sample.retries).collect::<Vec<_>>(), [0, 0, 9]);
    }
}
