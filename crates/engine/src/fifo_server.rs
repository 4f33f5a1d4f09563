//! A FIFO queue with one server per core, such as the tokenization of prompts in the front ends.

use std::time::Duration;

use tacho_core::Timestamp;

/// The time at which each core becomes idle.
#[derive(Debug)]
pub struct FifoServer {
    idle_at: Vec<Timestamp>,
}

impl FifoServer {
    pub fn new(cores: usize) -> Self {
        FifoServer { idle_at: vec![Timestamp::ZERO; cores.max(1)] }
    }

    /// Serves a request that arrives at `now` and needs `service`; returns when it is done.
    pub fn serve(&mut self, now: Timestamp, service: Duration) -> Timestamp {
        let Some(idle_at) = self.idle_at.iter_mut().min() else { return now + service };
        *idle_at = now.max(*idle_at) + service;
        *idle_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_wait_for_earlier_ones() {
        let (mut one, service) = (FifoServer::new(1), Duration::from_millis(3));
        let ms = |at: u64| Timestamp(at * 1_000_000);
        let done: Vec<Timestamp> = [0, 0, 1, 20].map(|at| one.serve(ms(at), service)).into();
        assert_eq!(done, [3, 6, 9, 23].map(ms));
        let mut two = FifoServer::new(2);
        assert_eq!([0, 0, 0].map(|at| two.serve(ms(at), service)), [3, 3, 6].map(ms));
    }
}
