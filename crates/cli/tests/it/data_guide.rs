//! Runs the programs of the raw-data guide on the files of a run.

use std::process::{Command, Output};

use crate::tacho::{Place, stderr, stdout};

const GUIDE: &str = include_str!("../../../../docs/howto/raw-data.md");

/// The guide's programs in a language.
fn programs(language: &str) -> Vec<&'static str> {
    let fence = format!("```{language}\n");
    GUIDE.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

fn python(place: &Place, program: &str) -> Output {
    Command::new("python3").args(["-c", program]).current_dir(place.path()).output().unwrap()
}

#[test]
#[ignore = "needs pandas, polars, duckdb and pyarrow"]
fn the_guides_programs_run() {
    let place = Place::new();
    let args = "serve --sim --num-prompts 60 --random-input-len 8 --random-output-len 12 --request-rate 200 \
                 --log run.rows --save-requests requests.parquet --quiet";
    let output = place.run(&args.split_whitespace().collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    let sql = programs("sql")
        .into_iter()
        .map(|text| format!("import duckdb\nfor s in {text:?}.split(';')[:-1]: print(duckdb.sql(s))"));
    let all: Vec<String> = programs("python").into_iter().map(str::to_owned).chain(sql).collect();
    assert_eq!(all.len(), 4, "pandas, polars, DuckDB and the log itself");
    for program in all {
        let output = python(&place, &program);
        assert!(output.status.success(), "{program}\n{}", stderr(&output));
        assert!(!stdout(&output).trim().is_empty(), "{program} prints something");
    }
}
