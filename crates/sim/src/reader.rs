//! Front ends read prompts one after the other, each on a core of its own: who comes while one is read waits for it.

use std::time::Duration;

use tacho_core::Stamp;

/// When each of the cores is free.
#[derive(Debug)]
pub(crate) struct Reader {
    free: Vec<Stamp>,
}

impl Reader {
    /// So many cores, which rest.
    pub(crate) fn new(cores: usize) -> Self {
        Reader { free: vec![Stamp::ZERO; cores.max(1)] }
    }

    /// When a prompt has been read that comes at `now` and takes so long.
    pub(crate) fn read(&mut self, now: Stamp, takes: Duration) -> Stamp {
        let Some(free) = self.free.iter_mut().min() else { return now + takes };
        *free = now.max(*free) + takes;
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_wait_for_those_before_them() {
        let (mut one, takes) = (Reader::new(1), Duration::from_millis(3));
        let ms = |at: u64| Stamp(at * 1_000_000);
        let read: Vec<Stamp> = [0, 0, 1, 20].map(|at| one.read(ms(at), takes)).into();
        assert_eq!(read, [3, 6, 9, 23].map(ms));
        let mut two = Reader::new(2);
        assert_eq!([0, 0, 0].map(|at| two.read(ms(at), takes)), [3, 3, 6].map(ms));
    }
}
