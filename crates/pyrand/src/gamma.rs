//! The gamma function, which normalizes distributions.

/// ln Γ(x) for x > 0: Lanczos's series.
pub fn ln_gamma(x: f64) -> f64 {
    const SERIES: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let shifted = x + 5.5 - (x + 0.5) * (x + 5.5).ln();
    let terms = SERIES.iter().enumerate().map(|(at, term)| term / (x + 1.0 + at as f64));
    let sum = 1.000_000_000_190_015 + terms.sum::<f64>();
    (2.506_628_274_631_000_5 * sum / x).ln() - shifted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials_are_found() {
        for (x, factorial) in [(1.0, 1.0), (3.0, 2.0), (6.0, 120.0), (0.5, std::f64::consts::PI.sqrt())] {
            assert!((ln_gamma(x).exp() / factorial - 1.0_f64).abs() < 1e-9, "{x}");
        }
    }
}
