//! Internationalized host names in ASCII (RFC 3492 and 5890).
//!
//! Letters are converted to lower case, nothing more: a name that needs Unicode's full mapping can be given in its
//! `xn--` form.

/// The name in ASCII; `None` if it is not a valid host name.
pub(crate) fn to_ascii(host: &str) -> Option<String> {
    if host.is_ascii() {
        return Some(host.to_owned());
    }
    let labels = host.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']);
    let labels = labels.map(label).collect::<Option<Vec<_>>>()?;
    Some(labels.join("."))
}

fn label(text: &str) -> Option<String> {
    let letters: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let written = if letters.iter().all(char::is_ascii) {
        letters.iter().collect()
    } else {
        format!("xn--{}", punycode(&letters)?)
    };
    (written.len() <= 63).then_some(written)
}

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;

/// RFC 3492, section 6.3.
fn punycode(letters: &[char]) -> Option<String> {
    let mut out: String = letters.iter().filter(|letter| letter.is_ascii()).collect();
    let basic = out.len() as u32;
    if basic > 0 {
        out.push('-');
    }
    let (mut code, mut delta, mut bias, mut handled) = (128_u32, 0_u32, 72_u32, basic);
    while (handled as usize) < letters.len() {
        let next = letters.iter().map(|&letter| u32::from(letter)).filter(|&point| point >= code).min()?;
        delta = delta.checked_add((next - code).checked_mul(handled + 1)?)?;
        code = next;
        for point in letters.iter().map(|&letter| u32::from(letter)) {
            if point < code {
                delta = delta.checked_add(1)?;
            }
            if point == code {
                write_number(delta, bias, &mut out);
                bias = adapt(delta, handled + 1, handled == basic);
                delta = 0;
                handled += 1;
            }
        }
        delta += 1;
        code += 1;
    }
    Some(out)
}

/// Writes a number as variable-length digits; the last digit marks the end.
fn write_number(mut number: u32, bias: u32, out: &mut String) {
    let digit = |value: u32| char::from(if value < 26 { b'a' + value as u8 } else { b'0' + value as u8 - 26 });
    let mut place = BASE;
    loop {
        let min = place.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if number < min {
            break;
        }
        out.push(digit(min + (number - min) % (BASE - min)));
        number = (number - min) / (BASE - min);
        place += BASE;
    }
    out.push(digit(number));
}

fn adapt(delta: u32, handled: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / handled;
    let mut steps = 0;
    while delta > (BASE - T_MIN) * T_MAX / 2 {
        delta /= BASE - T_MIN;
        steps += BASE;
    }
    steps + (BASE - T_MIN + 1) * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_known() {
        for (name, ascii) in [
            ("plain.Example", "plain.Example"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("MÜNCHEN.DE", "xn--mnchen-3ya.de"),
            ("中国。example", "xn--fiqs8s.example"),
            ("пример.испытание", "xn--e1afmkfd.xn--80akhbyknj4f"),
            ("παράδειγμα", "xn--hxajbheg2az3al"),
        ] {
            assert_eq!(to_ascii(name).as_deref(), Some(ascii));
        }
        assert_eq!(to_ascii(&"é".repeat(70)), None);
    }
}
