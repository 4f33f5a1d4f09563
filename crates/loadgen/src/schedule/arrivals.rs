//! Gaps between arrivals: gamma, Poisson (gamma of shape 1), constant or none.

use tacho_pyrand::randomstate::RandomState;

use crate::Error;

/// Running sums of the gaps, one per entry of `rates`.
pub(super) fn cumulative(rates: &[f64], burstiness: f64, np: &mut RandomState) -> Result<Vec<f64>, Error> {
    if burstiness.is_nan() || burstiness <= 0.0 {
        return Err(Error::BadBurstiness { burstiness });
    }
    let mut total = 0.0;
    rates
        .iter()
        .map(|&rate| {
            total += gap(rate, burstiness, np)?;
            Ok(total)
        })
        .collect()
}

fn gap(rate: f64, burstiness: f64, np: &mut RandomState) -> Result<f64, Error> {
    if rate.is_nan() || rate <= 0.0 {
        return Err(Error::BadRate { rate });
    }
    Ok(if rate.is_infinite() {
        0.0
    } else if burstiness.is_infinite() {
        1.0 / rate
    } else {
        np.gamma(burstiness, 1.0 / (rate * burstiness))
    })
}

/// Scales the times so that the last request is scheduled at exactly `count / rate`.
pub(super) fn stretch_to_rate(times: &mut [f64], rate: f64) {
    let Some(&last) = times.last() else { return };
    if last != 0.0 {
        let factor = times.len() as f64 / rate / last;
        for time in times {
            *time *= factor;
        }
    }
}
