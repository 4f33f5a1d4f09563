//! Media sizes as flags have them.

use tacho_args::flag::{Kind, Reader};
use tacho_core::json::Value;
use tacho_workload::{Bucket, Buckets};

/// A Python dict of media sizes.
pub(crate) const BUCKETS: Kind = Kind::Custom(Reader { name: "_parse_mm_bucket_config", read: buckets });

/// Media sizes as an object, each key the tuple as Python prints it.
fn buckets(text: &str) -> Option<Value> {
    let buckets = Buckets::parse(text).ok()?;
    let entry = |(bucket, share): &(Bucket, f64)| {
        (format!("({}, {}, {})", bucket.height, bucket.width, bucket.frames), Value::Float(*share))
    };
    Some(Value::Dict(buckets.entries().iter().map(entry).collect()))
}
