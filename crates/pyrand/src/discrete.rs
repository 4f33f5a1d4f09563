//! NumPy's legacy Poisson, Zipf and log-normal draws.

use crate::RandomState;

impl RandomState {
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random_sample()
    }

    pub fn lognormal(&mut self, mean: f64, sigma: f64) -> f64 {
        (mean + sigma * self.standard_normal()).exp()
    }

    pub fn poisson(&mut self, lam: f64) -> i64 {
        if lam >= 10.0 {
            self.poisson_ptrs(lam)
        } else if lam == 0.0 {
            0
        } else {
            self.poisson_product(lam)
        }
    }

    fn poisson_product(&mut self, lam: f64) -> i64 {
        let limit = (-lam).exp();
        let (mut count, mut product) = (0, 1.0);
        loop {
            product *= self.random_sample();
            if product <= limit {
                return count;
            }
            count += 1;
        }
    }

    fn poisson_ptrs(&mut self, lam: f64) -> i64 {
        let (root, log) = (lam.sqrt(), lam.ln());
        let b = 0.931 + 2.53 * root;
        let a = -0.059 + 0.02483 * b;
        let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
        let v_r = 0.9277 - 3.6224 / (b - 2.0);
        loop {
            let u = self.random_sample() - 0.5;
            let v = self.random_sample();
            let us = 0.5 - u.abs();
            let k = ((2.0 * a / us + b) * u + lam + 0.43).floor();
            if us >= 0.07 && v <= v_r {
                return k as i64;
            }
            if k < 0.0 || (us < 0.013 && v > us) {
                continue;
            }
            if v.ln() + inverse_alpha.ln() - (a / (us * us) + b).ln() <= -lam + k * log - log_gamma(k + 1.0) {
                return k as i64;
            }
        }
    }

    /// `zipf(a)`, with `a` above 1.
    pub fn zipf(&mut self, a: f64) -> i64 {
        let less = a - 1.0;
        let b = less.exp2();
        loop {
            let u = 1.0 - self.random_sample();
            let v = self.random_sample();
            let x = u.powf(-1.0 / less).floor();
            if x > i64::MAX as f64 || x < 1.0 {
                continue;
            }
            let t = (1.0 + 1.0 / x).powf(less);
            if v * x * (t - 1.0) / (b - 1.0) <= t / b {
                return x as i64;
            }
        }
    }
}

/// NumPy's own logarithm of the gamma function; its last digits decide a draw.
fn log_gamma(x: f64) -> f64 {
    const TERMS: [f64; 10] = [
        8.333333333333333e-02,
        -2.777777777777778e-03,
        7.936507936507937e-04,
        -5.952380952380952e-04,
        8.417508417508418e-04,
        -1.917526917526918e-03,
        6.41025641025641e-03,
        -2.955065359477124e-02,
        1.796443723688307e-01,
        -1.3924322169059e+00,
    ];
    const LOG_TWO_PI: f64 = 1.8378770664093453;
    if x == 1.0 || x == 2.0 {
        return 0.0;
    }
    let steps = if x < 7.0 { (7.0 - x) as i64 } else { 0 };
    let mut at = x + steps as f64;
    let square = (1.0 / at) * (1.0 / at);
    let series = TERMS.iter().rev().skip(1).fold(TERMS[9], |sum, term| sum * square + term);
    let mut value = series / at + 0.5 * LOG_TWO_PI + (at - 0.5) * at.ln() - at;
    for _ in 0..steps {
        value -= (at - 1.0).ln();
        at -= 1.0;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_numpys() {
        let mut state = RandomState::new(0);
        assert_eq!((0..5).map(|_| state.zipf(1.2)).collect::<Vec<i64>>(), [101, 15, 15_784_845, 2551, 1]);
        let mut state = RandomState::new(0);
        assert_eq!((0..10).map(|_| state.poisson(10.0)).collect::<Vec<i64>>(), [10, 11, 9, 9, 18, 13, 4, 10, 10, 8]);
        let mut state = RandomState::new(0);
        assert_eq!((0..10).map(|_| state.poisson(3.0)).collect::<Vec<i64>>(), [5, 6, 2, 0, 7, 3, 3, 1, 6, 1]);
    }
}
