//! Named speed profiles: constants of the cost model and the KV capacity that goes with them.

use crate::{CostModel, EngineSpec, error::Error};

/// A model on a machine. The constants are rounded from data sheets, not measured: weights are read once per step at
/// three quarters of the memory bandwidth, prompt tokens run at half of the dense bf16 rate, KV is read at four fifths
/// of the bandwidth, all in bf16. The KV capacity is 90% of the memory minus the weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Zero cost: shows the cost of the wire and the client.
    Instant,
    /// A toy model with steps of 1 ms, for tests and demonstrations.
    #[default]
    Tiny,
    /// An 8B model on one L4 (24 GB, 300 GB/s, 121 TFLOP/s).
    L4x8b,
    /// An 8B model on one A100 (80 GB, 2.0 TB/s, 312 TFLOP/s).
    A100x8b,
    /// An 8B model on one H100 (80 GB, 3.35 TB/s, 989 TFLOP/s).
    H100x8b,
    /// A 70B model on four H100 with tensor parallelism.
    H100x70bTp4,
}

struct Row {
    profile: Profile,
    name: &'static str,
    cost: CostModel,
    num_blocks: usize,
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

// KV of an 8B model with grouped heads: 32 layers x 8 heads x 128 x 2 x 2 bytes = 131 kB per token;
// of a 70B model over four devices: 80 layers x 8 x 128 x 2 x 2 / 4 = 82 kB per token and device.
const TABLE: [Row; 6] = [
    Row { profile: Profile::Instant, name: "instant", cost: CostModel::FREE, num_blocks: 65_536 },
    Row { profile: Profile::Tiny, name: "tiny", cost: cost(1_000.0, 2.0, 5.0, 1.0), num_blocks: 16_384 },
    Row { profile: Profile::L4x8b, name: "l4-8b", cost: cost(71_000.0, 264.0, 20.0, 546.0), num_blocks: 2_600 },
    Row { profile: Profile::A100x8b, name: "a100-8b", cost: cost(10_700.0, 103.0, 10.0, 82.0), num_blocks: 26_700 },
    Row { profile: Profile::H100x8b, name: "h100-8b", cost: cost(6_400.0, 32.0, 8.0, 49.0), num_blocks: 26_700 },
    Row {
        profile: Profile::H100x70bTp4,
        name: "h100-70b-tp4",
        cost: cost(15_000.0, 79.0, 10.0, 31.0),
        num_blocks: 28_200,
    },
];

impl Profile {
    pub fn names() -> Vec<&'static str> {
        TABLE.iter().map(|row| row.name).collect()
    }

    pub fn parse(name: &str) -> Result<Profile, Error> {
        TABLE
            .iter()
            .find(|row| row.name == name)
            .map(|row| row.profile)
            .ok_or_else(|| Error::UnknownProfile { name: name.to_owned(), known: Profile::names().join(", ") })
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.profile == self).expect("every profile has a row")
    }

    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub fn cost(self) -> CostModel {
        self.row().cost
    }

    /// vLLM's default limits with this profile's KV capacity.
    pub fn engine(self) -> EngineSpec {
        EngineSpec { num_blocks: self.row().num_blocks, ..EngineSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in Profile::names() {
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
