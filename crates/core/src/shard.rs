//! The part of a workload that one process sends.

use std::sync::Arc;

/// The requests of the workload that a process sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Shard {
    /// All of them.
    #[default]
    Whole,
    /// Those with these indices.
    Listed(Arc<[usize]>),
    /// Every `step`-th from `first` on, including those generated during the run.
    Strided {
        /// The first index.
        first: usize,
        /// The distance between two indices.
        step: usize,
    },
}

impl Shard {
    /// Index in the whole workload of a request of this process.
    pub fn global_index(&self, index: usize) -> usize {
        match self {
            Shard::Whole => index,
            Shard::Listed(indices) => indices.get(index).copied().unwrap_or(index),
            Shard::Strided { first, step } => first + index * step,
        }
    }

    /// Returns whether this process sends a request that was generated during the run.
    pub fn has(&self, index: usize) -> bool {
        match self {
            Shard::Whole | Shard::Listed(_) => true,
            Shard::Strided { first, step } => index % step == *first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_continue_beyond_the_first_requests() {
        let strided = Shard::Strided { first: 1, step: 3 };
        assert_eq!((0..4).map(|index| strided.global_index(index)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!((0..12).filter(|&index| strided.has(index)).collect::<Vec<_>>(), [1, 4, 7, 10]);
        assert_eq!(Shard::Listed([5, 9].into()).global_index(1), 9);
        assert_eq!(Shard::Whole.global_index(3), 3);
    }
}
