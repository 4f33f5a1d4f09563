//! AWS Signature Version 4. The body's hash is computed when a request is encoded; the rest of the signature, which
//! depends on the time, when it is sent.

pub(super) mod keys;

use std::borrow::Cow;

use jiff::Timestamp;
use ring::{digest, hmac};
use tacho_core::percent;

use crate::url::{hex_digits, percent_encoded};
pub use keys::{AwsKeySource, AwsKeys};

pub(super) const BODY_HASH: &str = "X-Amz-Content-Sha256";
const EMPTY_HASH: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[derive(Debug, Clone)]
pub struct AwsSpec {
    /// The service, such as `bedrock` or `sagemaker`.
    pub service: String,
    /// The region, such as `us-east-1`.
    pub region: String,
    pub source: AwsKeySource,
}

pub(super) fn body_hash(body: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, body).as_ref())
}

/// Signs requests with one pair of keys.
pub(super) struct AwsSigner {
    keys: AwsKeys,
    region: String,
    service: String,
    /// The second of the last signature, as a number and as `YYYYMMDDThhmmssZ`.
    second: u64,
    date: String,
    /// The signing key, which is valid for a day.
    key: hmac::Key,
}

impl std::fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AwsSigner").field("region", &self.region).field("service", &self.service).finish()
    }
}

/// The parts of a request that a signature covers.
struct Signed<'r> {
    method: &'r str,
    /// Path and query, as they are sent.
    path: &'r str,
    /// Names in lower case with their values, sorted.
    headers: Vec<(Cow<'r, str>, Cow<'r, str>)>,
    body_hash: &'r str,
}

impl AwsSigner {
    pub(super) fn new(keys: AwsKeys, spec: &AwsSpec) -> AwsSigner {
        let (region, service) = (spec.region.clone(), spec.service.clone());
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"");
        AwsSigner { keys, region, service, second: 0, date: String::new(), key }
    }

    /// The headers that sign a request at `now`, in seconds since 1970. `rest` is the request after its first lines.
    /// Signs the host, the type of the content, and AWS's own headers; others may be changed by proxies.
    pub(super) fn header_lines(&mut self, method: &str, path: &str, host: &str, rest: &[u8], now: u64) -> String {
        self.set_time(now);
        let date = std::mem::take(&mut self.date);
        let mut headers = vec![("host".into(), host.into()), ("x-amz-date".into(), date.as_str().into())];
        let session = self.keys.session.as_ref().map(|token| token.expose().to_owned());
        headers.extend(session.iter().map(|token| ("x-amz-security-token".into(), token.as_str().into())));
        headers.extend(signed_headers(rest));
        headers.sort();
        let is_hash = |name: &str| name.eq_ignore_ascii_case(BODY_HASH);
        let body_hash = headers.iter().find(|(name, _)| is_hash(name)).map(|(_, hash)| hash.clone());
        let body_hash = body_hash.as_deref().unwrap_or(EMPTY_HASH);
        let authorization = self.authorization(&date, &Signed { method, path, headers, body_hash });
        let session = session.map(|token| format!("X-Amz-Security-Token: {token}\r\n")).unwrap_or_default();
        let lines = format!("X-Amz-Date: {date}\r\n{session}Authorization: {authorization}\r\n");
        self.date = date;
        lines
    }

    /// Formats the time once a second, and derives the signing key once a day.
    fn set_time(&mut self, now: u64) {
        if now == self.second {
            return;
        }
        let is_same_day = now / 86_400 == self.second / 86_400;
        let time = Timestamp::from_second(now.cast_signed()).unwrap_or_default();
        (self.second, self.date) = (now, time.strftime("%Y%m%dT%H%M%SZ").to_string());
        if !is_same_day {
            let secret = format!("AWS4{}", self.keys.secret.expose());
            let parts = [&self.date[..8], &self.region, &self.service, "aws4_request"];
            self.key = parts.iter().fold(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), |key, part| {
                hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
            });
        }
    }

    fn authorization(&self, date: &str, request: &Signed<'_>) -> String {
        let names = request.headers.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(";");
        let (path, query) = request.path.split_once('?').unwrap_or((request.path, ""));
        let mut canonical =
            format!("{}\n{}\n{}\n", request.method, canonical_path(path, &self.service), canonical_query(query));
        for (name, value) in &request.headers {
            canonical.extend([name, ":", value, "\n"]);
        }
        canonical.extend(["\n", &names, "\n", request.body_hash]);
        let scope = format!("{}/{}/{}/aws4_request", &date[..8], self.region, self.service);
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", body_hash(canonical.as_bytes()));
        let signature = hex(hmac::sign(&self.key, to_sign.as_bytes()).as_ref());
        let id = self.keys.id.expose();
        format!("AWS4-HMAC-SHA256 Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
    }
}

/// The headers of an encoded request that are signed.
fn signed_headers(rest: &[u8]) -> impl Iterator<Item = (Cow<'static, str>, Cow<'_, str>)> {
    let lines = rest.split(|&byte| byte == b'\n').map_while(|line| std::str::from_utf8(line).ok());
    lines.map(|line| line.trim_end_matches('\r')).take_while(|line| !line.is_empty()).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_own = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("x-amz"));
        let is_signed = is_own || name.eq_ignore_ascii_case("content-type");
        is_signed.then(|| (name.to_ascii_lowercase().into(), single_spaced(value.trim())))
    })
}

/// A value in which a run of spaces counts as one.
fn single_spaced(value: &str) -> Cow<'_, str> {
    if !value.contains("  ") {
        return value.into();
    }
    value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ").into()
}

/// The path without dot segments and double slashes, encoded once more than it is sent. S3 signs it as it is sent.
fn canonical_path(path: &str, service: &str) -> String {
    if service == "s3" {
        return path.to_owned();
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_directory = path.ends_with('/') && !segments.is_empty();
    let joined = format!("/{}{}", segments.join("/"), if is_directory { "/" } else { "" });
    percent_encoded(joined.bytes(), b"/")
}

/// The parameters in order, each encoded.
fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| percent_encoded(percent::decoded(text).into_iter(), b"");
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (encoded(name), encoded(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|&byte| hex_digits(byte)).collect()
}

#[cfg(test)]
mod tests;
