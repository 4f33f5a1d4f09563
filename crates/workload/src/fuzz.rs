//! Fuzzes every file reader: an error or a value, never a panic, an abort or unbounded memory.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-workload --lib fuzz -- --nocapture --test-threads=1` tries a
//! million inputs of each kind on all cores.

use std::{io::Write, path::Path};

use tacho_testkit::{CASES, Counted, fuzz, fuzz_files, golden_path};

use crate::sources::{read_rows, saved};
use crate::{
    Buckets, RangeRatio, media::Rgb, media::audio::Audio, read_jsonl, sampling::literal, sources::card::configurations,
    sources::table::Table,
};

#[global_allocator]
static COUNTED: Counted = Counted;

const MAX_ROWS_READ: usize = 200;

fn golden(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(golden_path(&format!("data/{name}"))).unwrap()).collect()
}

fn files(target: &str, name: &str, good: &[Vec<u8>], read: impl Fn(&Path) + Sync) {
    let write = |directory: &Path, bytes: &[u8]| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        read(&path);
    };
    fuzz_files(target, good, CASES, |_| {}, write);
}

fn read_table(path: &Path) {
    let Ok(mut table) = Table::open(vec![path.to_owned()]) else { return };
    for row in 0..table.lens()[0].min(MAX_ROWS_READ) {
        let Ok(row) = table.row((0, row)) else { return };
        let _ = row.text("a").is_ok() || row.number("a").is_ok();
    }
}

fn tables(target: &str, name: &str, good: &[Vec<u8>]) {
    files(target, name, good, read_table);
}

const ROWS: &[u8] =
    b"{\"a\": \"x\", \"n\": 1.5e3, \"l\": [{\"b\": null}]}\n{\"a\": \"\\u00e9\\ud83d\\ude00\", \"n\": -7}\n";

