//! The successes of a run in the order they were sent, one number of each at a time: a list of all numbers of a long run
//! would be larger than all else.

use std::collections::HashMap;

use crate::latency::successes;
use crate::{Sample, Samples};

/// The order in which successes were sent.
pub(crate) struct BySent<'a> {
    samples: &'a Samples,
    /// The place of each success in that order.
    places: Vec<u32>,
    /// Whether each is part of a session. Requests of one session stand together then.
    pub(crate) sessions: bool,
}

impl<'a> BySent<'a> {
    /// The order of times alone.
    pub(crate) fn of(samples: &'a Samples) -> Self {
        let mut order: Vec<(f64, u32)> = Vec::with_capacity(samples.len());
        order.extend(successes(samples).zip(0..).map(|(sample, at)| (sample.sent, at)));
        // Equal times stay in the order of the workload.
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut places = vec![0; order.len()];
        order.iter().zip(0..).for_each(|((_, at), place)| places[*at as usize] = place);
        BySent { samples, places, sessions: false }
    }

    /// The same with requests of one session together, and sessions in the order of their first requests.
    pub(crate) fn and_session(samples: &'a Samples) -> Self {
        let mut by_sent = Self::of(samples);
        let sessions: Vec<Option<u32>> = match successes(samples).any(|sample| sample.session.is_some()) {
            true => successes(samples).map(|sample| Some(sample.session?.0)).collect(),
            false => return by_sent,
        };
        let mut first: HashMap<u32, u32> = HashMap::new();
        for (session, place) in sessions.iter().zip(&by_sent.places) {
            let Some(session) = session else { continue };
            first.entry(*session).and_modify(|known| *known = (*known).min(*place)).or_insert(*place);
        }
        let mut order: Vec<usize> = (0..sessions.len()).collect();
        let key = |at: &usize| (sessions[*at].and_then(|session| first.get(&session)), by_sent.places[*at]);
        order.sort_unstable_by_key(key);
        let mut places = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(at, place)| places[*at] = place);
        by_sent.sessions = sessions.iter().all(Option::is_some);
        by_sent.places = places;
        by_sent
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Each of them with its place in the order; they come in the order of the workload.
    pub(crate) fn each(&self, mut see: impl FnMut(usize, &Sample)) {
        successes(self.samples).zip(&self.places).for_each(|(sample, place)| see(*place as usize, &sample));
    }

    /// A number of each, in the order.
    pub(crate) fn column(&self, of: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let mut values = vec![0.0; self.len()];
        self.each(|place, sample| values[place] = of(sample));
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rare;

    #[test]
    fn columns_are_in_the_order_of_sending() {
        let at = |sent: f64, output_len| Sample { sent, output_len, ..Sample::default() };
        let failed = Sample { failure: Some(tacho_core::FailureKind::TimedOut), ..at(0.0, 9) };
        let samples = [at(2.0, 1), failed, at(1.0, 2), at(2.0, 3)].into();
        let by_sent = BySent::of(&samples);
        assert_eq!(by_sent.column(|sample| sample.output_len as f64), [2.0, 1.0, 3.0]);
    }

    #[test]
    fn sessions_stand_together() {
        let at = |sent: f64, session| {
            let rare = Rare { session: Some((session, 0)), ..Rare::default() }.into();
            Sample { sent, rare, ..Sample::default() }
        };
        let samples = [at(3.0, 7), at(1.0, 7), at(2.0, 4), at(0.5, 4)].into();
        let by_sent = BySent::and_session(&samples);
        assert_eq!(by_sent.column(|sample| sample.sent), [0.5, 2.0, 1.0, 3.0]);
        assert!(by_sent.sessions);
    }
}
