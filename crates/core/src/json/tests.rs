use super::*;
use proptest::prelude::*;

#[test]
fn floats_print_as_repr_does() {
    let cases = [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.5e-5, "1.5e-05"),
        (0.0001, "0.0001"),
        (123456.789, "123456.789"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ];
    for (number, text) in cases {
        assert_eq!(float_repr(number), text);
    }
}

#[test]
fn text_is_ascii_with_pythons_escapes() {
    assert_eq!(dumps(&Value::from("a\"\\/\n\u{1}\u{7f}é大🙂")), r#""a\"\\/\n\u0001\u007f\u00e9\u5927\ud83d\ude42""#);
}

#[test]
fn lone_surrogates_are_written_as_escapes() {
    let mut out = Vec::new();
    write_wtf8(&mut out, &[b'x', 0xed, 0xa0, 0xbd]);
    assert_eq!(out, br#""x\ud83d""#);
}

#[test]
fn reads_what_python_reads() {
    let value =
        parse(r#" {"a": [1, 2.5, NaN, -Infinity, 12345678901234567890], "b": null, "a2": "\ud83d\ude42"} "#).unwrap();
    assert_eq!(
        dumps(&value),
        r#"{"a": [1, 2.5, NaN, -Infinity, 12345678901234567890], "b": null, "a2": "\ud83d\ude42"}"#
    );
    assert_eq!(dumps(&parse(r#"{"k": 1, "l": 2, "k": 3}"#).unwrap()), r#"{"k": 3, "l": 2}"#);
}

#[test]
fn refuses_what_python_refuses() {
    for text in ["", "{", "[1,]", "{'a': 1}", "01", "1 2", "\"\t\"", "\"\\x\"", "{\"a\" 1}", "nul", "+1"] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    assert!(parse(&"[".repeat(100_000)).is_err());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_filter("NaN is not equal to itself", |number| !number.is_nan()).prop_map(Value::Float),
        ".*".prop_map(Value::Str),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            prop::collection::vec((".*", inner), 0..5).prop_map(|entries| Value::Dict(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(value in any_value()) {
        prop_assert_eq!(parse(&dumps(&value)).unwrap(), value);
    }

    #[test]
    fn never_panics(text in ".*") {
        let _ = parse(&text);
    }
}

#[test]
fn indented_text_is_laid_out_as_python_does() {
    let value = parse(r#"{"a": [1, {"b": null}], "c": [], "d": {}}"#).unwrap();
    let expected = "{\n    \"a\": [\n        1,\n        {\n            \"b\": null\n        }\n    ],\n    \"c\": [],\n    \"d\": {}\n}";
    assert_eq!(dumps_indented(&value, 4), expected);
}
