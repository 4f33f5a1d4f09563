//! Lossless conversion between rows and batches of columns.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, PrimitiveBuilder};
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, Float64Array, Int64Array, RecordBatch, StringArray, cast::AsArray};
use arrow_schema::{ArrowError, SchemaRef};
use tacho_core::{Media, Observation, RequestInfo, Timestamp};

use crate::columns::{Access, COLUMNS, Column, Context, Origin};

/// One row: the request and its observation.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub request: RequestInfo,
    pub observation: Observation,
}

type Parts<'a> = (&'a RequestInfo, &'a Observation);

/// The columns of `rows`, in the order of the table.
pub(crate) fn batch(schema: SchemaRef, origin: Origin, rows: &[Parts<'_>]) -> Result<RecordBatch, ArrowError> {
    let cx = Context { origin, prefix: prefix(rows), at: 0 };
    RecordBatch::try_new(schema, COLUMNS.iter().map(|column| column.array(cx, rows)).collect())
}

/// The prefix before the number in the first ID; `None` if a request has no ID, which would look like an omitted one.
fn prefix<'a>(rows: &[Parts<'a>]) -> Option<&'a str> {
    let (request, row) = rows.first().filter(|_| rows.iter().all(|(request, _)| request.request_id.is_some()))?;
    request.request_id.as_deref()?.strip_suffix(&row.index.to_string())
}

/// The rows of a batch; an error if it is invalid. Columns are found by name; nullable ones may be missing.
pub(crate) fn rows(batch: &RecordBatch, origin: Origin) -> Result<Vec<Row>, String> {
    let observation = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
    let mut rows = vec![Row { request: RequestInfo::default(), observation }; batch.num_rows()];
    for column in COLUMNS {
        match batch.column_by_name(column.name) {
            None if column.nullable() => {}
            None => return Err(format!("column {} is missing", column.name)),
            Some(found) => column.fill(Context { origin, prefix: None, at: 0 }, found, &mut rows)?,
        }
    }
    let prefix = batch.column_by_name("request_id_prefix").filter(|column| !column.is_empty() && column.is_valid(0));
    let prefix = prefix.map(|column| column.as_string::<i32>().value(0));
    for Row { request, observation: row } in &mut rows {
        if let Some(Media::Audio { rate: 0, .. } | Media::Audio { frame_bytes: 0, .. }) = row.media {
            row.media = Some(Media::UnknownAudio);
        }
        if request.request_id.is_none() {
            request.request_id = prefix.map(|prefix| format!("{prefix}{}", row.index));
        }
    }
    Ok(rows)
}

impl Column {
    fn array(&self, cx: Context<'_>, rows: &[Parts<'_>]) -> ArrayRef {
        let rows = || rows.iter().enumerate().map(|(at, (request, row))| (Context { at, ..cx }, *request, *row));
        match self.access {
            Access::Int(get, _) => Arc::new(rows().map(|(cx, of, row)| get(&cx, of, row)).collect::<Int64Array>()),
            Access::MaybeInt(get, _) => Arc::new(rows().map(|(cx, of, row)| get(&cx, of, row)).collect::<Int64Array>()),
            Access::Float(get, _) => Arc::new(rows().map(|(cx, of, row)| get(&cx, of, row)).collect::<Float64Array>()),
            Access::Text(get, _) => Arc::new(rows().map(|(cx, of, row)| get(&cx, of, row)).collect::<StringArray>()),
            Access::Bytes(get, _) => Arc::new(rows().map(|(cx, of, row)| get(&cx, of, row)).collect::<BinaryArray>()),
            Access::Ints(append, _) => list(rows(), |(cx, of, row), out| append(&cx, of, row, out)),
            Access::SmallInts(append, _) => list(rows(), |(cx, of, row), out| append(&cx, of, row, out)),
        }
    }

    /// Puts the values of a column into rows.
    fn fill(&self, cx: Context<'_>, column: &ArrayRef, rows: &mut [Row]) -> Result<(), String> {
        let name = self.name;
        if *column.data_type() != self.data_type() {
            return Err(format!("column {name} has type {}", column.data_type()));
        }
        if !self.nullable() && column.null_count() > 0 {
            return Err(format!("column {name} has holes"));
        }
        let rows = rows.iter_mut().enumerate().filter(|(at, _)| column.is_valid(*at));
        for (at, Row { request, observation: row }) in rows {
            match self.access {
                Access::Int(_, set) | Access::MaybeInt(_, set) => {
                    set(&cx, request, row, column.as_primitive::<Int64Type>().value(at))?;
                }
                Access::Float(_, set) => set(&cx, request, row, column.as_primitive::<Float64Type>().value(at))?,
                Access::Text(_, set) => set(&cx, request, row, column.as_string::<i32>().value(at))?,
                Access::Bytes(_, set) => set(&cx, request, row, column.as_binary::<i32>().value(at))?,
                Access::Ints(_, set) => {
                    let list = column.as_list::<i32>().value(at);
                    set(&cx, request, row, list.as_primitive::<Int64Type>().values())?;
                }
                Access::SmallInts(_, set) => {
                    let list = column.as_list::<i32>().value(at);
                    set(&cx, request, row, list.as_primitive::<Int32Type>().values())?;
                }
            }
        }
        Ok(())
    }
}

fn list<R, T: ArrowPrimitiveType>(
    rows: impl Iterator<Item = R>,
    append: impl Fn(R, &mut PrimitiveBuilder<T>),
) -> ArrayRef {
    let mut lists = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for row in rows {
        append(row, lists.values());
        lists.append(true);
    }
    Arc::new(lists.finish())
}
