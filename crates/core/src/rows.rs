//! The stream of finished rows. Workers hand rows over in batches, a few times a second; one thread passes them to all
//! receivers. Results, logs and live views see the same rows.

use crate::{Labels, Observation, Timestamp};

/// Properties of a request known before it was sent, as far as results need them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestInfo {
    /// Prompt tokens, counted by the client's tokenizer.
    pub prompt_len: u64,
    /// Tokens that it asks for.
    pub output_len: i64,
    /// Number of texts in it.
    pub input_sequences: u64,
    /// Seconds of audio in it.
    pub audio_seconds: f64,
    /// The adapter, if not the base model.
    pub lora: Option<String>,
    /// The `x-request-id` header.
    pub request_id: Option<String>,
    /// The groups it is counted in; in a log also those of its response.
    pub labels: Labels,
}

impl RequestInfo {
    /// All labels of a request, with its adapter, after those of its response.
    pub fn labels(&self, seen: &Labels) -> Labels {
        let labels = self.labels.merged(seen);
        self.lora.as_deref().map_or_else(|| labels.clone(), |adapter| labels.with("adapter", adapter))
    }
}

/// Receives the finished rows of a run. All calls come from one thread, which is not a worker.
///
/// ```
/// use tacho_core::{Observation, RowSink};
///
/// /// Counts failed requests and drops the rows.
/// struct Failures(usize);
///
/// impl RowSink for Failures {
///     fn rows(&mut self, rows: Vec<Observation>) {
///         self.0 += rows.iter().filter(|row| row.outcome.is_fault()).count();
///     }
/// }
/// ```
pub trait RowSink {
    /// The origin of scheduled times is known; called before the first row.
    fn began(&mut self, _origin: Timestamp) {}

    /// Rows of one worker, in the order of completion.
    fn rows(&mut self, rows: Vec<Observation>);

    /// No rows arrived for a while.
    fn idle(&mut self) {}
}

/// Keeps all rows in memory.
#[derive(Debug, Default)]
pub struct Kept {
    rows: Vec<Observation>,
}

impl Kept {
    /// The rows in the order of the workload.
    pub fn into_rows(mut self) -> Vec<Observation> {
        self.rows.sort_unstable_by_key(|row| row.index);
        self.rows
    }
}

impl RowSink for Kept {
    fn rows(&mut self, mut rows: Vec<Observation>) {
        match self.rows.is_empty() {
            true => self.rows = rows,
            false => self.rows.append(&mut rows),
        }
    }
}

/// Observes rows during a run. It must return quickly, but cannot delay the workers.
pub trait Watcher {
    /// See [`RowSink::began`].
    fn began(&mut self, _origin: Timestamp) {}

    /// See [`RowSink::rows`].
    fn rows(&mut self, rows: &[Observation]);

    /// See [`RowSink::idle`].
    fn idle(&mut self) {}
}

/// Passes rows to each watcher in turn and then to a sink.
///
/// ```
/// use tacho_core::{Fan, Kept, Observation, RowSink, Timestamp, Watcher};
///
/// struct Count(usize);
///
/// impl Watcher for Count {
///     fn rows(&mut self, rows: &[Observation]) {
///         self.0 += rows.len();
///     }
/// }
///
/// let (mut count, mut kept) = (Count(0), Kept::default());
/// Fan::new(vec![&mut count], &mut kept)
///     .rows(vec![Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO)]);
/// assert_eq!((count.0, kept.into_rows().len()), (1, 1));
/// ```
pub struct Fan<'a> {
    watchers: Vec<&'a mut dyn Watcher>,
    last: &'a mut dyn RowSink,
}

impl<'a> Fan<'a> {
    /// A fan to `watchers` and the sink `last`.
    pub fn new(watchers: Vec<&'a mut dyn Watcher>, last: &'a mut dyn RowSink) -> Self {
        Fan { watchers, last }
    }

    /// Shows rows that are stored elsewhere to the watchers.
    pub fn show(&mut self, rows: &[Observation]) {
        self.watchers.iter_mut().for_each(|watcher| watcher.rows(rows));
    }
}

impl RowSink for Fan<'_> {
    fn began(&mut self, origin: Timestamp) {
        self.watchers.iter_mut().for_each(|watcher| watcher.began(origin));
        self.last.began(origin);
    }

    fn rows(&mut self, rows: Vec<Observation>) {
        self.watchers.iter_mut().for_each(|watcher| watcher.rows(&rows));
        self.last.rows(rows);
    }

    fn idle(&mut self) {
        self.watchers.iter_mut().for_each(|watcher| watcher.idle());
        self.last.idle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen {
        origin: Timestamp,
        indices: Vec<usize>,
        idle: usize,
    }

    impl Watcher for Seen {
        fn began(&mut self, origin: Timestamp) {
            self.origin = origin;
        }

        fn rows(&mut self, rows: &[Observation]) {
            self.indices.extend(rows.iter().map(|row| row.index));
        }

        fn idle(&mut self) {
            self.idle += 1;
        }
    }

    fn row(index: usize) -> Observation {
        Observation::dispatched(index, Timestamp::ZERO, Timestamp::ZERO)
    }

    #[test]
    fn all_watchers_see_what_is_kept() {
        let (mut one, mut two, mut kept) = (Seen::default(), Seen::default(), Kept::default());
        let mut fan = Fan::new(vec![&mut one, &mut two], &mut kept);
        fan.began(Timestamp(7));
        fan.rows(vec![row(2), row(0)]);
        fan.idle();
        fan.rows(vec![row(1)]);
        for seen in [&one, &two] {
            assert_eq!((seen.origin, seen.idle), (Timestamp(7), 1));
            assert_eq!(seen.indices, [2, 0, 1]);
        }
        let indices: Vec<usize> = kept.into_rows().iter().map(|row| row.index).collect();
        assert_eq!(indices, [0, 1, 2]);
    }
}
