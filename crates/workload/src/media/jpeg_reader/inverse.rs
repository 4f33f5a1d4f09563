//! The accurate integer inverse DCT: columns, then rows.

const fn descale(value: i32, bits: u32) -> i32 {
    value.wrapping_add(1 << (bits - 1)) >> bits
}

/// The samples of a block of quantized coefficients.
pub(super) fn inverse(block: &[i16; 64], quant: &[u16; 64]) -> [u8; 64] {
    let mut values: [i32; 64] = std::array::from_fn(|place| i32::from(block[place]) * i32::from(quant[place]));
    for column in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|place| values[place * 8 + column]);
        for (place, value) in pass(line, 11).into_iter().enumerate() {
            values[place * 8 + column] = value;
        }
    }
    let mut samples = [0; 64];
    for row in 0..8 {
        let line: [i32; 8] = std::array::from_fn(|place| values[row * 8 + place]);
        for (place, value) in pass(line, 18).into_iter().enumerate() {
            samples[row * 8 + place] = (value + 128).clamp(0, 255) as u8;
        }
    }
    samples
}

/// Transforms one vector. The first pass keeps two extra bits.
fn pass(v: [i32; 8], bits: u32) -> [i32; 8] {
    let z1 = v[2].wrapping_add(v[6]).wrapping_mul(4433);
    let (t2, t3) = (z1.wrapping_add(v[6].wrapping_mul(-15137)), z1.wrapping_add(v[2].wrapping_mul(6270)));
    let (t0, t1) = (v[0].wrapping_add(v[4]) << 13, v[0].wrapping_sub(v[4]) << 13);
    let even = [t0.wrapping_add(t3), t1.wrapping_add(t2), t1.wrapping_sub(t2), t0.wrapping_sub(t3)];
    let (z1, z2, z3, z4) =
        (v[7].wrapping_add(v[1]), v[5].wrapping_add(v[3]), v[7].wrapping_add(v[3]), v[5].wrapping_add(v[1]));
    let z5 = z3.wrapping_add(z4).wrapping_mul(9633);
    let (z1, z2) = (z1.wrapping_mul(-7373), z2.wrapping_mul(-20995));
    let (z3, z4) = (z3.wrapping_mul(-16069).wrapping_add(z5), z4.wrapping_mul(-3196).wrapping_add(z5));
    let sum = |product: i32, left: i32, right: i32| product.wrapping_add(left).wrapping_add(right);
    let odd = [
        sum(v[1].wrapping_mul(12299), z1, z4),
        sum(v[3].wrapping_mul(25172), z2, z3),
        sum(v[5].wrapping_mul(16819), z2, z4),
        sum(v[7].wrapping_mul(2446), z1, z3),
    ];
    std::array::from_fn(|place| match place {
        0..4 => descale(even[place].wrapping_add(odd[place]), bits),
        _ => descale(even[7 - place].wrapping_sub(odd[7 - place]), bits),
    })
}
