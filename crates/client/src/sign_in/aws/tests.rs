//! Published examples: AWS's test suite for Signature Version 4, and the documentation of IAM.

use std::time::Instant;

use tacho_core::Secret;

use super::*;

const NOW: u64 = 1_440_938_160;
const HOST: &str = "example.amazonaws.com";
/// The session token of the suite's examples.
const SESSION: &str = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflf\
     KD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8Y\
     QcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLx\
     BA==";

fn signer(service: &str, session: Option<&str>) -> AwsSigner {
    let keys = AwsKeys {
        id: Secret::new("AKIDEXAMPLE"),
        secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
        session: session.map(Secret::new),
    };
    let source = AwsKeySource::Given(keys.clone());
    let spec = AwsSpec { service: service.to_owned(), region: "us-east-1".to_owned(), source };
    AwsSigner::new(keys, &spec)
}

fn signature(lines: &str) -> &str {
    lines.trim_end().rsplit_once("Signature=").unwrap().1
}

#[test]
fn the_examples_of_the_suite_have_their_published_signatures() {
    for (name, method, path, wanted) in [
        ("get-vanilla", "GET", "/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("post-vanilla", "POST", "/", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
        (
            "get-vanilla-query-order-key-case",
            "GET",
            "/?Param2=value2&Param1=value1",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-vanilla-query-order-value",
            "GET",
            "/?Param1=value2&Param1=value1",
            "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694",
        ),
        (
            "get-vanilla-utf8-query",
            "GET",
            "/?%e1%88%b4=bar",
            "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
        ),
        (
            "get-unreserved",
            "GET",
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        ("get-utf8", "GET", "/ሴ", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
        ("get-space", "GET", "/example space/", "652487583200325589f1fba4c7e578f72c47cb61beeca81406b39ddec1366741"),
        ("get-slashes", "GET", "//example//", "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84"),
        (
            "get-slash-pointless-dot",
            "GET",
            "/./example",
            "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
        ),
        ("get-relative", "GET", "/example/..", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "get-relative-relative",
            "GET",
            "/example1/example2/../..",
            "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
        ),
        ("get-slash", "GET", "//", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        ("get-slash-dot-slash", "GET", "/./", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ] {
        let lines = signer("service", None).header_lines(method, path, HOST, b"", NOW);
        assert_eq!(signature(&lines), wanted, "{name}");
    }
    let lines = signer("service", Some(SESSION)).header_lines("POST", "/", HOST, b"", NOW);
    let wanted = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead";
    assert_eq!(signature(&lines), wanted, "post-sts-header-before");
    assert!(lines.contains("SignedHeaders=host;x-amz-date;x-amz-security-token, "), "{lines}");
}

#[test]
fn bodies_and_types_are_signed_as_published() {
    let mut signer = signer("service", None);
    signer.set_time(NOW);
    let form = "application/x-www-form-urlencoded";
    let headers = vec![
        ("content-type".into(), form.into()),
        ("host".into(), HOST.into()),
        ("x-amz-date".into(), "20150830T123600Z".into()),
    ];
    let body_hash = &body_hash(b"Param1=value1");
    let request = Signed { method: "POST", path: "/", headers, body_hash };
    let authorization = signer.authorization("20150830T123600Z", &request);
    let wanted = "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a";
    assert_eq!(signature(&authorization), wanted, "post-x-www-form-urlencoded");
}

#[test]
fn the_example_of_the_iam_documentation_has_its_published_header() {
    let rest =
        b"Accept: */*\r\nContent-Type:  application/x-www-form-urlencoded;   charset=utf-8\r\n\r\nX-Amz-Body: no";
    let path = "/?Action=ListUsers&Version=2010-05-08";
    let lines = signer("iam", None).header_lines("GET", path, "iam.amazonaws.com", rest, NOW);
    let wanted = "X-Amz-Date: 20150830T123600Z\r\nAuthorization: AWS4-HMAC-SHA256 \
        Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, \
        Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7\r\n";
    assert_eq!(lines, wanted);
}

#[test]
fn paths_are_encoded_again_except_for_s3() {
    assert_eq!(canonical_path("/model/a%3A1/invoke", "bedrock"), "/model/a%253A1/invoke");
    assert_eq!(canonical_path("/model/a:1/invoke", "bedrock"), "/model/a%3A1/invoke");
    assert_eq!(canonical_path("/a%20b//c", "s3"), "/a%20b//c");
}

#[test]
fn the_date_and_the_key_follow_the_clock() {
    let mut one = signer("service", None);
    let first = one.header_lines("GET", "/", HOST, b"", NOW);
    let next_day = one.header_lines("GET", "/", HOST, b"", NOW + 86_400);
    assert!(next_day.contains("20150831T123600Z") && next_day.contains("/20150831/us-east-1/"), "{next_day}");
    assert_eq!(next_day, signer("service", None).header_lines("GET", "/", HOST, b"", NOW + 86_400));
    assert_eq!(first, one.header_lines("GET", "/", HOST, b"", NOW));
}

/// Prints what a signature costs: `cargo test --release -p tacho-client -- --ignored --nocapture costs`.
#[test]
#[ignore = "a measurement"]
fn what_a_signature_costs() {
    let mut signer = signer("bedrock", Some(SESSION));
    let hash = body_hash(b"{}");
    let rest = format!(
        "{BODY_HASH}: {hash}\r\nAccept: */*\r\nUser-Agent: tacho\r\nContent-Length: 2\r\nContent-Type: \
         application/json\r\n\r\n{{}}"
    );
    let began = Instant::now();
    let count = 100_000;
    for at in 0..count {
        let lines = signer.header_lines("POST", "/model/m/invoke", HOST, rest.as_bytes(), NOW + at / 10_000);
        assert!(std::hint::black_box(lines).len() > 200);
    }
    println!("{:.2} us per signature", began.elapsed().as_secs_f64() * 1e6 / count as f64);
}
