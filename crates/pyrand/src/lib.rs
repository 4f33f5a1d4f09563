//! NumPy's and CPython's random generators, bit for bit. Draw order is behavior: generators are always passed
//! explicitly, and there is no process-wide state.

pub mod cpython;
mod discrete;
mod gamma;
pub mod generator;
pub mod globals;
mod interval;
pub mod mt19937;
pub mod pcg64;
pub mod randomstate;
pub mod seedseq;
pub mod strhash;

pub use cpython::Random;
pub use gamma::ln_gamma;
pub use generator::Generator;
pub use globals::Globals;
pub use mt19937::Mt19937;
pub use pcg64::Pcg64;
pub use randomstate::RandomState;
pub use seedseq::SeedSequence;
pub use strhash::HashKey;
