//! Azure traces: lengths with timestamps at a resolution of 100 ns. The earliest is the start.

use jiff::civil::DateTime;

use crate::sessions::error::{Place, TraceError};
use crate::sessions::kind::Format;
use crate::sessions::model::{Step, Trace};
use crate::sessions::options::Options;
use crate::sessions::source::{Document, Source};
use crate::sources::csv::Table;

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let table = Columns::of(source.single()?)?;
    let columns = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"].map(|name| table.column(name));
    let [time, input, output] = columns;
    let (time, input, output) = (time?, input?, output?);
    let mut trace = Trace::new(source.name(), Format::Azure);
    let mut times = Vec::new();
    for (line, fields) in table.records.rows() {
        let ticks = ticks(table.cell(&fields, time));
        let wrong = || table.wrong(line, time, "must be a time such as 2023-11-16 18:15:46.6805900");
        times.push(ticks.ok_or_else(wrong)?);
        let mut step = Step::new(format!("row{}", trace.steps.len()), 0);
        step.input_tokens = Some(table.count(line, &fields, input)?);
        step.output_tokens = Some(table.count(line, &fields, output)?);
        trace.push(step);
    }
    let earliest = times.iter().copied().min().ok_or_else(|| source.empty())?;
    for (step, ticks) in trace.steps.iter_mut().zip(times) {
        step.at_ms = Some((ticks - earliest) as f64 / 1e4);
    }
    Ok(trace)
}

/// Parses a timestamp to units of 100 ns; without a time zone it is UTC.
fn ticks(text: &str) -> Option<i128> {
    let nanos = super::otel::nanoseconds(text).or_else(|| {
        let civil: DateTime = text.trim().parse().ok()?;
        Some(civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_nanosecond())
    })?;
    Some(nanos.div_euclid(100))
}

/// A table with a header, and errors for its cells.
pub(crate) struct Columns<'s> {
    document: &'s Document,
    pub(crate) records: &'s Table,
}

impl<'s> Columns<'s> {
    pub(crate) fn of(document: &'s Document) -> Result<Self, TraceError> {
        let place = Place::file(&document.path);
        let problem = || TraceError::Graph { place, problem: "must be a table: a .csv file with a header".into() };
        Ok(Columns { document, records: document.table.as_ref().ok_or_else(problem)? })
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.records.header.iter().position(|column| column.trim() == name)
    }

    pub(crate) fn column(&self, name: &'static str) -> Result<usize, TraceError> {
        let place = Place { path: self.document.path.clone(), line: Some(1) };
        let missing =
            || TraceError::Field { place, field: name.to_owned(), problem: "the header has no such column".into() };
        self.find(name).ok_or_else(missing)
    }

    pub(crate) fn cell<'f>(&self, fields: &'f [String], column: usize) -> &'f str {
        fields.get(column).map_or("", |field| field.trim())
    }

    pub(crate) fn count(&self, line: usize, fields: &[String], column: usize) -> Result<u64, TraceError> {
        let count = self.cell(fields, column).parse();
        count.map_err(|_| self.wrong(line, column, "must be a whole number that is not negative"))
    }

    pub(crate) fn wrong(&self, line: usize, column: usize, problem: &str) -> TraceError {
        let place = Place { path: self.document.path.clone(), line: Some(line) };
        let field = self.records.header.get(column).cloned().unwrap_or_default();
        TraceError::Field { place, field, problem: problem.to_owned() }
    }
}
