//! Named speed profiles: constants of the cost model and the KV capacity that goes with them.

use tacho_core::named;

use crate::{CostModel, EngineSpec, error::Error};

named! {
    /// A model on a machine. The constants are rounded from data sheets, not measured: weights are read once per step at
    /// three quarters of the memory bandwidth, prompt tokens run at half of the dense bf16 rate, KV is read at four
    /// fifths of the bandwidth, all in bf16. The KV capacity is 90% of the memory minus the weights.
    #[derive(Default)]
    pub enum Profile {
        /// Zero cost: shows the cost of the wire and the client.
        Instant = "instant",
        /// A toy model with steps of 1 ms, for tests and demonstrations.
        #[default]
        Tiny = "tiny",
        /// An 8B model on one L4 (24 GB, 300 GB/s, 121 TFLOP/s).
        L4x8b = "l4-8b",
        /// An 8B model on one A100 (80 GB, 2.0 TB/s, 312 TFLOP/s).
        A100x8b = "a100-8b",
        /// An 8B model on one H100 (80 GB, 3.35 TB/s, 989 TFLOP/s).
        H100x8b = "h100-8b",
        /// A 70B model on four H100 with tensor parallelism.
        H100x70bTp4 = "h100-70b-tp4",
    }
}

const fn cost(fixed_us: f64, prefill_us: f64, sequence_us: f64, kv_ns: f64) -> CostModel {
    CostModel {
        fixed_ns: fixed_us * 1e3,
        per_prefill_token_ns: prefill_us * 1e3,
        per_sequence_ns: sequence_us * 1e3,
        per_kv_token_ns: kv_ns,
        ..CostModel::FREE
    }
}

impl Profile {
    pub fn parse(name: &str) -> Result<Profile, Error> {
        let unknown = || Error::UnknownProfile { name: name.to_owned(), known: Profile::NAMES.join(", ") };
        Profile::from_name(name).ok_or_else(unknown)
    }

    // KV of an 8B model with grouped heads: 32 layers x 8 heads x 128 x 2 x 2 bytes = 131 kB per token;
    // of a 70B model over four devices: 80 layers x 8 x 128 x 2 x 2 / 4 = 82 kB per token and device.
    fn row(self) -> (CostModel, usize) {
        match self {
            Profile::Instant => (CostModel::FREE, 65_536),
            Profile::Tiny => (cost(1_000.0, 2.0, 5.0, 1.0), 16_384),
            Profile::L4x8b => (cost(71_000.0, 264.0, 20.0, 546.0), 2_600),
            Profile::A100x8b => (cost(10_700.0, 103.0, 10.0, 82.0), 26_700),
            Profile::H100x8b => (cost(6_400.0, 32.0, 8.0, 49.0), 26_700),
            Profile::H100x70bTp4 => (cost(15_000.0, 79.0, 10.0, 31.0), 28_200),
        }
    }

    pub fn cost(self) -> CostModel {
        self.row().0
    }

    /// vLLM's default limits with this profile's KV capacity.
    pub fn engine(self) -> EngineSpec {
        EngineSpec { num_blocks: self.row().1, ..EngineSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in Profile::NAMES {
            assert_eq!(Profile::parse(name).unwrap().name(), name);
        }
        assert!(Profile::parse("h100").unwrap_err().to_string().contains("h100-70b-tp4"));
    }

    #[test]
    fn faster_machines_are_faster() {
        let decode = |profile: Profile| {
            let batch = crate::BatchShape { decode_sequences: 8, sequences: 8, kv_tokens: 8_000, prefill_tokens: 0 };
            profile.cost().step_time(&batch)
        };
        assert!(decode(Profile::H100x8b) < decode(Profile::A100x8b));
        assert!(decode(Profile::A100x8b) < decode(Profile::L4x8b));
        assert!(decode(Profile::H100x8b) < decode(Profile::H100x70bTp4));
    }
}
