//! Times of hash functions.

/// Times of one function, in microseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionTimes {
    /// Its name.
    pub name: &'static str,
    /// Their mean.
    pub mean: f64,
    /// Their sample deviation; 0 for a single call.
    pub std: f64,
}

impl FunctionTimes {
    /// From the time of each call.
    pub fn of(name: &'static str, micros: &[f64]) -> Self {
        let count = micros.len() as f64;
        let mean = micros.iter().sum::<f64>() / count;
        let spread: f64 = micros.iter().map(|time| (time - mean).powi(2)).sum();
        let std = if micros.len() > 1 { (spread / (count - 1.0)).sqrt() } else { 0.0 };
        FunctionTimes { name, mean, std }
    }
}

/// Times of hashing a chain of blocks.
#[derive(Debug, Clone, PartialEq)]
pub struct ChainTimes {
    /// The algorithm.
    pub algorithm: &'static str,
    /// Seconds of each trial.
    pub seconds: Vec<f64>,
    /// Tokens of the chain.
    pub tokens: usize,
}

impl ChainTimes {
    /// Mean seconds.
    pub fn average(&self) -> f64 {
        self.seconds.iter().sum::<f64>() / self.seconds.len() as f64
    }

    /// Fewest seconds.
    pub fn best(&self) -> f64 {
        self.seconds.iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Millions of tokens per second of the best trial.
    pub fn throughput(&self) -> f64 {
        self.tokens as f64 / self.best() / 1e6
    }
}
