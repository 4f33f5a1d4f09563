//! The requests of a run, in workload order. Those of a long run are spilled to disk and read back block by block.

pub(crate) mod by_sent;
pub mod gaps;
mod gather;
pub mod media;
mod packed;
pub mod per_token;
pub mod rare;
pub mod sample;
mod spill;

use std::{borrow::Cow, io, slice, sync::Arc, vec};

pub use self::gather::Gather;
use self::spill::SpilledSamples;
use crate::Sample;

/// The requests of a run.
///
/// ```
/// use tacho_metrics::{Sample, Samples};
///
/// let samples: Samples = [0.1, 0.2].map(|ttft| Sample { ttft, ..Sample::default() }).into();
/// assert_eq!(samples.iter().map(|sample| sample.ttft).fold(0.0, f64::max), 0.2);
/// ```
#[derive(Debug, Clone)]
pub struct Samples {
    held: Held,
}

#[derive(Debug, Clone)]
enum Held {
    Memory(Vec<Sample>),
    Spilled(Arc<SpilledSamples>),
}

impl Samples {
    /// Number of requests.
    pub fn len(&self) -> usize {
        match &self.held {
            Held::Memory(samples) => samples.len(),
            Held::Spilled(spilled) => spilled.len(),
        }
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over them in order.
    pub fn iter(&self) -> Iter<'_> {
        match &self.held {
            Held::Memory(samples) => Iter(Left::Memory(samples.iter())),
            Held::Spilled(spilled) => {
                Iter(Left::Spilled { spilled, next: 0, read: Vec::new().into_iter(), left: spilled.len() })
            }
        }
    }

    /// Modifies them; loads spilled ones into memory first.
    pub fn change(&mut self, change: impl FnOnce(&mut [Sample])) {
        if let Held::Spilled(_) = &self.held {
            *self = self.iter().map(Cow::into_owned).collect();
        }
        if let Held::Memory(samples) = &mut self.held {
            change(samples);
        }
    }

    /// Why some could not be read back, so that metrics are incomplete.
    pub fn fault(&self) -> Option<&str> {
        match &self.held {
            Held::Memory(_) => None,
            Held::Spilled(spilled) => spilled.fault(),
        }
    }

    /// Fails if some samples could not be read back. Fails when some could not be read back.
    pub fn check(&self) -> io::Result<()> {
        self.fault().map_or(Ok(()), |fault| Err(io::Error::other(fault.to_owned())))
    }
}

impl Default for Samples {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl From<Vec<Sample>> for Samples {
    fn from(samples: Vec<Sample>) -> Self {
        Samples { held: Held::Memory(samples) }
    }
}

impl<const COUNT: usize> From<[Sample; COUNT]> for Samples {
    fn from(samples: [Sample; COUNT]) -> Self {
        Vec::from(samples).into()
    }
}

impl FromIterator<Sample> for Samples {
    fn from_iter<T: IntoIterator<Item = Sample>>(samples: T) -> Self {
        samples.into_iter().collect::<Vec<Sample>>().into()
    }
}

impl Extend<Sample> for Samples {
    fn extend<T: IntoIterator<Item = Sample>>(&mut self, samples: T) {
        match &mut self.held {
            Held::Memory(held) => held.extend(samples),
            Held::Spilled(_) => *self = self.iter().map(Cow::into_owned).chain(samples).collect(),
        }
    }
}

impl PartialEq for Samples {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other)
    }
}

impl<'a> IntoIterator for &'a Samples {
    type Item = Cow<'a, Sample>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterator over samples, borrowed from memory or read from the spill file.
#[derive(Debug, Clone)]
pub struct Iter<'a>(Left<'a>);

#[derive(Debug, Clone)]
enum Left<'a> {
    Memory(slice::Iter<'a, Sample>),
    Spilled { spilled: &'a SpilledSamples, next: usize, read: vec::IntoIter<Sample>, left: usize },
}

impl<'a> Iterator for Iter<'a> {
    type Item = Cow<'a, Sample>;

    fn next(&mut self) -> Option<Cow<'a, Sample>> {
        match &mut self.0 {
            Left::Memory(samples) => samples.next().map(Cow::Borrowed),
            Left::Spilled { spilled, next, read, left } => loop {
                if let Some(sample) = read.next() {
                    *left = left.saturating_sub(1);
                    return Some(Cow::Owned(sample));
                }
                *read = spilled.read(*next)?.into_iter();
                *next += 1;
            },
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Left::Memory(samples) => samples.size_hint(),
            Left::Spilled { left, .. } => (*left, Some(*left)),
        }
    }
}
