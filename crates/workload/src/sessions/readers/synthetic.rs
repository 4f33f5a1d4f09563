//! GuideLLM's minimal trace: lengths with times in seconds.

use crate::sessions::error::TraceError;
use crate::sessions::kind::Format;
use crate::sessions::model::{Step, Trace, from_s};
use crate::sessions::options::Options;
use crate::sessions::source::Source;

pub(crate) fn read(source: &Source, _: &Options) -> Result<Trace, TraceError> {
    let mut trace = Trace::new(source.name(), Format::TraceSynthetic);
    trace.options.set("timestamp_unit", "s");
    for (index, row) in source.rows()?.iter().enumerate() {
        let mut step = Step::new(format!("row{index}"), 0);
        step.at_ms = Some(from_s(row.need("timestamp", row.number("timestamp")?)?));
        step.input_tokens = Some(row.need("input_length", row.positive("input_length")?)?);
        step.output_tokens = Some(row.need("output_length", row.count("output_length")?)?);
        step.notes.recorded_ms = row.span("duration")?.map(from_s);
        trace.push(step);
    }
    trace.start_at_the_earliest();
    Ok(trace)
}
