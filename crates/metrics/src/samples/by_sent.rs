//! The successes of a run in send order, one column at a time: a table of all columns of a long run would take too
//! much memory.

use std::collections::HashMap;

use crate::{Sample, Samples, latency::successes};

/// The send order of successes.
pub(crate) struct BySent<'a> {
    samples: &'a Samples,
    /// The rank of each success in that order.
    indices: Vec<u32>,
    /// Whether each belongs to a session. Requests of one session are then contiguous.
    pub(crate) sessions: bool,
}

impl<'a> BySent<'a> {
    /// Ordered by send time.
    pub(crate) fn of(samples: &'a Samples) -> Self {
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(samples.len());
        order.extend(successes(samples).zip(0..).map(|(sample, at)| (sample.sent, at)));
        // Equal times keep workload order.
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut indices = vec![0; order.len()];
        order.iter().zip(0..).for_each(|((_, at), index)| indices[*at as usize] = index);
        BySent { samples, indices, sessions: false }
    }

    /// Ordered by session, then by send time; sessions in the order of their first requests.
    pub(crate) fn and_session(samples: &'a Samples) -> Self {
        let mut by_sent = Self::of(samples);
        let sessions: Vec<Option<u32>> = match successes(samples).any(|sample| sample.session.is_some()) {
            true => successes(samples).map(|sample| Some(sample.session?.0)).collect(),
            false => return by_sent,
        };
        let mut first: HashMap<u32, u32> = HashMap::new();
        for (session, index) in sessions.iter().zip(&by_sent.indices) {
            let Some(session) = session else { continue };
            first.entry(*session).and_modify(|known| *known = (*known).min(*index)).or_insert(*index);
        }
        let mut order: Vec<usize> = (0..sessions.len()).collect();
        let key = |at: &usize| (sessions[*at].and_then(|session| first.get(&session)), by_sent.indices[*at]);
        order.sort_unstable_by_key(key);
        let mut indices = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(at, index)| indices[*at] = index);
        by_sent.sessions = sessions.iter().all(Option::is_some);
        by_sent.indices = indices;
        by_sent
    }

    pub(crate) fn len(&self) -> usize {
        self.indices.len()
    }

    /// Calls `see` for each with its rank, in workload order.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, &Sample)) {
        successes(self.samples).zip(&self.indices).for_each(|(sample, index)| see(*index as usize, &sample));
    }

    /// A value of each, in send order.
    pub(crate) fn column(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let mut values = vec![0.0; self.len()];
        self.each(|index, sample| values[index] = of(sample));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RareFields;

    #[test]
    fn columns_are_in_the_order_of_sending() {
        let at = |sent: f64, output_len| Sample { sent, output_len, ..Sample::default() };
        let failed = Sample { failure: Some(tacho_core::FailureKind::TimedOut), ..at(0.0, 9) };
        let samples = [at(2.0, 1), failed, at(1.0, 2), at(2.0, 3)].into();
        let by_sent = BySent::of(&samples);
        assert_eq!(by_sent.column(|sample| sample.output_len as f64), [2.0, 1.0, 3.0]);
    }

    #[test]
    fn sessions_are_contiguous() {
        let at = |sent: f64, session| {
            let rare = RareFields { session: Some((session, 0)), ..RareFields::default() }.into();
            Sample { sent, rare, ..Sample::default() }
        };
        let samples = [at(3.0, 7), at(1.0, 7), at(2.0, 4), at(0.5, 4)].into();
        let by_sent = BySent::and_session(&samples);
        assert_eq!(by_sent.column(|sample| sample.sent), [0.5, 2.0, 1.0, 3.0]);
        assert!(by_sent.sessions);
    }
}
