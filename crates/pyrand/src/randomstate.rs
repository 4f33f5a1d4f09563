//! NumPy's legacy `RandomState` and the module-level `np.random`: masked rejection, polar normals, the old gamma.

use crate::{interval::masked_interval, mt19937::Mt19937};

/// `np.random.RandomState(seed)`, or the module-level generator after `np.random.seed(seed)`.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomState {
    twister: Mt19937,
    cached_gauss: Option<f64>,
}

impl RandomState {
    pub fn new(seed: u32) -> Self {
        RandomState { twister: Mt19937::from_word(seed), cached_gauss: None }
    }

    pub fn seed(&mut self, seed: u32) {
        *self = RandomState::new(seed);
    }

    /// `random_sample()`: a double in `[0, 1)`.
    pub fn random_sample(&mut self) -> f64 {
        self.twister.next_f64()
    }

    /// `randint(low, high)` as int64, `high` excluded. A range of one value draws nothing. Panics when `high <= low`.
    pub fn randint(&mut self, low: i64, high: i64) -> i64 {
        assert!(low < high, "an empty range has no element");
        let range = high.wrapping_sub(low) as u64 - 1;
        low.wrapping_add(masked_interval(&mut self.twister, range) as i64)
    }

    /// `randint(low, high, size)`. Panics when `high <= low`.
    pub fn randint_vec(&mut self, low: i64, high: i64, size: usize) -> Vec<i64> {
        (0..size).map(|_| self.randint(low, high)).collect()
    }

    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            let j = masked_interval(&mut self.twister, i as u64) as usize;
            order.swap(i, j);
        }
        order
    }

    /// `choice(n, size, replace=False)`: the head of a permutation. Panics when `size > n`.
    pub fn choice_distinct(&mut self, n: usize, size: usize) -> Vec<usize> {
        assert!(size <= n, "a sample cannot be larger than its population");
        let mut order = self.permutation(n);
        order.truncate(size);
        order
    }

    /// `choice(n, size, replace=True)`. Panics when `n` is 0.
    pub fn choice_replacing(&mut self, n: usize, size: usize) -> Vec<usize> {
        (0..size).map(|_| self.randint(0, n as i64) as usize).collect()
    }

    pub fn standard_exponential(&mut self) -> f64 {
        -(1.0 - self.twister.next_f64()).ln()
    }

    /// `standard_normal()`: the polar method, which makes two values and keeps one for the next call.
    pub fn standard_normal(&mut self) -> f64 {
        if let Some(kept) = self.cached_gauss.take() {
            return kept;
        }
        loop {
            let x1 = 2.0 * self.twister.next_f64() - 1.0;
            let x2 = 2.0 * self.twister.next_f64() - 1.0;
            let r = x1 * x1 + x2 * x2;
            if r < 1.0 && r != 0.0 {
                let f = (-2.0 * r.ln() / r).sqrt();
                self.cached_gauss = Some(f * x1);
                return f * x2;
            }
        }
    }

    pub fn gamma(&mut self, shape: f64, scale: f64) -> f64 {
        scale * self.standard_gamma(shape)
    }

    pub fn standard_gamma(&mut self, shape: f64) -> f64 {
        if shape == 1.0 {
            self.standard_exponential()
        } else if shape == 0.0 {
            0.0
        } else if shape < 1.0 {
            self.gamma_below_one(shape)
        } else {
            self.gamma_above_one(shape)
        }
    }

    fn gamma_below_one(&mut self, shape: f64) -> f64 {
        loop {
            let u = self.twister.next_f64();
            let e = self.standard_exponential();
            if u <= 1.0 - shape {
                let x = u.powf(1.0 / shape);
                if x <= e {
                    return x;
                }
            } else {
                let y = -((1.0 - u) / shape).ln();
                let x = (1.0 - shape + shape * y).powf(1.0 / shape);
                if x <= e + y {
                    return x;
                }
            }
        }
    }

    fn gamma_above_one(&mut self, shape: f64) -> f64 {
        let b = shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * b).sqrt();
        loop {
            let (x, v) = self.positive_cube_root(c);
            let v = v * v * v;
            let u = self.twister.next_f64();
            if u < 1.0 - 0.0331 * (x * x) * (x * x) || u.ln() < 0.5 * x * x + b * (1.0 - v + v.ln()) {
                return b * v;
            }
        }
    }

    fn positive_cube_root(&mut self, c: f64) -> (f64, f64) {
        loop {
            let x = self.standard_normal();
            let v = 1.0 + c * x;
            if v > 0.0 {
                return (x, v);
            }
        }
    }
}
