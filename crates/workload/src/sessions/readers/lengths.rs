//! Traces of lengths and times: Azure's and BurstGPT's tables, and GuideLLM's minimal rows.

use super::*;
use crate::sources::csv::Table;

/// Azure traces: timestamps at a resolution of 100 ns. The earliest is the start.
pub(crate) fn azure(source: &Source, _: &Options) -> Result<Trace> {
    let table = Columns::of(source.single()?)?;
    let [time, input, output] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"].map(|name| table.column(name));
    let (time, input, output) = (time?, input?, output?);
    let mut trace = source.trace();
    let mut times = Vec::new();
    for (line, fields) in table.records.rows() {
        let nanos = nanoseconds(table.cell(&fields, time));
        let wrong = || table.wrong(line, time, "must be a time such as 2023-11-16 18:15:46.6805900");
        times.push(nanos.ok_or_else(wrong)?.div_euclid(100));
        let mut step = Step::new(format!("row{}", trace.steps.len()), 0);
        step.input_tokens = Some(table.count(line, &fields, input)?);
        step.output_tokens = Some(table.count(line, &fields, output)?);
        trace.push(step);
    }
    let earliest = times.iter().copied().min().unwrap_or(0);
    for (step, ticks) in trace.steps.iter_mut().zip(times) {
        step.at_ms = Some((ticks - earliest) as f64 / 1e4);
    }
    Ok(trace)
}

/// BurstGPT traces: times in seconds. Failed calls are kept and marked; rows with invalid numbers, of which the published
/// files contain some, are counted and skipped. Each row is sent at its recorded time; with the option `sessions=true`,
/// rows of one `Session ID` wait for each other.
pub(crate) fn burstgpt(source: &Source, options: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    let unit = timestamp_unit(options, 1000.0, &mut trace)?;
    let table = Columns::of(source.single()?)?;
    let (time, input) = (table.column("Timestamp")?, table.column("Request tokens")?);
    let output = table.column("Response tokens")?;
    let sessions = options.switch("sessions", false)?;
    let (session, elapsed) = (table.find("Session ID").filter(|_| sessions), table.find("Elapsed time"));
    let mut skipped: Vec<usize> = Vec::new();
    let mut turns: HashMap<String, (usize, usize)> = HashMap::new();
    for (line, fields) in table.records.rows() {
        let number =
            |column: usize| table.cell(&fields, column).parse::<f64>().ok().filter(|number| number.is_finite());
        let count = |column: usize| number(column).filter(|number| *number >= 0.0 && number.fract() == 0.0);
        let (Some(at), Some(tokens), Some(response)) = (number(time), count(input), count(output)) else {
            skipped.push(line);
            continue;
        };
        let named = session.map(|column| table.cell(&fields, column)).filter(|name| !name.is_empty());
        let name = named.map_or_else(|| format!("row{}", trace.steps.len()), str::to_owned);
        let (turn, last) = turns.get(&name).map_or((0, None), |(turn, last)| (turn + 1, Some(*last)));
        let mut step = Step::new(name.as_str(), turn);
        step.parents = after(last, 0.0);
        if last.is_some() {
            step.history = History::Recorded;
        }
        step.at_ms = Some(clean(at * unit));
        step.input_tokens = Some(tokens as u64);
        step.output_tokens = Some(response as u64);
        if response == 0.0 {
            step.notes.failed = true;
        }
        if let Some(took) = elapsed.and_then(number) {
            step.notes.recorded_ms = Some(from_s(took));
        }
        let position = trace.push(step);
        if named.is_some() {
            turns.insert(name, (turn, position));
        }
    }
    if !sessions && table.find("Session ID").is_some() {
        trace.notices.push("rows are sent at their recorded times; --sessions-option sessions=true makes conversations of rows with the same Session ID".to_owned());
    }
    if let Some(first) = skipped.first() {
        trace.notices.push(format!("{} rows without numbers are skipped, the first on line {first}", skipped.len()));
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// GuideLLM's minimal trace: times in seconds.
pub(crate) fn trace_synthetic(source: &Source, _: &Options) -> Result<Trace> {
    let mut trace = source.trace();
    trace.options.set("timestamp_unit", "s");
    for (index, row) in source.rows()?.iter().enumerate() {
        let mut step = Step::new(format!("row{index}"), 0);
        step.at_ms = Some(from_s(row.need("timestamp", Row::number)?));
        step.input_tokens = Some(row.need("input_length", Row::positive)?);
        step.output_tokens = Some(row.need("output_length", Row::count)?);
        step.notes.recorded_ms = row.span("duration")?.map(from_s);
        trace.push(step);
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

/// A table with a header, and errors for its cells.
struct Columns<'s> {
    document: &'s Document,
    records: &'s Table,
}

impl<'s> Columns<'s> {
    fn of(document: &'s Document) -> Result<Self> {
        let location = Location::file(&document.path);
        let problem = || TraceError::Graph { location, problem: "must be a table: a .csv file with a header".into() };
        Ok(Columns { document, records: document.table.as_ref().ok_or_else(problem)? })
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.records.header.iter().position(|column| column.trim() == name)
    }

    fn column(&self, name: &str) -> Result<usize> {
        self.find(name).ok_or_else(|| self.field(1, name, "the header has no such column"))
    }

    fn cell<'f>(&self, fields: &'f [String], column: usize) -> &'f str {
        fields.get(column).map_or("", |field| field.trim())
    }

    fn count(&self, line: usize, fields: &[String], column: usize) -> Result<u64> {
        let count = self.cell(fields, column).parse();
        count.map_err(|_| self.wrong(line, column, "must be a whole number that is not negative"))
    }

    fn wrong(&self, line: usize, column: usize, problem: &str) -> TraceError {
        self.field(line, self.records.header.get(column).map_or("", String::as_str), problem)
    }

    fn field(&self, line: usize, field: &str, problem: &str) -> TraceError {
        let location = Location { path: self.document.path.clone(), line: Some(line) };
        TraceError::Field { location, field: field.to_owned(), problem: problem.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const ROWS: &str = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                        5,a,1,ChatGPT,10,20,30,Conversation log\n\
                        6,a,1,ChatGPT,40,20,60,Conversation log\n";

    #[test]
    fn rows_wait_for_each_other_only_on_request() {
        let parents = |options: &[&str]| {
            let path = Path::new("t.csv");
            let documents = vec![Document::parse(path, ROWS).unwrap()];
            let source = Source { path: path.to_path_buf(), documents };
            let trace = burstgpt(&source, &Options::parse(options.iter().copied()).unwrap()).unwrap();
            trace.steps.iter().map(|step| step.parents.len()).collect::<Vec<_>>()
        };
        assert_eq!(parents(&[]), [0, 0]);
        assert_eq!(parents(&["sessions=true"]), [0, 1]);
    }
}
