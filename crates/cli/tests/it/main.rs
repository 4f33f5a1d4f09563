//! The program end to end: the built binary against the simulator on a free port.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod backends;
