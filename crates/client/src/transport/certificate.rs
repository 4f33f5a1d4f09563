//! Checks the dates and names of a certificate that the user trusts directly, so that it needs no chain.

use jiff::{civil::DateTime, tz::TimeZone};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, client::verify_server_name, server::ParsedCertificate};

/// The object ID of the extension with subject alternative names (2.5.29.17).
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
/// The object ID of the common name in a subject (2.5.4.3).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Checks that the certificate is valid now and for this name.
pub(super) fn check(der: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let fields = Fields::read(der).ok_or(CertificateError::BadEncoding)?;
    if now.as_secs() < fields.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now.as_secs() > fields.not_after {
        return Err(CertificateError::Expired.into());
    }
    // A handmade certificate often has only a common name, which counts if there are no alternative names.
    if !fields.has_alternative_names {
        let wanted = name.to_str();
        let matches = fields.common_name.is_some_and(|own| own.eq_ignore_ascii_case(wanted.as_bytes()));
        return if matches { Ok(()) } else { Err(CertificateError::NotValidForName.into()) };
    }
    verify_server_name(&ParsedCertificate::try_from(der)?, name)
}

#[derive(Debug, PartialEq, Eq)]
struct Fields<'a> {
    not_before: u64,
    not_after: u64,
    common_name: Option<&'a [u8]>,
    has_alternative_names: bool,
}

impl<'a> Fields<'a> {
    fn read(der: &'a [u8]) -> Option<Fields<'a>> {
        let (_, certificate, _) = element(der)?;
        let (_, mut body, _) = element(certificate)?;
        // The optional version, then serial number, algorithm and issuer.
        let has_version = element(body)?.0 == 0xa0;
        for _ in 0..if has_version { 4 } else { 3 } {
            body = element(body)?.2;
        }
        let (_, validity, rest) = element(body)?;
        let (kind, not_before, times) = element(validity)?;
        let not_before = time(kind, not_before)?;
        let (kind, not_after, _) = element(times)?;
        let (_, subject, rest) = element(rest)?;
        Some(Fields {
            not_before,
            not_after: time(kind, not_after)?,
            common_name: common_name(subject),
            has_alternative_names: has_alternative_names(rest)?,
        })
    }
}

/// Splits off the first element: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let digits = rest.get(..usize::from(first & 0x7f)).filter(|digits| digits.len() <= 4)?;
        length = digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit));
        rest = &rest[digits.len()..];
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Whether the extensions (tag 0xa3) among the fields after the subject include alternative names.
fn has_alternative_names(mut fields: &[u8]) -> Option<bool> {
    while !fields.is_empty() {
        let (tag, content, rest) = element(fields)?;
        fields = rest;
        if tag != 0xa3 {
            continue;
        }
        let (_, mut extensions, _) = element(content)?;
        while !extensions.is_empty() {
            let (_, extension, rest) = element(extensions)?;
            extensions = rest;
            if element(extension)?.1 == ALTERNATIVE_NAMES {
                return Some(true);
            }
        }
    }
    Some(false)
}

fn common_name(mut subject: &[u8]) -> Option<&[u8]> {
    let mut found = None;
    while let Some((_, set, rest)) = element(subject) {
        subject = rest;
        let (_, pair, _) = element(set)?;
        let (_, kind, value) = element(pair)?;
        if kind == COMMON_NAME {
            found = Some(element(value)?.1);
        }
    }
    found
}

/// Parses `YYMMDDhhmmssZ` (tag 0x17) or `YYYYMMDDhhmmssZ` to seconds since 1970.
fn time(tag: u8, text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let century = match tag {
        0x17 if text >= "50" => "19",
        0x17 => "20",
        _ => "",
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", format!("{century}{text}")).ok()?;
    u64::try_from(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn times_of_both_kinds_are_read() {
        assert_eq!(time(0x17, b"700101000000Z"), Some(0));
        assert_eq!(time(0x17, b"240229123456Z"), Some(1_709_210_096));
        assert_eq!(time(0x18, b"20500101000000Z"), Some(2_524_608_000));
        assert_eq!(time(0x18, b"2050"), None);
    }

    #[test]
    fn names_and_dates_are_checked() {
        let certificate = |name| CertificateDer::from_pem_slice(tacho_testkit::certificate(name).as_bytes()).unwrap();
        let at = |year: u64| UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_556_952 + 1_000_000));
        let name = |text: &'static str| ServerName::try_from(text).unwrap();
        let named = certificate("named.pem");
        assert!(check(&named, &name("a.example"), at(2025)).is_ok());
        assert!(check(&named, &name("common.example"), at(2025)).is_err());
        assert_eq!(check(&named, &name("a.example"), at(2035)), Err(CertificateError::Expired.into()));
        assert_eq!(check(&named, &name("a.example"), at(2015)), Err(CertificateError::NotValidYet.into()));
        let common = certificate("unnamed.pem");
        assert!(check(&common, &name("Common.Example"), at(2025)).is_ok());
        assert!(check(&common, &name("a.example"), at(2025)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = Fields::read(&bytes);
        }
    }
}
