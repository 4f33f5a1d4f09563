//! Invalid frames of an engine's process: an error or a value, never a panic, an abort or unbounded memory.

use tacho_core::json::{Dict, Json, Value, parse};
use tacho_testkit::{Counted, fuzz};

use super::engine::{Generated, Loaded};
use super::protocol::{call, read_frame, skip_to_magic, stage_times, write_frame};

#[global_allocator]
static COUNTED: Counted = Counted;

#[test]
fn fuzz_frames() {
    let result = r#"{"seconds": 1.5, "prompt_tokens": 3, "output_tokens": 4, "finished": 1, "stages": {"a": [0.5]}}"#;
    let mut good = b"INFO loading\n".to_vec();
    write_frame(&mut good, &call(1, "generate", Dict::new())).unwrap();
    let mut reply = good.clone();
    write_frame(&mut reply, &parse(result).unwrap()).unwrap();
    fuzz("frames of engines", &[good, reply], |bytes| {
        let mut source = bytes;
        let _ = skip_to_magic(&mut &*source);
        while let Ok(Some(value)) = read_frame(&mut source) {
            inspect(&value);
        }
    });
}

fn inspect(value: &Value) {
    let _ = (Loaded::from_json(value).is_ok(), Generated::from_json(value).is_ok(), stage_times(value).is_ok());
}
