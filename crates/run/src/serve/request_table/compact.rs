//! Compact storage of request properties: most requests differ only in their lengths.

use std::collections::HashMap;

use tacho_rowlog::RequestInfo;

/// Properties of requests in order: 8 bytes for one that differs from the first only in its lengths, more for others.
#[derive(Debug, Default)]
pub(crate) struct Compact {
    /// Prompt tokens, and tokens to generate.
    lens: Vec<(u32, u32)>,
    /// The other properties of the first request; its id without the number.
    like: RequestInfo,
    others: HashMap<usize, RequestInfo>,
}

impl Compact {
    pub(crate) fn push(&mut self, request: RequestInfo) {
        let position = self.lens.len();
        if position == 0 {
            let prefix = request.request_id.as_deref().map(|id| id.strip_suffix('0').unwrap_or(id).to_owned());
            self.like = RequestInfo { request_id: prefix, prompt_len: 0, output_len: 0, ..request.clone() };
        }
        let lens = u32::try_from(request.prompt_len).ok().zip(u32::try_from(request.output_len).ok());
        self.lens.push(lens.unwrap_or_default());
        if self.alike(position).as_ref() != Some(&request) {
            self.others.insert(position, request);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lens.len()
    }

    pub(crate) fn get(&self, position: usize) -> Option<RequestInfo> {
        self.others.get(&position).cloned().or_else(|| self.alike(position))
    }

    fn alike(&self, position: usize) -> Option<RequestInfo> {
        let &(prompt_len, output_len) = self.lens.get(position)?;
        let request_id = self.like.request_id.as_ref().map(|prefix| format!("{prefix}{position}"));
        let (prompt_len, output_len) = (u64::from(prompt_len), i64::from(output_len));
        Some(RequestInfo { prompt_len, output_len, request_id, ..self.like.clone() })
    }
}

impl Extend<RequestInfo> for Compact {
    fn extend<T: IntoIterator<Item = RequestInfo>>(&mut self, more: T) {
        more.into_iter().for_each(|request| self.push(request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(id: Option<&str>, prompt_len: u64, output_len: i64) -> RequestInfo {
        RequestInfo {
            prompt_len,
            output_len,
            input_sequences: 1,
            request_id: id.map(str::to_owned),
            ..RequestInfo::default()
        }
    }

    #[test]
    fn everything_comes_back_and_most_takes_little_space() {
        let mut all: Vec<RequestInfo> = (0..20).map(|at| of(Some(&format!("bench-{at}")), at, 7)).collect();
        all.push(of(Some("bench-020"), 1, 1));
        all.push(of(None, 1, 1));
        all.push(of(Some("bench-22"), u64::MAX, -5));
        all.push(RequestInfo { lora: Some("a".into()), ..of(Some("bench-23"), 1, 1) });
        all.push(RequestInfo { audio_seconds: 0.5, input_sequences: 3, ..of(Some("bench-24"), 1, 1) });
        let mut known = Compact::default();
        known.extend(all.clone());
        assert_eq!((0..known.len()).filter_map(|position| known.get(position)).collect::<Vec<_>>(), all);
        assert_eq!((known.len(), known.others.len(), known.get(25)), (25, 5, None));
    }

    #[test]
    fn ids_of_any_kind_come_back() {
        for ids in [[None, None], [Some("x"), Some("y")], [Some("0"), Some("1")], [Some(""), Some("1")]] {
            let all = ids.map(|id| of(id, 1, 2));
            let mut known = Compact::default();
            known.extend(all.clone());
            assert_eq!([known.get(0), known.get(1)], all.map(Some));
        }
    }
}
