//! Canonical CBOR of the few shapes that are hashed.

use super::Input;

const BYTES: u8 = 2;
const TEXT: u8 = 3;
const LIST: u8 = 4;

/// Writes the encoding of an input.
pub(super) fn write(input: Input<'_>, out: &mut Vec<u8>) {
    match input {
        Input::Text(text) => {
            head(TEXT, text.len() as u64, out);
            out.extend_from_slice(text.as_bytes());
        }
        Input::Block(parent, tokens) => {
            head(LIST, 3, out);
            pair(parent, tokens, out);
            out.push(0xf6);
        }
        Input::Pair(bytes, numbers) => {
            head(LIST, 2, out);
            pair(bytes, numbers, out);
        }
    }
}

fn pair(bytes: &[u8], numbers: &[u64], out: &mut Vec<u8>) {
    head(BYTES, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
    head(LIST, numbers.len() as u64, out);
    numbers.iter().for_each(|&number| head(0, number, out));
}

/// A kind with a number in the shortest form.
fn head(kind: u8, number: u64, out: &mut Vec<u8>) {
    let kind = kind << 5;
    match number {
        0..=23 => out.push(kind | number as u8),
        24..=0xff => out.extend_from_slice(&[kind | 24, number as u8]),
        0x100..=0xffff => {
            out.push(kind | 25);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(kind | 26);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(kind | 27);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}
