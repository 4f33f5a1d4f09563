//! The requests of a run, in workload order. Few are kept as they are; of a long run most are put aside, and read back some
//! at a time whenever somebody goes through them.

pub(crate) mod by_sent;
pub mod gaps;
mod gather;
mod packed;
pub mod per_token;
pub mod rare;
pub mod sample;
mod spill;

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, io, slice, vec};

pub use self::gather::Gather;
use self::spill::Aside;
use crate::Sample;

/// Where bytes are kept that are not in memory.
pub trait Store: fmt::Debug + Send + Sync {
    /// Writes all of `bytes` at a place.
    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Fills `bytes` from a place.
    fn read(&self, bytes: &mut [u8], at: u64) -> io::Result<()>;
}

/// The requests of a run.
#[derive(Debug, Clone)]
pub struct Samples {
    held: Held,
}

#[derive(Debug, Clone)]
enum Held {
    Memory(Vec<Sample>),
    Aside(Arc<Aside>),
}

impl Samples {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.held {
            Held::Memory(samples) => samples.len(),
            Held::Aside(aside) => aside.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Each of them in order.
    pub fn iter(&self) -> Iter<'_> {
        match &self.held {
            Held::Memory(samples) => Iter(Left::Memory(samples.iter())),
            Held::Aside(aside) => Iter(Left::Aside { aside, next: 0, read: Vec::new().into_iter(), left: aside.len() }),
        }
    }

    /// Changes each of them; they are all in memory then.
    pub fn change(&mut self, change: impl FnOnce(&mut [Sample])) {
        if let Held::Aside(_) = &self.held {
            *self = self.iter().map(Cow::into_owned).collect();
        }
        if let Held::Memory(samples) = &mut self.held {
            change(samples);
        }
    }

    /// Why some could not be read back, where that was so: what was computed of them meanwhile is not the whole.
    pub fn fault(&self) -> Option<&str> {
        match &self.held {
            Held::Memory(_) => None,
            Held::Aside(aside) => aside.fault(),
        }
    }

    /// The same as an error, for who writes what is made of them.
    ///
    /// # Errors
    /// When some could not be read back.
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
            Held::Aside(_) => *self = self.iter().map(Cow::into_owned).chain(samples).collect(),
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

/// Samples one after the other: those in memory as they are there, others as they are read.
#[derive(Debug, Clone)]
pub struct Iter<'a>(Left<'a>);

#[derive(Debug, Clone)]
enum Left<'a> {
    Memory(slice::Iter<'a, Sample>),
    Aside { aside: &'a Aside, next: usize, read: vec::IntoIter<Sample>, left: usize },
}

impl<'a> Iterator for Iter<'a> {
    type Item = Cow<'a, Sample>;

    fn next(&mut self) -> Option<Cow<'a, Sample>> {
        match &mut self.0 {
            Left::Memory(samples) => samples.next().map(Cow::Borrowed),
            Left::Aside { aside, next, read, left } => loop {
                if let Some(sample) = read.next() {
                    *left = left.saturating_sub(1);
                    return Some(Cow::Owned(sample));
                }
                *read = aside.read(*next)?.into_iter();
                *next += 1;
            },
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Left::Memory(samples) => samples.size_hint(),
            Left::Aside { left, .. } => (*left, Some(*left)),
        }
    }
}
