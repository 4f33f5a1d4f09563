//! Regenerates every recorded workload from its command line.

mod arrivals;
mod case;
mod files;
mod hub;
mod media;
mod random;
mod synthetic;
