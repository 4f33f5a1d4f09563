//! Regenerates every recorded workload from its command line.

mod case;
mod random;
mod recorded;
mod synthetic;
