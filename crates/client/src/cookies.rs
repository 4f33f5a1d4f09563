//! Cookies of a run, kept and returned as aiohttp's default jar does: a sticky load balancer then distributes the
//! requests as it does those of `vllm bench`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{collections::BTreeMap, net::IpAddr};
use tacho_core::Mutex;

use jiff::{civil::DateTime, tz::TimeZone};

use crate::{EndpointSpec, Rules, Url};

/// Maximum number of cookies, and maximum length of one.
const MAX_COOKIES: usize = 200;
const MAX_LENGTH: usize = 4096;

/// The cookies that the server has set so far. `Debug` shows none of them.
#[derive(Default)]
pub struct Cookies {
    /// Whether there are any, so that requests without cookies take no lock.
    any: AtomicBool,
    kept: Mutex<Vec<Cookie>>,
}

impl std::fmt::Debug for Cookies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cookies").field("any", &self.any).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Cookie {
    name: String,
    value: String,
    /// The host, or the domain that covers it.
    domain: String,
    host_only: bool,
    path: String,
    secure: bool,
    expires: Option<SystemTime>,
}

impl Cookies {
    /// Keeps the cookies of a response: the values of its `Set-Cookie` headers, one per line. Cookies of a server that
    /// is named by an IP address are ignored, as in aiohttp; older vLLM backends open a session per request.
    #[cold]
    pub(crate) fn keep(&self, endpoint: &EndpointSpec, set: &str) {
        let url = &endpoint.url;
        if url.host.parse::<IpAddr>().is_ok() || !endpoint.backend.keeps_cookies() {
            return;
        }
        let mut kept = self.kept.lock();
        for cookie in set.lines().filter_map(|line| Cookie::read(line, url, endpoint.rules)) {
            let is_same =
                |old: &Cookie| (&old.name, &old.domain, &old.path) == (&cookie.name, &cookie.domain, &cookie.path);
            kept.retain(|old| !is_same(old));
            if !cookie.is_expired() && kept.len() < MAX_COOKIES {
                kept.push(cookie);
            }
        }
        self.any.store(!kept.is_empty(), Ordering::Relaxed);
    }

    /// The bytes of a request with the cookies for it; `None` if there are none.
    pub(crate) fn added_to(&self, request: &[u8], url: &Url, rules: Rules) -> Option<Vec<u8>> {
        self.any.load(Ordering::Relaxed).then(|| self.insert(request, url, rules)).flatten()
    }

    #[cold]
    fn insert(&self, request: &[u8], url: &Url, rules: Rules) -> Option<Vec<u8>> {
        let head_end = memchr::memmem::find(request, b"\r\n\r\n")? + 2;
        let mut found = self.matching(url, rules);
        if found.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(request.len() + 256);
        for line in request[..head_end].split_inclusive(|&byte| byte == b'\n') {
            match line.get(..7).filter(|name| name.eq_ignore_ascii_case(b"cookie:")) {
                None => out.extend_from_slice(line),
                // The user's own stay, except those that the server has set again.
                Some(_) => {
                    for pair in String::from_utf8_lossy(&line[7..]).split(';') {
                        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                        found.entry(name.trim().to_owned()).or_insert_with(|| value.trim().to_owned());
                    }
                }
            }
        }
        let pairs: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        out.extend_from_slice(format!("Cookie: {}\r\n", pairs.join("; ")).as_bytes());
        out.extend_from_slice(&request[head_end..]);
        Some(out)
    }

    /// The cookies for a URL by name; of several with one name, the one of the longest domain and path.
    fn matching(&self, url: &Url, rules: Rules) -> BTreeMap<String, String> {
        let kept = self.kept.lock();
        let mut found: Vec<&Cookie> = kept.iter().filter(|cookie| cookie.is_for(url)).collect();
        found.sort_by_key(|cookie| (cookie.domain.len(), cookie.path.len()));
        let value = |cookie: &Cookie| if rules == Rules::Vllm { quoted(&cookie.value) } else { cookie.value.clone() };
        found.into_iter().map(|cookie| (cookie.name.clone(), value(cookie))).collect()
    }
}

impl Cookie {
    /// Reads the value of a `Set-Cookie` header of a response from `url`; `None` if it is not for this server.
    fn read(text: &str, url: &Url, rules: Rules) -> Option<Cookie> {
        let mut parts = text.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let bad = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
        let is_named =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"\",;\\".contains(&byte));
        if !is_named || value.contains(bad) || name.len() + value.len() > MAX_LENGTH {
            return None;
        }
        let (host, here) = (url.host.to_ascii_lowercase(), path_of(url));
        let folder = here.rfind('/').filter(|at| *at > 0).map_or("/", |at| &here[..at]);
        let mut cookie = Cookie {
            name: name.to_owned(),
            value: value.to_owned(),
            domain: host,
            host_only: true,
            path: folder.to_owned(),
            secure: false,
            expires: None,
        };
        let (mut max_age, mut date) = (None, None);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let value = value.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "secure" => cookie.secure = true,
                "path" if value.starts_with('/') => cookie.path = value.to_owned(),
                "domain" if !value.ends_with('.') && !value.is_empty() => {
                    let domain = value.strip_prefix('.').unwrap_or(value);
                    let covers = |host: &str| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
                    if cookie.domain != domain && !covers(&cookie.domain) {
                        return None;
                    }
                    (cookie.domain, cookie.host_only) = (domain.to_owned(), false);
                }
                "max-age" => max_age = value.parse::<i64>().ok(),
                // aiohttp takes the first second of 1970 for no date.
                "expires" => date = parse_date(value).filter(|seconds| *seconds != 0 || rules == Rules::Standard),
                _ => {}
            }
        }
        let lasting = max_age.map(|age| SystemTime::now() + Duration::from_secs(age.clamp(0, 1 << 32).unsigned_abs()));
        let until = date.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        Some(Cookie { expires: lasting.or(until), ..cookie })
    }

    fn is_expired(&self) -> bool {
        self.expires.is_some_and(|time| time <= SystemTime::now())
    }

    fn is_for(&self, url: &Url) -> bool {
        let (host, path, folder) = (url.host.to_ascii_lowercase(), path_of(url), self.path.trim_end_matches('/'));
        let is_host = host == self.domain || (!self.host_only && host.ends_with(&format!(".{}", self.domain)));
        let is_below = path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        is_host && is_below && self.path.len() <= path.len() && (url.tls || !self.secure) && !self.is_expired()
    }
}

