//! Sizes of synthetic media and their probabilities: a Python dict literal on the command line.

use tacho_core::json::python_float;

use crate::Error;
use crate::sampling::literal::{Literal, parse};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub height: i64,
    pub width: i64,
    /// Number of frames; one makes an image.
    pub frames: i64,
}

tacho_core::named! {
    pub(crate) enum Modality { Image = "image", Video = "video" }
}

impl Bucket {
    pub(crate) fn modality(self) -> Result<Modality, Error> {
        match self {
            Bucket { frames: 1, height: 1.., width: 1.. } => Ok(Modality::Image),
            Bucket { frames: 2.., height: 1.., width: 1.. } => Ok(Modality::Video),
            Bucket { height, width, frames } => Err(usage!(
                "a bucket of height {height}, width {width} and {frames} frames is an invalid multimodal item"
            )),
        }
    }
}

/// Sizes with weights, in the given order.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets {
    entries: Vec<(Bucket, f64)>,
}

impl Default for Buckets {
    /// Small and large images, no videos.
    fn default() -> Self {
        let bucket = |height, width, frames| Bucket { height, width, frames };
        Buckets { entries: vec![(bucket(256, 256, 1), 0.5), (bucket(720, 1280, 1), 0.5), (bucket(720, 1280, 16), 0.0)] }
    }
}

impl Buckets {
    /// Parses a dict literal such as `{(256, 256, 1): 0.5, (720, 1280, 16): 0.5}`. A repeated key keeps its position
    /// and takes the last value.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong =
            || usage!("--random-mm-bucket-config {text:?} is not a dict of (height, width, frames) and numbers");
        let Some(Literal::Dict(pairs)) = parse(text) else { return Err(wrong()) };
        let mut entries: Vec<(Bucket, f64)> = Vec::new();
        for (key, value) in pairs {
            let key = match key {
                Literal::Text(inner) => parse(&inner),
                key => Some(key),
            };
            let bucket = key.as_ref().and_then(bucket_of).ok_or_else(wrong)?;
            let share = match &value {
                Literal::Text(text) => python_float(text),
                value => value.number(),
            };
            let share = share.ok_or_else(wrong)?;
            match entries.iter_mut().find(|(known, _)| *known == bucket) {
                Some(known) => known.1 = share,
                None => entries.push((bucket, share)),
            }
        }
        Ok(Buckets { entries })
    }

    pub fn entries(&self) -> &[(Bucket, f64)] {
        &self.entries
    }

    /// The sizes with nonzero weight, normalized to a sum of one.
    pub(crate) fn normalized(&self) -> Result<Vec<(Bucket, f64)>, Error> {
        if self.entries.iter().any(|(_, share)| *share < 0.0) {
            return Err(usage!("the values of --random-mm-bucket-config must be non-negative"));
        }
        let mut entries: Vec<(Bucket, f64)> = self.entries.iter().copied().filter(|(_, share)| *share != 0.0).collect();
        if entries.is_empty() {
            return Err(usage!("the values of --random-mm-bucket-config must not all be zero"));
        }
        Buckets::divide_by_sum(&mut entries);
        Ok(entries)
    }

    /// Divides by the sum, added from the left as in Python 3.11.
    pub(crate) fn divide_by_sum(entries: &mut [(Bucket, f64)]) {
        let total: f64 = entries.iter().fold(0.0, |total, (_, share)| total + share);
        entries.iter_mut().for_each(|(_, share)| *share /= total);
    }
}

fn bucket_of(key: &Literal) -> Option<Bucket> {
    match key {
        Literal::Tuple(sides) => match sides[..] {
            [Literal::Int(height), Literal::Int(width), Literal::Int(frames)] => Some(Bucket { height, width, frames }),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_pythons() {
        let buckets = Buckets::parse("{(1, 2, 1): 1, '(3,4,5)': \"0.5\", (1, 2, 1): 3.0,}").unwrap();
        let bucket = |height, width, frames| Bucket { height, width, frames };
        assert_eq!(buckets.entries(), [(bucket(1, 2, 1), 3.0), (bucket(3, 4, 5), 0.5)]);
        for bad in ["{(1, 2): 1.0}", "[1]", "{", "{(1, 2, 1): None}", "{(1, 2, 1.5): 1}", "{1: 2}"] {
            assert!(Buckets::parse(bad).unwrap_err().to_string().contains("is not a dict of"), "{bad}");
        }
    }

    #[test]
    fn shares_are_normalized_in_order() {
        let shares: Vec<f64> = Buckets::default().normalized().unwrap().into_iter().map(|(_, share)| share).collect();
        assert_eq!(shares, [0.5, 0.5]);
        let error = |text| Buckets::parse(text).unwrap().normalized().unwrap_err().to_string();
        assert!(error("{(8, 8, 1): 0}").ends_with("must not all be zero"));
        assert!(error("{(8, 8, 1): -1}").ends_with("must be non-negative"));
        assert!(Bucket { height: 8, width: 8, frames: 0 }.modality().is_err());
    }
}
