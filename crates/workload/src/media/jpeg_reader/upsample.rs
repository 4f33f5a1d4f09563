//! Upsamples components of lower resolution: with triangle filters for factors of two, else by repetition.

use super::Component;

/// A component's samples at the size of the image.
pub(super) fn upsample(
    samples: &[u8],
    component: &Component,
    (h, v): (usize, usize),
    (width, height): (usize, usize),
) -> Option<Vec<u8>> {
    if h % component.h != 0 || v % component.v != 0 {
        return None;
    }
    let (across, down) = (h / component.h, v / component.v);
    let stride = component.blocks_wide * 8;
    let row = |y: usize| &samples[y * stride..][..component.width];
    let smooth = component.width > 2;
    let mut out = Vec::with_capacity(width * height);
    for y in 0..height {
        let near = y / down;
        // The filter reads the nearest other row; at the edge the last row is repeated.
        let other = if y % 2 == 0 { near.saturating_sub(1) } else { (near + 1).min(component.height - 1) };
        let line = match (across, down) {
            (1, 1) => row(near).to_vec(),
            (2, 1) if smooth => double(row(near)),
            (2, 2) if smooth => double_both(row(near), row(other)),
            (1, 2) => halfway(row(near), row(other), y % 2),
            _ => row(near).iter().flat_map(|&sample| std::iter::repeat_n(sample, across)).collect(),
        };
        out.extend_from_slice(line.get(..width)?);
    }
    Some(out)
}

fn double(row: &[u8]) -> Vec<u8> {
    let at = |index: usize| u32::from(row[index]);
    let last = row.len() - 1;
    let mut out = Vec::with_capacity(row.len() * 2);
    for index in 0..row.len() {
        let three = at(index) * 3;
        out.push(if index == 0 { row[0] } else { ((three + at(index - 1) + 1) >> 2) as u8 });
        out.push(if index == last { row[last] } else { ((three + at(index + 1) + 2) >> 2) as u8 });
    }
    out
}

fn double_both(near: &[u8], other: &[u8]) -> Vec<u8> {
    let sums: Vec<u32> = near.iter().zip(other).map(|(&near, &other)| u32::from(near) * 3 + u32::from(other)).collect();
    let last = sums.len() - 1;
    let mut out = Vec::with_capacity(sums.len() * 2);
    for (index, &sum) in sums.iter().enumerate() {
        let left = if index == 0 { sum * 4 + 8 } else { sum * 3 + sums[index - 1] + 8 };
        let right = if index == last { sum * 4 + 7 } else { sum * 3 + sums[index + 1] + 7 };
        out.extend([(left >> 4) as u8, (right >> 4) as u8]);
    }
    out
}

fn halfway(near: &[u8], other: &[u8], parity: usize) -> Vec<u8> {
    let bias = if parity == 0 { 1 } else { 2 };
    let mean = |(&near, &other): (&u8, &u8)| ((u32::from(near) * 3 + u32::from(other) + bias) >> 2) as u8;
    near.iter().zip(other).map(mean).collect()
}