#[test]
fn fuzz_json() {
    let list = br#"[{"a": "x", "c": {"d": [1, 2, true]}}, {"a": "y"}]"#.to_vec();
    tables("json", "t.json", &[ROWS.to_vec(), list, br#"{"data": [{"a": 1}, {"a": NaN}]}"#.to_vec()]);
    tables("jsonl", "t.jsonl", &[ROWS.to_vec(), golden(&["custom.jsonl"]).remove(0)]);
}

#[test]
fn fuzz_csv() {
    tables("csv", "t.csv", &[b"a,b\n\"x, \"\"y\"\"\",1\n,2\r\n".to_vec(), golden(&["burstgpt.csv"]).remove(0)]);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn fuzz_archives() {
    tables("gzip", "t.jsonl.gz", &[gzip(ROWS)]);
    tables("zstd", "t.jsonl.zst", &[zstd::encode_all(ROWS, 0).unwrap()]);
}

/// Checksums hide corrupted content from a reader that verifies them, so these files get correct checksums.
#[test]
fn fuzz_rows_in_archives() {
    files("rows in gzip", "t.jsonl.gz", &[ROWS.to_vec()], |path| {
        std::fs::write(path, gzip(&std::fs::read(path).unwrap())).unwrap();
        read_table(path);
    });
}

#[test]
fn fuzz_parquet() {
    let names = [
        "hf/AI-MO/aimo-validation-aime/train-00000-of-00001.parquet",
        "hf/Lin-Chen/MMStar/val-00000-of-00001.parquet",
        "hf/openai/gsm8k/main/test-00000-of-00001.parquet",
        "hf/vdaita/edit_5k_char/train-00000-of-00001.parquet",
    ];
    tables("parquet", "t.parquet", &golden(&names));
}

#[test]
fn fuzz_arrow() {
    use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use arrow_ipc::writer::{FileWriter, StreamWriter};
    let texts: ArrayRef = std::sync::Arc::new(StringArray::from(vec![Some("a"), None, Some("long text")]));
    let numbers: ArrayRef = std::sync::Arc::new(Int64Array::from(vec![1, 2, 3]));
    let batch = RecordBatch::try_from_iter(vec![("a", texts), ("n", numbers)]).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    stream.write(&batch).unwrap();
    stream.finish().unwrap();
    let mut file = FileWriter::try_new(Vec::new(), batch.schema_ref()).unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap();
    tables("arrow stream", "t.arrow", &[stream.into_inner().unwrap()]);
    tables("arrow file", "t.arrow", &[file.into_inner().unwrap()]);
}

#[test]
fn fuzz_images() {
    let mut good = golden(
        &["a.png", "gray.png", "palette.png", "rgba.png", "photo.jpg"]
            .map(|name| format!("images/{name}"))
            .each_ref()
            .map(String::as_str),
    );
    let mut file = Vec::new();
    image_webp::WebPEncoder::new(&mut file).encode(&[9; 45], 5, 3, image_webp::ColorType::Rgb8).unwrap();
    good.push(file);
    assert!(good.iter().all(|file| Rgb::decode(file).is_some()), "the seeds are images");
    let look = |bytes: &[u8]| {
        if let Some(image) = Rgb::decode(bytes) {
            assert_eq!(image.pixels.len(), image.width * image.height * 3);
        }
        let _ = Rgb::decode_as_stored(bytes);
    };
    fuzz("images", &good, look);
    good.truncate(4);
    fuzz("png with right sums", &good, |bytes| look(&with_right_sums(bytes)));
}

/// A PNG with correct chunk checksums, so that the content of its chunks is parsed.
fn with_right_sums(png: &[u8]) -> Vec<u8> {
    let mut png = png.to_vec();
    let mut at = 8;
    while let Some(length) = png.get(at..at + 4) {
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let Some(chunk) = png.get(at + 4..(at + 8).saturating_add(length)) else { break };
        let mut sum = flate2::Crc::new();
        sum.update(chunk);
        let end = at + 8 + length;
        if let Some(place) = png.get_mut(end..end + 4) {
            place.copy_from_slice(&sum.sum().to_be_bytes());
        }
        at = end + 4;
    }
    png
}

#[test]
fn fuzz_audio() {
    let names = ["audio/float.wav", "audio/pcm24.wav", "audio/stereo16k.wav", "audio/tone8k.wav", "audio/tone.flac"];
    fuzz("sounds", &golden(&names), |bytes| {
        if let Some(audio) = Audio::decode(bytes) {
            assert!(audio.rate > 0 && audio.channels > 0);
            let _ = (audio.to_media(), audio.to_chat_part());
        }
    });
}

#[test]
fn audio_with_a_false_header_is_rejected() {
    let good = golden(&["audio/tone8k.wav"]).remove(0);
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Audio::decode(&file)
    };
    let whole = with(40, &[0xff; 4]).expect("a length of the writer's own invention is the rest of the file");
    assert_eq!(Some(whole), Audio::decode(&good));
    assert_eq!(with(22, &[0, 0]), None, "no channels");
    assert_eq!(with(22, &[2, 0xff]), None, "more channels than there are ears");
    assert_eq!(with(24, &[0; 4]), None, "no rate");
    assert_eq!(with(34, &[0, 0]), None, "no bits");
    assert_eq!(with(16, &[0xff; 4]), None, "a chunk beyond the end");
}

#[test]
fn an_image_that_says_it_is_vast_is_refused_at_once() {
    let mut file = Vec::new();
    png::Encoder::new(&mut file, 60_000, 60_000).write_header().unwrap();
    assert_eq!(Rgb::decode(&file), None);
    let mut jpeg = golden(&["images/photo.jpg"]).remove(0);
    let frame = jpeg.windows(2).position(|mark| mark == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xff; 4]);
    assert_eq!(Rgb::decode(&jpeg), None);
}

#[test]
fn fuzz_texts() {
    let card = golden(&["hf/openai/gsm8k/README.md"]);
    fuzz("cards", &card, |bytes| drop(configurations(&String::from_utf8_lossy(bytes))));
    let literals = [&b"{(256, 256, 1): 0.5, (720, 1280, 16): 0.5}"[..], b"[[['a', 1e9], {}]]", b"{'image': 3}"];
    fuzz("literals", &literals, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (literal::parse(&text), Buckets::parse(&text).is_ok(), RangeRatio::parse(&text).is_ok());
    });
    let deep = "[".repeat(1_000_000);
    assert!(literal::parse(&deep).is_none());
}

