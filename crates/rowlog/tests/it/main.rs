//! The log from its users' view: what goes in comes out, whatever happens to the file.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod columns;
mod damage;
mod kill;
mod round_trip;
mod sample;
