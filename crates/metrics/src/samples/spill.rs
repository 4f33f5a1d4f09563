//! Samples in a spill file: packed, those of neighboring requests together, to be read in workload order whatever order
//! they came in. What cannot be written stays in memory.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};

use super::{Store, packed};
use crate::Sample;

/// Requests per block; a multiple of 64.
const NEIGHBOURS: usize = 512;
/// Bytes buffered before a write.
const WAITING: usize = 2 << 20;

/// Samples being written to a spill file.
#[derive(Debug)]
pub(super) struct Shelf {
    store: Box<dyn Store>,
    blocks: BTreeMap<usize, Block>,
    waiting: usize,
    /// End of the store.
    end: u64,
    replaced: usize,
}

/// The samples of neighbouring requests.
#[derive(Debug, Default)]
struct Block {
    /// A bit for each sample that is present.
    seen: [u64; NEIGHBOURS / 64],
    waiting: Vec<u8>,
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// A position in the store, and a number of bytes.
    Stored(u64, usize),
    Memory(Vec<u8>),
}

impl Shelf {
    pub(super) fn new(store: Box<dyn Store>) -> Self {
        Shelf { store, blocks: BTreeMap::new(), waiting: 0, end: 0, replaced: 0 }
    }

    pub(super) fn push(&mut self, sample: &Sample) {
        let block = self.blocks.entry(sample.index / NEIGHBOURS).or_default();
        let place = sample.index % NEIGHBOURS;
        let (word, bit) = (&mut block.seen[place / 64], 1 << (place % 64));
        self.replaced += usize::from(*word & bit != 0);
        *word |= bit;
        let before = block.waiting.len();
        packed::pack(&mut block.waiting, sample);
        self.waiting += block.waiting.len() - before;
        if self.waiting > WAITING {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        for block in self.blocks.values_mut().filter(|block| !block.waiting.is_empty()) {
            let bytes = std::mem::take(&mut block.waiting);
            let part = match self.store.write(&bytes, self.end) {
                Ok(()) => Part::Stored(self.end, bytes.len()),
                Err(_) => Part::Memory(bytes),
            };
            if let Part::Stored(_, len) = &part {
                self.end += *len as u64;
            }
            block.parts.push(part);
        }
        self.waiting = 0;
    }

    /// All samples and `more`, and how many were replaced.
    pub(super) fn with_all(mut self, more: Vec<Sample>) -> (Arc<Aside>, usize) {
        more.iter().for_each(|sample| self.push(sample));
        self.write_out();
        let blocks: Vec<Block> = self.blocks.into_values().collect();
        let count = blocks.iter().flat_map(|block| block.seen).map(|word| word.count_ones() as usize).sum();
        (Arc::new(Aside { store: self.store, blocks, count, fault: OnceLock::new() }), self.replaced)
    }
}

/// Samples that are read back on demand.
#[derive(Debug)]
pub(super) struct Aside {
    store: Box<dyn Store>,
    blocks: Vec<Block>,
    count: usize,
    fault: OnceLock<String>,
}

impl Aside {
    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.get().map(String::as_str)
    }

    /// The samples of a block; `None` beyond the last. Unreadable ones are skipped, and the fault is remembered.
    pub(super) fn read(&self, block: usize) -> Option<Vec<Sample>> {
        let block = self.blocks.get(block)?;
        let read = block.parts.iter().try_fold(Vec::new(), |mut samples, part| {
            self.read_part(part, &mut samples)?;
            io::Result::Ok(samples)
        });
        let mut samples = read.unwrap_or_else(|error| {
            let _ = self.fault.set(error.to_string());
            Vec::new()
        });
        in_order(&mut samples);
        Some(samples)
    }

