//! Every reader of files against broken ones: an error or a value, never a panic, an abort or memory without end.
//! `TACHO_FUZZ_COUNT=1000000 cargo test --release -p tacho-workload fuzz` tries a million of each kind; under
//! `ulimit -v` memory is held too.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tacho_testkit::{fuzz, golden_path};

use crate::literal;
use crate::media::audio::Sound;
use crate::media::image::Rgb;
use crate::sources::card::configurations;
use crate::sources::table::Table;
use crate::sources::{read_rows, saved};
use crate::{Buckets, RangeRatio, read_jsonl};

/// Inputs of each kind in an ordinary run.
const FEW: u64 = 400;

fn golden(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(golden_path(&format!("data/{name}"))).unwrap()).collect()
}

/// Reads every row of a file of that name.
fn read_table(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    let Ok(mut table) = Table::open(vec![path]) else { return };
    for row in 0..table.lens()[0].min(10_000) {
        let Ok(row) = table.row((0, row)) else { return };
        let _ = row.text("a").is_ok() || row.number("a").is_ok();
    }
}

fn tables(name: &str, good: &[Vec<u8>]) {
    let folder = tempfile::tempdir().unwrap();
    fuzz(good, FEW, |bytes| read_table(folder.path(), name, bytes));
}

const ROWS: &[u8] =
    b"{\"a\": \"x\", \"n\": 1.5e3, \"l\": [{\"b\": null}]}\n{\"a\": \"\\u00e9\\ud83d\\ude00\", \"n\": -7}\n";

#[test]
fn fuzz_json() {
    let list = br#"[{"a": "x", "c": {"d": [1, 2, true]}}, {"a": "y"}]"#.to_vec();
    tables("t.json", &[ROWS.to_vec(), list, br#"{"data": [{"a": 1}, {"a": NaN}]}"#.to_vec()]);
    tables("t.jsonl", &[ROWS.to_vec(), golden(&["custom.jsonl"]).remove(0)]);
}

#[test]
fn fuzz_csv() {
    tables("t.csv", &[b"a,b\n\"x, \"\"y\"\"\",1\n,2\r\n".to_vec(), golden(&["burstgpt.csv"]).remove(0)]);
}

#[test]
fn fuzz_archives() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(ROWS).unwrap();
    tables("t.jsonl.gz", &[gzip.finish().unwrap()]);
    tables("t.jsonl.zst", &[zstd::encode_all(ROWS, 0).unwrap()]);
}

#[test]
fn fuzz_parquet() {
    let names = [
        "hf/AI-MO/aimo-validation-aime/train-00000-of-00001.parquet",
        "hf/Lin-Chen/MMStar/val-00000-of-00001.parquet",
        "hf/openai/gsm8k/main/test-00000-of-00001.parquet",
        "hf/vdaita/edit_5k_char/train-00000-of-00001.parquet",
    ];
    tables("t.parquet", &golden(&names));
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
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("f.arrow");
    let mut file = FileWriter::try_new(File::create(&path).unwrap(), batch.schema_ref()).unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap();
    tables("t.arrow", &[stream.into_inner().unwrap(), std::fs::read(&path).unwrap()]);
}

#[test]
fn fuzz_images() {
    let mut good = golden(
        &["a.png", "gray.png", "palette.png", "rgba.png", "photo.jpg"]
            .map(|name| format!("images/{name}"))
            .each_ref()
            .map(String::as_str),
    );
    let pixels = image::RgbImage::from_pixel(5, 3, image::Rgb([9, 200, 30]));
    for format in [image::ImageFormat::Bmp, image::ImageFormat::Gif, image::ImageFormat::WebP] {
        let mut file = std::io::Cursor::new(Vec::new());
        pixels.write_to(&mut file, format).unwrap();
        good.push(file.into_inner());
    }
    assert!(good.iter().all(|file| Rgb::decode(file).is_some()), "the seeds are images");
    fuzz(&good, FEW, |bytes| {
        if let Some(image) = Rgb::decode(bytes) {
            assert_eq!(image.pixels.len(), image.width * image.height * 3);
        }
        let _ = Rgb::decode_as_stored(bytes);
    });
}

#[test]
fn fuzz_sounds() {
    let names = ["audio/float.wav", "audio/pcm24.wav", "audio/stereo16k.wav", "audio/tone8k.wav", "audio/tone.flac"];
    fuzz(&golden(&names), FEW, |bytes| {
        if let Some(sound) = Sound::decode(bytes) {
            assert!(sound.rate > 0 && sound.channels > 0);
            let _ = (sound.to_media(), sound.to_chat_part());
        }
    });
}

#[test]
fn a_header_that_lies_is_no_sound() {
    let good = golden(&["audio/tone8k.wav"]).remove(0);
    let with = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Sound::decode(&file)
    };
    let whole = with(40, &[0xff; 4]).expect("a length of the writer's own invention is the rest of the file");
    assert_eq!(Some(whole), Sound::decode(&good));
    assert_eq!(with(22, &[0, 0]), None, "no channels");
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
    fuzz(&card, FEW, |bytes| drop(configurations(&String::from_utf8_lossy(bytes))));
    let literals = [&b"{(256, 256, 1): 0.5, (720, 1280, 16): 0.5}"[..], b"[[['a', 1e9], {}]]", b"{'image': 3}"];
    fuzz(&literals.map(<[u8]>::to_vec), FEW, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let _ = (literal::parse(&text), Buckets::parse(&text).is_ok(), RangeRatio::parse(&text).is_ok());
    });
    let deep = "[".repeat(1_000_000);
    assert!(literal::parse(&deep).is_none());
}

#[test]
fn fuzz_saved() {
    let row = br#"{"index": 0, "prompt": "p", "prompt_len": 3, "expected_output_len": 5, "request_id": "b-0", "multi_modal_data": null, "media": null, "lora": null, "timestamp": 0.5, "chat_messages": [{"role": "user"}], "request_overrides": {"a": 1}, "planned_send_time": 0.25}"#;
    let folder = tempfile::tempdir().unwrap();
    let (path, state) = (folder.path().join("w.jsonl"), folder.path().join("state.json"));
    fuzz(&[row.to_vec(), ROWS.to_vec()], FEW, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        let _ = (read_jsonl(&path).is_ok(), read_rows(&path).is_ok());
    });
    fuzz(&[br#"{"_data_files": [{"filename": "data-0.arrow"}]}"#.to_vec()], FEW, |bytes| {
        std::fs::write(&state, bytes).unwrap();
        let _ = saved::files(folder.path(), "train").is_ok();
    });
}

#[test]
fn fuzz_traces() {
    use crate::sessions::{Options, read, read_conversations};
    for (ending, most) in [("jsonl", 20_000), ("json", 20_000), ("csv", 20_000)] {
        let files = std::fs::read_dir(golden_path("sessions")).unwrap().flatten().map(|entry| entry.path());
        let named = files.filter(|path| path.to_string_lossy().ends_with(&format!(".{ending}")));
        let good = named.filter(|path| !path.to_string_lossy().ends_with(".expected.json"));
        let good: Vec<Vec<u8>> =
            good.map(|path| std::fs::read(path).unwrap()).filter(|file| file.len() < most).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("t.{ending}"));
        fuzz(&good, FEW, |bytes| {
            std::fs::write(&path, bytes).unwrap();
            let _ = (read(&path, None, &Options::default()).is_ok(), read_conversations(&path).is_ok());
        });
    }
}
