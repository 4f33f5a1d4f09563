//! Splits a body into server-sent events. The events do not depend on how the body is split into reads.

use memchr::memchr2;

use super::Flow;

/// Maximum length of an event: a server that sends a longer one is broken or hostile.
pub(super) const MAX_EVENT: usize = 32 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// The event stream format of the HTML standard, section 9.2.6.
#[derive(Debug, Default)]
pub(super) struct Standard {
    line: Vec<u8>,
    /// The data lines of an incomplete event.
    data: Vec<u8>,
    has_data: bool,
    /// A line ended with CR; an LF right after it belongs to the same line end.
    after_cr: bool,
    /// Whether anything was read; a byte order mark is valid only at the start.
    begun: bool,
}

impl Standard {
    /// Splits bytes and passes each complete event to `event`, until it returns stop.
    pub(super) fn feed(&mut self, mut rest: &[u8], event: &mut impl FnMut(&[u8]) -> Flow) -> Result<Flow, TooLong> {
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            if self.line.is_empty()
                && !self.has_data
                && let Some((data, used)) = whole_event(rest)
            {
                self.begun = true;
                rest = &rest[used..];
                if event(data) == Flow::Stop {
                    return Ok(Flow::Stop);
                }
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.line.extend_from_slice(rest);
                return if self.line.len() + self.data.len() > MAX_EVENT { Err(TooLong) } else { Ok(Flow::Continue) };
            };
            self.line.extend_from_slice(&rest[..end]);
            self.after_cr = rest[end] == b'\r';
            rest = &rest[end + 1..];
            if self.end_line(event) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if self.data.len() > MAX_EVENT {
                return Err(TooLong);
            }
        }
        Ok(Flow::Continue)
    }

    /// Ends `self.line`; an empty line ends the event.
    fn end_line(&mut self, event: &mut impl FnMut(&[u8]) -> Flow) -> Flow {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        let flow = if line.is_empty() {
            self.dispatch(event)
        } else {
            self.field(&line);
            Flow::Continue
        };
        line.clear();
        self.line = line;
        flow
    }

    fn field(&mut self, line: &[u8]) {
        let Some(value) = data_value(line) else { return };
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
    }

    fn dispatch(&mut self, event: &mut impl FnMut(&[u8]) -> Flow) -> Flow {
        if !std::mem::take(&mut self.has_data) {
            return Flow::Continue;
        }
        let flow = event(&self.data);
        self.data.clear();
        flow
    }

    pub(super) fn has_rest(&self) -> bool {
        self.has_data || !self.line.is_empty()
    }

    /// Ends the body: passes the rest of an incomplete event to `tail`.
    pub(super) fn finish(&mut self, tail: &mut impl FnMut(&[u8])) {
        let mut none = |_: &[u8]| Flow::Continue;
        if !self.line.is_empty() {
            self.end_line(&mut none);
        }
        if self.has_data {
            tail(&self.data);
        }
    }
}

/// The value of a `data` field, if the line is one.
fn data_value(line: &[u8]) -> Option<&[u8]> {
    let value = line.strip_prefix(b"data")?;
    match value.first() {
        None => Some(value),
        Some(b':') => Some(value[1..].strip_prefix(b" ").unwrap_or(&value[1..])),
        Some(_) => None,
    }
}

/// The common case, without copying: one data line and its empty line. Returns the data and the bytes consumed.
fn whole_event(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let rest = bytes.strip_prefix(b"data:")?;
    let end = memchr2(b'\n', b'\r', rest)?;
    let blank = match &rest[end..] {
        [b'\n', b'\n', ..] => 2,
        [b'\r', b'\n', b'\r', b'\n', ..] => 4,
        _ => return None,
    };
    let data = &rest[..end];
    Some((data.strip_prefix(b" ").unwrap_or(data), bytes.len() - rest.len() + end + blank))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(reads: &[&[u8]]) -> (Vec<String>, Option<String>) {
        let mut splitter = Standard::default();
        let mut events = Vec::new();
        for read in reads {
            let mut event = |data: &[u8]| {
                events.push(String::from_utf8_lossy(data).into_owned());
                Flow::Continue
            };
            splitter.feed(read, &mut event).unwrap();
        }
        let mut tail = None;
        splitter.finish(&mut |data| tail = Some(String::from_utf8_lossy(data).into_owned()));
        (events, tail)
    }

    fn standard(text: &str) -> Vec<String> {
        split(&[text.as_bytes()]).0
    }

    #[test]
    fn reads_by_the_standard() {
        assert_eq!(standard("data: A\n\ndata: B\n\n"), ["A", "B"]);
        assert_eq!(standard("data:A\r\n\r\ndata: B\r\rdata:  C\n\n"), ["A", "B", " C"]);
        assert_eq!(standard("\u{feff}data: A\n\n"), ["A"]);
        assert_eq!(standard(": ping\n\nevent: x\nid: 1\nretry: 5\ndata: A\ndata: B\n\n"), ["A\nB"]);
        assert_eq!(standard("data\n\ndatax: no\n\n\n\n"), [""]);
        assert_eq!(standard("data: A\n"), [] as [&str; 0]);
    }

    #[test]
    fn keeps_an_unfinished_event_separate() {
        assert_eq!(split(&[b"data: A\n\ndata: [DONE]"]), (vec!["A".into()], Some("[DONE]".into())));
    }

    #[test]
    fn refuses_endless_events() {
        let mut splitter = Standard::default();
        let block = vec![b'x'; 1 << 20];
        let mut feed = || splitter.feed(&block, &mut |_| Flow::Continue);
        assert!((0..64).any(|_| feed().is_err()));
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just("data: {\"a\": 1}"),
            Just("data:"),
            Just("data"),
            Just("\n"),
            Just("\n\n"),
            Just("\r\n"),
            Just("\r"),
            Just(": ping"),
            Just("event: x"),
            Just("é大🙂"),
            Just(" "),
            Just("\u{feff}"),
            Just("[DONE]"),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(
            body in pieces(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            at.sort_unstable();
            at.push(body.len());
            let mut start = 0;
            let reads: Vec<&[u8]> = at.iter().map(|&end| &body[std::mem::replace(&mut start, end)..end]).collect();
            let bytewise: Vec<&[u8]> = body.chunks(1).collect();
            let whole = split(&[&body]);
            prop_assert_eq!(&split(&reads), &whole);
            prop_assert_eq!(&split(&bytewise), &whole);
        }
    }
}