    fn read_part(&self, part: &Part, samples: &mut Vec<Sample>) -> io::Result<()> {
        let read;
        let mut bytes = match part {
            Part::Memory(bytes) => bytes.as_slice(),
            Part::Stored(at, len) => {
                let mut buffer = vec![0; *len];
                self.store.read(&mut buffer, *at)?;
                read = buffer;
                &read
            }
        };
        while !bytes.is_empty() {
            samples.push(packed::unpack(&mut bytes).ok_or(io::ErrorKind::InvalidData)?);
        }
        Ok(())
    }
}

/// Sorts samples by their indices; of several with one index the last stays.
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
    use std::sync::Mutex;

    use super::*;
    use crate::{Gather, Samples};

    /// A bounded store in memory that may lose its bytes.
    #[derive(Debug)]
    struct Small {
        bytes: Mutex<Vec<u8>>,
        most: usize,
        lost: bool,
    }

    impl Store for Small {
        fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            let mut held = self.bytes.lock().unwrap();
            let end = at as usize + bytes.len();
            if end > self.most {
                return Err(io::ErrorKind::StorageFull.into());
            }
            held.resize(end, 0);
            held[at as usize..].copy_from_slice(bytes);
            Ok(())
        }

        fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            let held = self.bytes.lock().unwrap();
            let found = held.get(at as usize..at as usize + bytes.len()).filter(|_| !self.lost);
            bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    fn sample(index: usize) -> Sample {
        let sent = index as f64 * 0.001;
        let itl = vec![0.001 * (index % 7) as f64; index % 5].into();
        Sample { index, sent, itl, output_len: index as u64, ..Sample::default() }
    }

    fn gathered(indices: impl Iterator<Item = usize>, most: usize, lost: bool) -> (Samples, usize) {
        let store = Small { bytes: Mutex::default(), most, lost };
        let mut gather = Gather::beyond(1000, Box::new(store));
        indices.map(sample).for_each(|sample| gather.push(sample));
        gather.finish()
    }

    /// All numbers below `count`, shuffled.
    fn mixed(count: usize) -> impl Iterator<Item = usize> {
        (0..count).map(move |at| at * 7919 % count)
    }

    #[test]
    fn whatever_the_order_they_come_back_in_the_workloads() {
        let expected: Samples = (0..40_000).map(sample).collect();
        for most in [usize::MAX, 3_000_000, 0] {
            let (samples, replaced) = gathered(mixed(40_000), most, false);
            assert!(matches!(samples.held, crate::samples::Held::Aside(_)) && samples.fault().is_none());
            assert_eq!((samples.len(), samples.iter().size_hint().0, replaced), (40_000, 40_000, 0));
            assert!(samples == expected);
        }
    }

    #[test]
    fn the_last_of_an_index_counts() {
        for room in [0, usize::MAX] {
            let store = Small { bytes: Mutex::default(), most: usize::MAX, lost: false };
            let mut gather = Gather::beyond(room, Box::new(store));
            (0..600).map(sample).for_each(|sample| gather.push(sample));
            (590..610).for_each(|index| gather.push(Sample { retries: 3, ..sample(index) }));
            let (samples, replaced) = gather.finish();
            assert_eq!((samples.len(), replaced), (610, 10));
            assert!(samples.iter().all(|sample| (sample.retries == 3) == (sample.index >= 590)));
        }
    }

    #[test]
    fn lost_samples_are_reported() {
        let (samples, _) = gathered(0..2000, usize::MAX, true);
        assert_eq!((samples.len(), samples.fault()), (2000, None));
        assert_eq!(samples.iter().count(), 0);
        assert!(samples.fault().is_some());
    }

    #[test]
    fn few_stay_in_memory_and_can_be_changed() {
        let (mut samples, _) = gathered([2, 0, 1].into_iter(), usize::MAX, false);
        assert!(matches!(samples.held, crate::samples::Held::Memory(_)));
        samples.change(|samples| samples[2].retries = 9);
        assert_eq!(samples.iter().map(|sample| sample.retries).collect::<Vec<_>>(), [0, 0, 9]);
    }
}
