//! BurstGPT traces: lengths with times in seconds. Failed calls are kept and marked. Each row is sent at its recorded
//! time; with the option `sessions=true`, rows of one `Session ID` wait for each other.

use std::collections::HashMap;

use super::after;
use super::azure::Columns;
use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{History, Step, Trace, clean, from_s};
use crate::sessions::options::Options;
use crate::sessions::source::Source;

/// Reads the trace. Rows with invalid numbers are counted and skipped, as the published files contain some.
pub(crate) fn read(source: &Source, options: &Options) -> Result<Trace, TraceError> {
    let unit = options.choice("timestamp_unit", &[("ms", 1.0), ("s", 1000.0)], 1000.0)?;
    let table = Columns::of(source.single()?)?;
    let (time, input) = (table.column("Timestamp")?, table.column("Request tokens")?);
    let output = table.column("Response tokens")?;
    let sessions = options.switch("sessions", false)?;
    let (session, elapsed) = (table.find("Session ID").filter(|_| sessions), table.find("Elapsed time"));
    let mut trace = Trace::new(source.name(), Format::BurstGpt);
    trace.options.set("timestamp_unit", if unit == 1.0 { "ms" } else { "s" });
    let mut skipped: Vec<usize> = Vec::new();
    let mut turns: HashMap<String, (usize, usize)> = HashMap::new();
    let mut index = 0;
    for (line, fields) in table.records.rows() {
        let fields = &fields;
        let number = |column: usize| table.cell(fields, column).parse::<f64>().ok().filter(|number| number.is_finite());
        let count = |column: usize| number(column).filter(|number| *number >= 0.0 && number.fract() == 0.0);
        let (Some(at), Some(tokens), Some(answer)) = (number(time), count(input), count(output)) else {
            skipped.push(line);
            continue;
        };
        let named = session.map(|column| table.cell(fields, column)).filter(|name| !name.is_empty());
        let name = named.map_or_else(|| format!("row{index}"), str::to_owned);
        let (turn, last) = turns.get(&name).map_or((0, None), |(turn, last)| (turn + 1, Some(*last)));
        let mut step = Step::new(name.as_str(), turn);
        step.parents = after(last, 0.0);
        if last.is_some() {
            step.history = History::Recorded;
        }
        step.at_ms = Some(clean(at * unit));
        step.input_tokens = Some(tokens as u64);
        step.output_tokens = Some(answer as u64);
        if answer == 0.0 {
            step.notes.failed = true;
        }
        if let Some(took) = elapsed.and_then(number) {
            step.notes.recorded_ms = Some(from_s(took));
        }
        let place = trace.push(step);
        if named.is_some() {
            turns.insert(name, (turn, place));
        }
        index += 1;
    }
    if !sessions && table.find("Session ID").is_some() {
        trace.notices.push("rows are sent at their recorded times; --sessions-option sessions=true makes conversations of rows with the same Session ID".to_owned());
    }
    if let Some(first) = skipped.first() {
        trace.notices.push(format!("{} rows without numbers are skipped, the first on line {first}", skipped.len()));
    }
    if trace.steps.is_empty() {
        return Err(source.empty());
    }
    trace.start_at_the_earliest();
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::sessions::source::Document;

    const ROWS: &str = "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n\
                        5,a,1,ChatGPT,10,20,30,Conversation log\n\
                        6,a,1,ChatGPT,40,20,60,Conversation log\n";

    fn parents(options: &[&str]) -> Vec<usize> {
        let path = Path::new("t.csv");
        let documents = vec![Document::parse(path, ROWS).unwrap()];
        let source = Source { path: path.to_path_buf(), documents };
        let trace = read(&source, &Options::parse(options.iter().copied()).unwrap()).unwrap();
        trace.steps.iter().map(|step| step.parents.len()).collect()
    }

    #[test]
    fn rows_wait_for_each_other_only_on_request() {
        assert_eq!(parents(&[]), [0, 0]);
        assert_eq!(parents(&["sessions=true"]), [0, 1]);
    }
}
