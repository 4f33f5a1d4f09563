//! Files named in rows: images behind HTTP links become client-side data, and errors name files that cannot be used.

#![expect(clippy::unwrap_used, reason = "a broken set-up fails the test")]

use std::io::{BufRead, BufReader, Write};
use std::{error::Error as _, net::TcpListener, path::PathBuf};

use tacho_core::{Counters, Request};
use tacho_pyrand::Globals;
use tacho_testkit::golden_path;
use tacho_workload::{CustomAudioSpec, CustomImageSpec, Error, Selection, WorkloadSpec, sample};

/// Serves the golden images below `/`, and redirects `/old` to one of them.
fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let first = head.next().unwrap();
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let path = first.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
            let file = std::fs::read(golden_path("data/images").join(path.trim_start_matches('/')));
            let (status, more, body) = match file {
                _ if path == "/old" => ("302 Found", "location: /a.png\r\n", Vec::new()),
                Ok(file) => ("200 OK", "", file),
                Err(_) if path == "/text" => ("200 OK", "", b"no image".to_vec()),
                Err(_) => ("404 Not Found", "", Vec::new()),
            };
            let head =
                format!("HTTP/1.1 {status}\r\n{more}content-length: {}\r\nconnection: close\r\n\r\n", body.len());
            stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).unwrap();
        }
    });
    url
}

fn all_rows() -> Selection {
    Selection { seed: 0, num_prompts: -1, shuffle: false, oversample: false, request_id_prefix: String::new() }
}

fn requests(lines: &str) -> Result<(PathBuf, Vec<Request>), (PathBuf, Error)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rows.jsonl");
    std::fs::write(&path, lines).unwrap();
    let spec = WorkloadSpec::CustomImage(CustomImageSpec {
        path: path.clone(),
        selection: all_rows(),
        output_len: 8,
        multimodal_chat: false,
        client_side_data: true,
    });
    match sample(&spec, None, &mut Globals::seeded(0), &Counters::default()) {
        Ok(sampled) => Ok((path, sampled.requests)),
        Err(error) => Err((path, error)),
    }
}

#[test]
fn links_become_the_same_data_as_files() {
    let url = serve();
    let row = |image: &str| format!("{{\"prompt\": \"p\", \"image_files\": [\"{image}\"]}}\n");
    let file = |name: &str| golden_path("data/images").join(name).display().to_string();
    let local = row(&file("a.png")) + &row(&file("a.png")) + &row(&file("rgba.png"));
    let linked = row(&format!("{url}/a.png")) + &row(&format!("{url}/old")) + &row(&format!("{url}/rgba.png?sig=1"));
    let (_, local) = requests(&local).unwrap();
    let (_, linked) = requests(&linked).unwrap();
    assert_eq!(local, linked);
    let part = tacho_core::json::dumps(linked[0].media.as_ref().unwrap());
    assert!(part.starts_with(r#"{"type": "image_url", "image_url": {"url": "data:image/png;base64,"#), "{part}");
}

#[test]
fn bad_links_are_named_with_file_and_line() {
    let url = serve();
    for (name, shown, why) in [
        ("none.png?sig=secret", "none.png", "the server answered HTTP 404"),
        ("text", "text", "it is broken, of no known kind or has more than 178956970 pixels"),
    ] {
        let good = format!("{{\"content\": [{{\"type\": \"image\", \"image\": \"{url}/a.png\"}}]}}\n\n");
        let bad = format!("{{\"content\": [{{\"type\": \"image_url\", \"image_url\": \"{url}/{name}\"}}]}}\n");
        let (path, error) = requests(&(good + &bad)).unwrap_err();
        assert_eq!(error.to_string(), format!("{}, line 3: invalid image URL: {url}/{shown}", path.display()));
        let cause = error.source().unwrap().to_string();
        assert!(cause.starts_with(why), "{cause}");
    }
}

#[test]
fn audio_that_cannot_be_read_are_named_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let (path, noise) = (directory.path().join("rows.jsonl"), directory.path().join("noise.mp3"));
    std::fs::write(&noise, "no audio").unwrap();
    for (audio, why) in [(noise.as_path(), "is not a readable audio file"), (directory.path(), "cannot read")] {
        std::fs::write(&path, format!("{{\"prompt\": \"p\", \"audio\": \"{}\"}}\n", audio.display())).unwrap();
        let spec =
            CustomAudioSpec { path: path.clone(), selection: all_rows(), output_len: Some(8), multimodal_chat: true };
        let tokenizer = tacho_text::Tokenizer::builtin();
        let spec = WorkloadSpec::CustomAudio(spec);
        let error = sample(&spec, Some(&tokenizer), &mut Globals::seeded(0), &Counters::default()).unwrap_err();
        let expected = format!("{}, line 1: field \"audio\" names a file that cannot be used", path.display());
        assert_eq!(error.to_string(), expected);
        let cause = error.source().unwrap().to_string();
        assert!(cause.contains(why) && cause.contains(&audio.display().to_string()), "{cause}");
    }
}