fn path_of(url: &Url) -> &str {
    url.path.split('?').next().unwrap_or_default()
}

/// A value as Python's `http.cookies` writes it, and aiohttp with it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~:".contains(c);
    if (!value.is_empty() && value.chars().all(plain)) || value.starts_with('"') {
        return value.to_owned();
    }
    let written = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if plain(c) || " ()/<=>?@[]{}".contains(c) || u32::from(c) > 255 => c.to_string(),
        c => format!("\\{:03o}", u32::from(c)),
    };
    format!("\"{}\"", value.chars().map(written).collect::<String>())
}

/// A date in any of the forms of HTTP (RFC 6265, section 5.1.1), as seconds since 1970.
fn parse_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == ':')).filter(|word| !word.is_empty()) {
        let clock: Vec<i16> = word.split(':').filter_map(|part| part.parse().ok()).collect();
        let named = MONTHS.iter().position(|name| word.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(name)));
        match (&clock[..], named, word.len()) {
            (&[hour, minute, second], ..) if time.is_none() => time = Some([hour, minute, second]),
            (&[number], _, 1 | 2) if day.is_none() => day = Some(number),
            (_, Some(at), _) if month.is_none() => month = Some(at as i8 + 1),
            (&[number @ ..70], _, 2 | 4) if year.is_none() => year = Some(2000 + number),
            (&[number @ ..100], _, 2 | 4) if year.is_none() => year = Some(1900 + number),
            (&[number], _, 2 | 4) if year.is_none() => year = Some(number),
            _ => {}
        }
    }
    let [hour, minute, second] = time?.map(|number| i8::try_from(number).unwrap_or(-1));
    let date = DateTime::new(year?, month?, i8::try_from(day?).ok()?, hour, minute, second, 0).ok()?;
    u64::try_from(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendKind;

    fn endpoint(url: &str, rules: Rules) -> EndpointSpec {
        EndpointSpec { rules, ..EndpointSpec::new(Url::parse(url).unwrap(), BackendKind::OpenAi) }
    }

    fn cookie(cookies: &Cookies, endpoint: &EndpointSpec, user: Option<&str>) -> Option<String> {
        let own = user.map_or_else(String::new, |user| format!("cookie: {user}\r\n"));
        let request = format!("POST / HTTP/1.1\r\nHost: h\r\n{own}Content-Length: 2\r\n\r\n{{}}");
        let written = String::from_utf8(cookies.added_to(request.as_bytes(), &endpoint.url, endpoint.rules)?).unwrap();
        let (head, body) = written.split_once("\r\n\r\n").unwrap();
        assert_eq!((body, head.matches("ookie:").count()), ("{}", 1), "{head}");
        Some(head.split_once("Cookie: ").unwrap().1.to_owned())
    }

    #[test]
    fn cookies_are_returned_as_by_aiohttp() {
        let golden = tacho_testkit::golden_json("cookies/jar.json");
        for case in golden["cases"].as_array().unwrap() {
            let cookies = Cookies::default();
            for response in case["responses"].as_array().unwrap() {
                let set: Vec<&str> =
                    response[1].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
                cookies.keep(&endpoint(response[0].as_str().unwrap(), Rules::Vllm), &set.join("\n"));
            }
            let request = endpoint(case["url"].as_str().unwrap(), Rules::Vllm);
            let user = case["user"].as_str();
            let sent = cookie(&cookies, &request, user);
            assert_eq!(sent.as_deref(), case["cookie"].as_str(), "{case}");
        }
    }

    #[test]
    fn values_are_returned_as_they_came_and_old_dates_delete_them() {
        let (cookies, endpoint) = (Cookies::default(), endpoint("http://lb.test/v1/completions", Rules::Standard));
        cookies.keep(&endpoint, "AWSALB=x/y+z==; Path=/\nb=1");
        assert_eq!(cookie(&cookies, &endpoint, None).unwrap(), "AWSALB=x/y+z==; b=1");
        cookies.keep(&endpoint, "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(cookie(&cookies, &endpoint, None).unwrap(), "AWSALB=x/y+z==");
        assert!(!format!("{cookies:?}").contains("x/y"));
    }
}
