//! Exchanges without sockets.

use super::*;
use crate::{BackendKind, TimestampSource, Url};

fn exchange(backend: BackendKind) -> Exchange {
    let url = Url::parse("http://h/").unwrap();
    let endpoint = EndpointSpec { timestamps: TimestampSource::User, ..EndpointSpec::new(url, backend) };
    let row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
    Exchange::new(row, Outgoing::whole(Arc::from(&b""[..])), &Expected::default(), &endpoint)
}

#[test]
fn kept_headers_are_labels_bounded_and_harmless() {
    let url = Url::parse("http://h/").unwrap();
    let response_headers = ["X-Replica".to_owned(), "x-id".to_owned()].into();
    let endpoint = EndpointSpec { response_headers, ..EndpointSpec::new(url, BackendKind::Vllm) };
    let row = Observation::dispatched(0, Timestamp::ZERO, Timestamp::ZERO);
    let request = Outgoing::whole(Arc::from(&b""[..]));
    let mut exchange = Exchange::new(row, request, &Expected::default(), &endpoint);
    let long = "y".repeat(1000);
    let mut head = b"HTTP/1.1 103 Early\r\nX-ID: early\r\n\r\nHTTP/1.1 500 No\r\nx-replica: a\xc2\x9b31m\r\n".to_vec();
    head.extend(format!("X-Id: {long}\r\nOther: z\r\nContent-Length: 0\r\n\r\n").bytes());
    exchange.receive(&head, Timestamp(5));
    let labels = &exchange.response.into_row().labels;
    assert_eq!(labels.get("header:X-Replica"), Some("a\\x9b31m"));
    assert_eq!(labels.get("header:x-id"), Some(&long[..MAX_KEPT_HEADER]));
    assert_eq!(labels.iter().count(), 2);
}

#[test]
fn a_whole_answer_ends_with_its_last_read() {
    let mut exchange = exchange(BackendKind::VllmPooling);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"data\"";
    assert_eq!(exchange.receive(head, Timestamp(5)), (Progress::More, 0));
    assert_eq!(exchange.receive(b": [1]}", Timestamp(9)), (Progress::Done(Outcome::Complete), 0));
    assert_eq!((exchange.response.ended, exchange.response.row.first_byte), (Some(Timestamp(9)), Some(Timestamp(5))));
    exchange.restart(Outgoing::whole(Arc::from(&b""[..])));
    assert_eq!(exchange.response.ended, None);
}

#[test]
fn an_endless_response_fails_and_keeps_one_timestamp() {
    let mut exchange = exchange(BackendKind::Vllm);
    exchange.response.bounds = Bounds::of(8);
    exchange.receive(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", Timestamp(1));
    let events = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n".repeat(1000);
    let reads = (2..1000).find_map(|at| match exchange.receive(events.as_bytes(), Timestamp(at)).0 {
        Progress::Done(outcome) => Some((at, outcome)),
        _ => None,
    });
    let (at, outcome) = reads.unwrap();
    assert!((100..140).contains(&at), "after {at} reads of 1,000 events");
    assert_eq!(outcome.failure().map(|failure| failure.kind), Some(FailureKind::TooLong));
    assert_eq!((exchange.response.row.chunks.len(), exchange.response.row.text.capacity()), (1, 0));
}

#[test]
fn a_stream_ends_when_it_is_dealt_with() {
    let mut exchange = exchange(BackendKind::Vllm);
    let body = "data: {\"choices\": [{\"text\": \"a\"}]}\n\ndata: [DONE]\n\n";
    let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(exchange.receive(response.as_bytes(), Timestamp(5)), (Progress::Done(Outcome::Complete), 1));
    assert_eq!(exchange.response.ended, None);
}
