//! The accurate integer forward DCT: rows, then columns. The result is scaled by eight.

const fn descale(value: i32, bits: u32) -> i32 {
    (value + (1 << (bits - 1))) >> bits
}

/// Transforms a block of level-shifted samples in place.
pub(super) fn forward(block: &mut [i32; 64]) {
    for row in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|place| block[row * 8 + place]);
        for (place, value) in pass(line, true).into_iter().enumerate() {
            block[row * 8 + place] = value;
        }
    }
    for column in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|place| block[place * 8 + column]);
        for (place, value) in pass(line, false).into_iter().enumerate() {
            block[place * 8 + column] = value;
        }
    }
}

/// Transforms one vector. Rows keep two extra bits, which columns remove.
fn pass(v: [i32; 8], rows: bool) -> [i32; 8] {
    let k = if rows { 11 } else { 15 };
    let (t0, t7, t1, t6) = (v[0] + v[7], v[0] - v[7], v[1] + v[6], v[1] - v[6]);
    let (t2, t5, t3, t4) = (v[2] + v[5], v[2] - v[5], v[3] + v[4], v[3] - v[4]);
    let (a, b, c, e) = (t0 + t3, t0 - t3, t1 + t2, t1 - t2);
    let (o0, o4) = if rows { ((a + c) << 2, (a - c) << 2) } else { (descale(a + c, 2), descale(a - c, 2)) };
    let z = (e + b) * 4433;
    let (o2, o6) = (descale(z + b * 6270, k), descale(z - e * 15137, k));
    let (z1, z2, z3, z4) = (t4 + t7, t5 + t6, t4 + t6, t5 + t7);
    let z5 = (z3 + z4) * 9633;
    let (z1, z2, z3, z4) = (z1 * -7373, z2 * -20995, z3 * -16069 + z5, z4 * -3196 + z5);
    let o7 = descale(t4 * 2446 + z1 + z3, k);
    let o5 = descale(t5 * 16819 + z2 + z4, k);
    let o3 = descale(t6 * 25172 + z2 + z3, k);
    let o1 = descale(t7 * 12299 + z1 + z4, k);
    [o0, o1, o2, o3, o4, o5, o6, o7]
}
