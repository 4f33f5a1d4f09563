//! Quantiles of Student's t, the beta and the binomial distribution, and Fisher's exact test.

use tacho_pyrand::ln_gamma;

/// The logarithm of a binomial coefficient.
pub(crate) fn ln_choose(n: f64, k: f64) -> f64 {
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
}

/// The cumulative distribution function of a beta distribution: the regularized incomplete beta function.
pub(crate) fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    // The continued fraction converges fast only on this side of the mean.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * continued_fraction(x, a, b) / a
    } else {
        1.0 - front * continued_fraction(1.0 - x, b, a) / b
    }
}

/// The continued fraction of the incomplete beta function, by Lentz's method.
fn continued_fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..1000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a - 1.0 + 2.0 * m) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 1.0 + 2.0 * m));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    fraction
}

/// Where a growing function reaches a value between two arguments, by bisection.
fn bisected((mut low, mut high): (f64, f64), value: f64, function: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        *(if function(middle) < value { &mut low } else { &mut high }) = middle;
    }
    0.5 * (low + high)
}

/// The quantile of a beta distribution.
pub(crate) fn beta_quantile(probability: f64, a: f64, b: f64) -> f64 {
    bisected((0.0, 1.0), probability, |fraction| beta_cdf(fraction, a, b))
}

/// The quantile of the binomial distribution of `trials` with success probability `chance`, continued between integers.
pub(crate) fn binomial_quantile(probability: f64, trials: f64, chance: f64) -> f64 {
    let at_most = |successes: f64| beta_cdf(1.0 - chance, trials - successes, successes + 1.0);
    bisected((0.0, (trials - 1e-9).max(0.0)), probability, at_most)
}

/// The two-sided quantile of Student's t distribution; that of the normal one for infinitely many degrees of freedom.
pub fn student(confidence: f64, degrees_of_freedom: f64) -> f64 {
    // Beyond this many degrees of freedom the two agree to five digits.
    let degrees_of_freedom = degrees_of_freedom.clamp(1.0, 1e5);
    let x = beta_quantile(1.0 - confidence, degrees_of_freedom / 2.0, 0.5);
    (degrees_of_freedom * (1.0 / x - 1.0)).sqrt()
}

/// The probability that at least `found` of `drawn` are marked if `marked` of `all` are: Fisher's one-sided exact test.
pub fn fisher_at_least(found: u64, drawn: u64, marked: u64, all: u64) -> f64 {
    let number = |count: u64| count as f64;
    let whole = ln_choose(number(all), number(drawn));
    let one = |count: u64| {
        let (inside, outside) =
            (ln_choose(number(marked), number(count)), ln_choose(number(all - marked), number(drawn - count)));
        (inside + outside - whole).exp()
    };
    let max = drawn.min(marked);
    let min = found.max((drawn + marked).saturating_sub(all));
    (min..=max).map(one).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_bounds_are_the_tabled_ones() {
        for (degrees_of_freedom, bound) in
            [(1.0, 12.706), (2.0, 4.303), (4.0, 2.776), (10.0, 2.228), (30.0, 2.042), (1e9, 1.960)]
        {
            assert!(
                (student(0.95, degrees_of_freedom) - bound).abs() < 0.002,
                "{degrees_of_freedom}: {}",
                student(0.95, degrees_of_freedom)
            );
        }
        assert!((student(0.99, 5.0) - 4.032).abs() < 0.002);
    }

    #[test]
    fn beta_quantiles_invert_its_probabilitys() {
        for (a, b) in [(1.0, 1.0), (2.5, 7.0), (300.0, 3.0), (0.5, 0.5)] {
            for probability in [0.025, 0.5, 0.975] {
                let found = beta_cdf(beta_quantile(probability, a, b), a, b);
                assert!((found - probability).abs() < 1e-9, "{a} {b} {probability} {found}");
            }
        }
        assert!((beta_quantile(0.975, 100.0, 1.0) - 0.975_f64.powf(0.01)).abs() < 1e-9);
    }

    #[test]
    fn binomial_quantiles_are_those_of_counts() {
        // 590 trials that fail once in a hundred: at most 1 failure in 1.9%, at most 10 in 95.8%.
        assert!((590.0 - binomial_quantile(0.981, 590.0, 0.99) - 1.95).abs() < 0.15);
        assert!((590.0 - binomial_quantile(0.042, 590.0, 0.99) - 11.0).abs() < 0.15);
        assert!((binomial_quantile(0.5, 1000.0, 0.5) - 499.5).abs() < 0.2);
    }

    #[test]
    fn the_lady_tasting_tea() {
        assert!((fisher_at_least(4, 4, 4, 8) - 1.0 / 70.0).abs() < 1e-12);
        assert!((fisher_at_least(3, 4, 4, 8) - 17.0 / 70.0).abs() < 1e-9);
        assert!(fisher_at_least(200, 200, 200, 400) < 1e-100);
        assert!((fisher_at_least(0, 200, 0, 400) - 1.0).abs() < 1e-9);
    }
}
