//! Dates of the Gregorian calendar in UTC.

/// Days since 1970. Years start in March so that the leap day comes last.
pub(crate) fn days_from_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// Year, month and day of a number of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day)
}

/// Seconds since 1970 as `YYYYMMDDThhmmssZ`.
pub(crate) fn basic_format(seconds: u64) -> String {
    let (year, month, day) = date_of((seconds / 86_400) as i64);
    let [hour, minute, second] = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Parses `YYYY-MM-DDThh:mm:ss`, with fractions, `Z` or an offset after it, to seconds since 1970.
pub(crate) fn parse_rfc3339(text: &str) -> Option<f64> {
    let (date, rest) = text.split_at_checked(10)?;
    let (time, zone) = rest.strip_prefix(['T', 't', ' '])?.split_at_checked(8)?;
    let digits = zone.strip_prefix('.').map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, zone) = zone.split_at(digits);
    let fields = |text: &str, mark: char| -> Option<[i64; 3]> {
        let numbers: Option<Vec<i64>> = text.split(mark).map(|field| field.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (fields(date, '-')?, fields(time, ':')?);
    let offset = match zone {
        "Z" | "z" | "" => 0,
        _ => {
            let [hours, minutes, _] = fields(&format!("{}:0", zone.get(1..)?), ':')?;
            let seconds = (hours * 60 + minutes) * 60;
            if zone.starts_with('-') { -seconds } else { seconds }
        }
    };
    let whole = ((days_from_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 + second - offset;
    let fraction: f64 = if digits > 1 { fraction.parse().ok()? } else { 0.0 };
    Some(whole as f64 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read() {
        for (seconds, written) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_440_938_160, "20150830T123600Z"),
            (1_709_251_199, "20240229T235959Z"),
            (4_102_444_800, "21000101T000000Z"),
        ] {
            assert_eq!(basic_format(seconds), written);
        }
        for (written, seconds) in [
            ("2015-08-30T12:36:00Z", 1_440_938_160.0),
            ("2015-08-30T12:36:00.25Z", 1_440_938_160.25),
            ("2015-08-30T14:36:00+02:00", 1_440_938_160.0),
            ("2015-08-30T07:06:00-05:30", 1_440_938_160.0),
            ("2015-08-30 12:36:00", 1_440_938_160.0),
        ] {
            assert_eq!(parse_rfc3339(written), Some(seconds), "{written}");
        }
        for odd in ["", "tomorrow", "2015-08-30", "2015-08-30T12:36Z", "2015-08-30T12:36:00+0200", "ሴሴሴሴሴሴ"]
        {
            assert_eq!(parse_rfc3339(odd), None, "{odd}");
        }
    }
}
