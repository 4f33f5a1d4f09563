//! Columns to rows. Columns are found by name; nullable ones may be missing.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use tacho_core::{AudioFormat, Drafts, FailureKind, Labels, Media, Observation, Outcome, Timestamp, Usage};

use super::source_of;
use crate::columns::COLUMNS;
use crate::{Origin, RequestInfo, Row};

/// The rows of a batch; an error if it is invalid.
pub(crate) fn rows(batch: &RecordBatch, origin: Origin) -> Result<Vec<Row>, String> {
    let columns = Columns { batch };
    columns.check()?;
    let first = Cells { columns: &columns, at: 0, origin, prefix: None };
    let prefix = if batch.num_rows() > 0 { first.text("request_id_prefix") } else { None };
    (0..batch.num_rows()).map(|at| Cells { columns: &columns, at, origin, prefix }.row()).collect()
}

struct Columns<'a> {
    batch: &'a RecordBatch,
}

impl Columns<'_> {
    /// Checks that every column has its type, and that no required column is missing or has nulls.
    fn check(&self) -> Result<(), String> {
        for column in COLUMNS {
            let name = column.name;
            match self.get(name) {
                None if column.nullable => {}
                None => return Err(format!("column {name} is missing")),
                Some(found) if *found.data_type() != column.kind.data_type() => {
                    return Err(format!("column {name} has type {}", found.data_type()));
                }
                Some(found) if !column.nullable && found.null_count() > 0 => {
                    return Err(format!("column {name} has holes"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn get(&self, name: &str) -> Option<&ArrayRef> {
        self.batch.column_by_name(name)
    }
}

/// One row of a validated batch.
struct Cells<'a> {
    columns: &'a Columns<'a>,
    at: usize,
    origin: Origin,
    /// Prefix of omitted IDs.
    prefix: Option<&'a str>,
}

impl<'a> Cells<'a> {
    fn row(&self) -> Result<Row, String> {
        let scheduled = self.after(self.origin.timestamp, "scheduled_ns");
        let dispatched = self.after(scheduled, "dispatch_lag_ns");
        let sent = self.after(dispatched, "slot_wait_ns");
        let chunks = self.timestamps(sent);
        let first_event = chunks.first().copied().unwrap_or(sent);
        let observation = Observation {
            index: usize::try_from(self.int("index")).map_err(|_| "an index is negative")?,
            scheduled,
            dispatched,
            sent,
            connect_ns: self.int("connect_ns") as u64,
            input_end: self.maybe_after(sent, "input_end_ns"),
            first_byte: self.maybe_after(sent, "first_byte_ns"),
            first_content: self.maybe_after(first_event, "content_lag_ns"),
            text_ends: self.sums("event_bytes"),
            token_counts: self.read_token_counts()?,
            token_count_source: self.token_count_source()?,
            first_answer: self.maybe_after(first_event, "answer_lag_ns"),
            reasoning_tokens: self.maybe_int("reasoning_tokens").map(|tokens| tokens as u64),
            retries: self.int("retries") as u32,
            coalesced: self.int("coalesced") as u32,
            done: self.after(chunks.last().copied().unwrap_or(sent), "rest_ns"),
            chunks,
            outcome: self.outcome()?,
            text: self.generated(),
            usage: Usage {
                prompt_tokens: self.maybe_int("prompt_tokens").map(|tokens| tokens as u64),
                completion_tokens: self.maybe_int("completion_tokens").map(|tokens| tokens as u64),
                cached_tokens: self.maybe_int("cached_tokens").map(|tokens| tokens as u64),
                impossible: self.maybe_int("impossible_usage").is_some(),
                drafts: self.drafts(),
            },
            media: self.media(),
            reply: None,
            // Rows are also read alone, where the request is known: from ranks, and from disk.
            labels: self.labels()?,
        };
        Ok(Row { request: self.request()?, observation })
    }

    fn drafts(&self) -> Option<Drafts> {
        let count = |name: &str| self.maybe_int(name).map(|count| count as u32);
        Some(Drafts {
            steps: count("draft_steps"),
            tokens: count("draft_tokens")?,
            accepted: count("accepted_tokens")?,
        })
    }

    fn request(&self) -> Result<RequestInfo, String> {
        Ok(RequestInfo {
            prompt_len: self.int("prompt_len") as u64,
            output_len: self.int("output_len"),
            input_sequences: self.int("input_sequences") as u64,
            audio_seconds: self
                .cell("audio_seconds")
                .map_or(0.0, |column| column.as_primitive::<Float64Type>().value(self.at)),
            lora: self.text("lora").map(str::to_owned),
            request_id: self.request_id(),
            labels: self.labels()?,
        })
    }

    fn labels(&self) -> Result<Labels, String> {
        let text = self.text("labels");
        text.map_or(Some(Labels::NONE), Labels::from_json).ok_or_else(|| "labels are not a JSON object".into())
    }

    fn request_id(&self) -> Option<String> {
        let stored = self.text("request_id").map(str::to_owned);
        stored.or_else(|| Some(format!("{}{}", self.prefix?, self.int("index"))))
    }

    /// The column, if this row has a value in it.
    fn cell(&self, name: &str) -> Option<&'a ArrayRef> {
        self.columns.get(name).filter(|column| column.is_valid(self.at))
    }

    fn maybe_int(&self, name: &str) -> Option<i64> {
        self.cell(name).map(|column| column.as_primitive::<Int64Type>().value(self.at))
    }

    fn int(&self, name: &str) -> i64 {
        self.maybe_int(name).unwrap_or_default()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.cell(name).map(|column| column.as_string::<i32>().value(self.at))
    }

    fn maybe_after(&self, earlier: Timestamp, name: &str) -> Option<Timestamp> {
        self.maybe_int(name).map(|nanos| Timestamp(earlier.0.wrapping_add(nanos as u64)))
    }

    fn after(&self, earlier: Timestamp, name: &str) -> Timestamp {
        self.maybe_after(earlier, name).unwrap_or_default()
    }

    fn list<T: ArrowPrimitiveType>(&self, name: &str) -> Vec<T::Native> {
        let list = self.cell(name).map(|column| column.as_list::<i32>().value(self.at));
        list.map_or_else(Vec::new, |list| list.as_primitive::<T>().values().to_vec())
    }

    fn timestamps(&self, sent: Timestamp) -> Vec<Timestamp> {
        let mut before = sent.0;
        let gaps = self.list::<Int64Type>("token_gaps_ns").into_iter();
        gaps.map(|gap| {
            before = before.wrapping_add(gap as u64);
            Timestamp(before)
        })
        .collect()
    }

    fn sums(&self, name: &str) -> Vec<u32> {
        let mut sum = 0u32;
        let steps = self.list::<Int32Type>(name).into_iter();
        steps
            .map(|step| {
                sum = sum.wrapping_add(step as u32);
                sum
            })
            .collect()
    }

    fn read_token_counts(&self) -> Result<Vec<(u32, u32)>, String> {
        let (events, tokens) = (self.sums("mark_events"), self.sums("mark_tokens"));
        if events.len() != tokens.len() {
            return Err("mark_events and mark_tokens are not equally long".into());
        }
        Ok(events.into_iter().zip(tokens).collect())
    }

    fn token_count_source(&self) -> Result<Option<tacho_core::TokenCountSource>, String> {
        let named = |name| source_of(name).ok_or_else(|| format!("mark_source {name:?} is not known"));
        self.text("mark_source").map(named).transpose()
    }

    fn media(&self) -> Option<Media> {
        let small = |name: &str| self.maybe_int(name).and_then(|value| u32::try_from(value).ok());
        if let Some(count) = small("images") {
            return Some(Media::Images(count));
        }
        let rate = small("audio_rate")?;
        let frame_bytes = small("audio_frame_bytes").and_then(|bytes| u16::try_from(bytes).ok());
        let format = frame_bytes.filter(|bytes| rate > 0 && *bytes > 0);
        Some(Media::audio(format.map(|frame_bytes| AudioFormat { rate, frame_bytes })))
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let Some(name) = self.text("failure") else { return Ok(Outcome::Complete) };
        let status = self.int("http_status") as u16;
        let kind = FailureKind::from_name(name, status).ok_or_else(|| format!("failure {name:?} is not known"))?;
        Ok(Outcome::failed(kind, self.text("error").unwrap_or_default()))
    }

    fn generated(&self) -> Vec<u8> {
        match self.cell("text_wtf8") {
            Some(column) => column.as_binary::<i32>().value(self.at).to_vec(),
            None => self.text("text").unwrap_or_default().as_bytes().to_vec(),
        }
    }
}
