//! The order in which the `datasets` library yields rows, shuffled or not, in its various releases.

use tacho_pyrand::Generator;

/// Buffer size of a streaming shuffle.
const BUFFER: usize = 1000;
/// In current releases: rows that stay in the buffer when it is flushed, and rows per batch.
const KEPT: usize = 500;
const BATCH: usize = 100;
/// Maximum number of files that are read in turn.
const GROUPS: usize = 10;

tacho_core::named! {
    /// The release whose streaming order is reproduced.
    #[derive(Default)]
    pub enum StreamOrder {
        /// Releases 5.1 and later.
        #[default]
        Current = "5.1",
        Five = "5.0",
        /// Releases before 5.
        Four = "4",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Plain,
    /// Shuffled as a whole, as a table in memory is.
    Permuted {
        seed: u64,
    },
    /// Shuffled through a buffer while they are read.
    Streamed {
        seed: u64,
        order: StreamOrder,
    },
}

/// A file and a row in it, as indices.
pub(crate) type Place = (usize, usize);

/// The positions of all rows of files with these numbers of rows.
pub(crate) fn positions(lens: &[usize], order: Order) -> Vec<Place> {
    match order {
        Order::Plain => in_files(&(0..lens.len()).collect::<Vec<_>>(), lens),
        Order::Permuted { seed } => {
            let plain = positions(lens, Order::Plain);
            Generator::new(seed).permutation(plain.len()).into_iter().map(|row| plain[row]).collect()
        }
        Order::Streamed { seed, order } => {
            let mut files: Vec<usize> = (0..lens.len()).collect();
            Generator::new(seed).shuffle(&mut files);
            let generator = Generator::new(seed);
            match order {
                StreamOrder::Four => buffered(in_files(&files, lens), generator),
                StreamOrder::Five => buffered(in_turns(&files, lens, 1).concat(), generator),
                StreamOrder::Current => half_kept(in_turns(&files, lens, BATCH), generator),
            }
        }
    }
}

fn in_files(files: &[usize], lens: &[usize]) -> Vec<Place> {
    files.iter().flat_map(|&file| (0..lens[file]).map(move |row| (file, row))).collect()
}

/// Files in groups that take turns, one batch of rows each.
fn in_turns(files: &[usize], lens: &[usize], batch: usize) -> Vec<Vec<Place>> {
    let groups = files.len().min(GROUPS);
    let mut rest = files;
    let mut streams = Vec::with_capacity(groups);
    for group in 0..groups {
        let size = files.len() / groups + usize::from(group < files.len() % groups);
        let (own, after) = rest.split_at(size);
        rest = after;
        streams.push(in_files(own, lens));
    }
    let rounds = streams.iter().map(|stream| stream.len().div_ceil(batch)).max().unwrap_or(0);
    let turn = |round: usize| streams.iter().filter_map(move |stream| stream.chunks(batch).nth(round));
    (0..rounds).flat_map(turn).map(<[Place]>::to_vec).collect()
}

/// Each new row replaces a random one in the buffer, which is yielded.
fn buffered(rows: Vec<Place>, mut generator: Generator) -> Vec<Place> {
    let mut rows = rows.into_iter();
    let mut buffer: Vec<Place> = rows.by_ref().take(BUFFER).collect();
    let mut out = Vec::with_capacity(buffer.len() + rows.len());
    let mut indices = Vec::new().into_iter();
    for row in rows {
        let index = match indices.next() {
            Some(index) => index,
            None => {
                indices = generator.integers_vec(0, BUFFER as i64, BUFFER).into_iter();
                indices.next().unwrap_or(0)
            }
        };
        out.push(std::mem::replace(&mut buffer[index as usize], row));
    }
    generator.shuffle(&mut buffer);
    out.extend(buffer);
    out
}

/// A full buffer is shuffled and yielded except for its last half.
fn half_kept(batches: Vec<Vec<Place>>, mut generator: Generator) -> Vec<Place> {
    let mut out = Vec::new();
    let mut buffer: Vec<Place> = Vec::with_capacity(BUFFER + BATCH);
    for batch in batches {
        buffer.extend(batch);
        if buffer.len() >= BUFFER {
            let mixed: Vec<Place> = generator.permutation(buffer.len()).into_iter().map(|row| buffer[row]).collect();
            let (given, kept) = mixed.split_at(mixed.len() - KEPT);
            out.extend_from_slice(given);
            buffer = kept.to_vec();
        }
    }
    out.extend(generator.permutation(buffer.len()).into_iter().map(|row| buffer[row]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_is_permuted_in_every_order() {
        let expected = positions(&[30], Order::Permuted { seed: 3 });
        for order in [StreamOrder::Current, StreamOrder::Five, StreamOrder::Four] {
            assert_eq!(positions(&[30], Order::Streamed { seed: 3, order }), expected);
        }
    }

    #[test]
    fn every_row_comes_once() {
        let lens = [5, 2600, 1, 300, 0, 7, 99, 101, 100, 3, 50, 60];
        for order in [StreamOrder::Current, StreamOrder::Five, StreamOrder::Four] {
            let mut found = positions(&lens, Order::Streamed { seed: 1, order });
            assert_ne!(found, positions(&lens, Order::Plain));
            found.sort_unstable();
            assert_eq!(found, positions(&lens, Order::Plain));
        }
    }
}