#[test]
fn fuzz_saved() {
    let row = br#"{"index": 0, "prompt": "p", "prompt_len": 3, "expected_output_len": 5, "request_id": "b-0", "multi_modal_data": null, "media": null, "lora": null, "timestamp": 0.5, "chat_messages": [{"role": "user"}], "request_overrides": {"a": 1}, "planned_send_time": 0.25}"#;
    files("saved workloads", "w.jsonl", &[row.to_vec(), ROWS.to_vec()], |path| {
        let _ = (read_jsonl(path).is_ok(), read_rows(path).is_ok());
    });
    let state = br#"{"_data_files": [{"filename": "data-0.arrow"}]}"#.to_vec();
    files("saved datasets", "state.json", &[state], |path| {
        let _ = saved::files(path.parent().unwrap(), "train").is_ok();
    });
}

#[test]
fn fuzz_traces() {
    use crate::sessions::{Options, read};
    for ending in ["jsonl", "json", "csv"] {
        let good = traces(ending);
        assert!(!good.is_empty());
        files(&format!("traces ({ending})"), &format!("t.{ending}"), &good, |path| {
            let _ = read(path, None, &Options::default()).is_ok();
        });
    }
}

/// The small recorded traces with this extension.
fn traces(ending: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(golden_path("sessions")).unwrap().flatten().map(|entry| entry.path());
    let named = files.filter(|path| path.to_string_lossy().ends_with(&format!(".{ending}")));
    let good = named.filter(|path| !path.to_string_lossy().ends_with(".expected.json"));
    good.map(|path| std::fs::read(path).unwrap()).filter(|file| file.len() < 4_000).collect()
}

#[test]
fn fuzz_conversations() {
    use crate::sessions::{DumpSpec, convert_dump, read_conversations};
    let chat = br#"[{"id": "a", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
        {"id": 7, "messages": [{"role": "user", "content": "z"}, {"role": "assistant", "content": ""}]}]"#;
    let dump =
        br#"[{"id": "a_0", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"},
        {"from": "human", "value": "more"}, {"from": "gpt", "value": "that"}]}, {"id": "b", "conversations": []}]"#;
    files("conversations", "c.json", &[chat.to_vec(), dump.to_vec()], |path| {
        let _ = (read_conversations(path).is_ok(), convert_dump(path, &DumpSpec::default()).is_ok());
    });
}

#[test]
fn fuzz_settings_of_sessions() {
    use crate::sessions::{GeneratorConfig, Options, ThinkTime};
    let config = br#"{"filetype": "generate_conversations", "num_conversations": 4, "text_files": ["t.txt"],
        "print_stats": false, "prompt_input": {"num_turns": {"distribution": "uniform", "min": 2, "max": 8},
        "common_prefix_num_tokens": {"distribution": "constant", "value": 5},
        "prefix_num_tokens": {"distribution": "lognormal", "average": 40, "max": 100},
        "num_tokens": {"distribution": "zipf", "alpha": 1.5}},
        "prompt_output": {"num_tokens": {"distribution": "poisson", "alpha": 9}}}"#;
    let place = Path::new("g.json");
    let good = tacho_core::json::parse(std::str::from_utf8(config).unwrap()).unwrap();
    GeneratorConfig::read(place, good.as_dict().unwrap()).expect("the seed is a configuration");
    let seeds = [&config[..], b"exponential:2.5", b"1.5", b"uniform:0:3", b"block_size=16"];
    fuzz("settings of sessions", &seeds, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (ThinkTime::parse(&text).is_some(), Options::parse([&*text]).is_ok());
        if let Ok(tacho_core::json::Value::Dict(dict)) = tacho_core::json::parse(&text) {
            let _ = GeneratorConfig::read(place, &dict).is_ok();
        }
    });
}
