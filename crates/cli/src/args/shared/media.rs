//! Parser for media sizes.

use tacho_args::flag::{Kind, Reader};
use tacho_core::json::Value;
use tacho_workload::{Bucket, Buckets};

/// A Python dict of media sizes.
pub(crate) const BUCKETS: Kind = Kind::Custom(Reader { name: "_parse_mm_bucket_config", read: buckets });

/// Parses media sizes to an object; each key is the tuple in Python's notation.
fn buckets(text: &str) -> Option<Value> {
    let buckets = Buckets::parse(text).ok()?;
    let entry = |(bucket, share): &(Bucket, f64)| {
        (format!("({}, {}, {})", bucket.height, bucket.width, bucket.frames), Value::Float(*share))
    };
    Some(Value::Dict(buckets.entries().iter().map(entry).collect()))
}
