//! Test files: a list of tests, or an object of defaults and tests. Parses texts; reads no files and starts nothing.

use std::path::Path;

use tacho_core::json::{Dict, Value, parse, python_str};

use super::command;
use crate::experiment::Error;

tacho_core::named! {
    /// The kinds in the order in which they are run.
    pub enum TestKind { Serving = "serving", Latency = "latency", Startup = "startup", Throughput = "throughput" }
}

impl TestKind {
    fn of(test_name: &str) -> Option<Self> {
        TestKind::ALL.into_iter().find(|kind| {
            test_name.strip_prefix(kind.name()).is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'))
        })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    pub name: String,
    pub kind: TestKind,
    pub model: Option<String>,
    /// The parameters of the server without its model, or of the offline command.
    pub engine: Dict,
    pub variables: Vec<(String, String)>,
    /// The parameters of a serving test's client.
    pub client: Dict,
    /// Request rates of a serving test; `inf` for all at once.
    pub rates: Vec<String>,
    pub concurrencies: Vec<u64>,
}

/// The tests of a file; `path` is for error messages.
pub fn parse_tests(path: &Path, text: &str) -> Result<Vec<Test>, Error> {
    let value = parse(text).map_err(|fault| Error::file(path, format!("not JSON: {fault}")))?;
    let shape = |key_path: &str, wanted| Error::file(path, format!("{key_path} must be {wanted}"));
    let (defaults, tests) = match &value {
        Value::List(tests) => (Dict::new(), tests.as_slice()),
        Value::Dict(parts) => {
            let defaults = match parts.get("defaults") {
                None => Dict::new(),
                Some(Value::Dict(defaults)) => defaults.clone(),
                Some(_) => return Err(shape("\"defaults\"", "an object")),
            };
            let tests = parts.get("tests").and_then(Value::as_list);
            (defaults, tests.ok_or_else(|| shape("\"tests\"", "a list of tests"))?)
        }
        _ => return Err(shape("the file", "a list of tests, or an object with \"tests\"")),
    };
    let mut read: Vec<Test> = Vec::new();
    for (at, item) in tests.iter().enumerate() {
        let item = item.as_dict().ok_or_else(|| shape(&format!("item {at}"), "an object"))?;
        let test = Reader { path, defaults: &defaults, item, at }.test()?;
        if read.iter().any(|other| other.name == test.name) {
            let problem = format!("the name {:?} is given to more than one test: make the names unique", test.name);
            return Err(Error::file(path, problem));
        }
        if read.first().is_some_and(|first| first.kind != test.kind) {
            return Err(wrong_name(path, &test.name));
        }
        read.push(test);
    }
    Ok(read)
}

fn wrong_name(path: &Path, name: &str) -> Error {
    let problem =
        "must begin with serving_, latency_, throughput_ or startup_, as all others of the file, and be a file name";
    Error::file(path, format!("the test name {name:?} {problem}"))
}

/// Parameters that the suite sets.
const OUTPUTS: [&str; 3] = ["result_dir", "result_filename", "output_json"];

struct Reader<'a> {
    path: &'a Path,
    defaults: &'a Dict,
    item: &'a Dict,
    at: usize,
}

impl Reader<'_> {
    fn shape(&self, key: &str, wanted: &'static str) -> Error {
        Error::file(self.path, format!("{key:?} of item {} must be {wanted}", self.at))
    }

    fn test(&self) -> Result<Test, Error> {
        let name = self.item.text("test_name");
        let name = name.ok_or_else(|| self.shape("test_name", "a text"))?.to_owned();
        // The name becomes a file name: it must not leave the directory.
        let kind = TestKind::of(&name).filter(|_| !name.contains(['/', '\0']));
        let kind = kind.ok_or_else(|| wrong_name(self.path, &name))?;
        if kind == TestKind::Serving {
            return self.serving(name);
        }
        let engine = self.object("parameters")?;
        self.check_args(&name, &engine)?;
        self.check_outputs(&name, &engine)?;
        let model = engine.text("model").map(str::to_owned);
        let variables = variables(&self.object("environment_variables")?);
        let (client, rates, concurrencies) = (Dict::new(), Vec::new(), Vec::new());
        Ok(Test { name, kind, model, engine, variables, client, rates, concurrencies })
    }

    fn serving(&self, name: String) -> Result<Test, Error> {
        let mut engine = self.object("server_parameters")?;
        let model = engine.remove("model").and_then(|model| model.as_str().map(str::to_owned));
        let model = Some(model.ok_or_else(|| self.shape("server_parameters.model", "a text"))?);
        let client = self.object("client_parameters")?;
        for parameters in [&engine, &client] {
            self.check_args(&name, parameters)?;
        }
        self.check_outputs(&name, &client)?;
        let rates = self.list("qps_list")?.ok_or_else(|| self.shape("qps_list", "a list of request rates"))?;
        let rate = |value: &Value| {
            let text = python_str(value);
            if text.contains("inf") { "inf".to_owned() } else { text }
        };
        let (key, concurrencies) = match self.list("max_concurrency_list")? {
            Some(list) => ("max_concurrency_list", list),
            // Without a limit all requests may be in flight at once.
            None => ("num_prompts", vec![client.get("num_prompts").cloned().unwrap_or(Value::Int(1000))]),
        };
        let whole = |value: &Value| {
            let number = value.as_i64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| *number > 0);
            number.map(i64::unsigned_abs).ok_or_else(|| self.shape(key, "whole numbers above 0"))
        };
        Ok(Test {
            kind: TestKind::Serving,
            rates: rates.iter().map(rate).collect(),
            concurrencies: concurrencies.iter().map(whole).collect::<Result<_, _>>()?,
            variables: variables(&self.object("server_environment_variables")?),
            name,
            model,
            engine,
            client,
        })
    }

    /// The defaults' object, overridden by the test's.
    fn object(&self, key: &str) -> Result<Dict, Error> {
        let mut merged = Dict::new();
        for source in [self.defaults, self.item] {
            match source.get(key) {
                None | Some(Value::Null) => {}
                Some(Value::Dict(values)) => merged.update(values),
                Some(_) => return Err(self.shape(key, "an object")),
            }
        }
        Ok(merged)
    }

    fn list(&self, key: &str) -> Result<Option<Vec<Value>>, Error> {
        match self.item.get(key).or_else(|| self.defaults.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::List(items)) if !items.is_empty() => Ok(Some(items.clone())),
            Some(_) => Err(self.shape(key, "a list that is not empty")),
        }
    }

    fn check_args(&self, name: &str, parameters: &Dict) -> Result<(), Error> {
        let wrong = |(key, what)| Error::file(self.path, format!("{name}: {key}: {what}"));
        command::args(parameters).map(drop).map_err(wrong)
    }

    /// Refuses parameters that would put a result where the suite does not look for it.
    fn check_outputs(&self, name: &str, parameters: &Dict) -> Result<(), Error> {
        let of_suite = |key: &str| OUTPUTS.contains(&key.replace('-', "_").as_str());
        let Some((key, _)) = parameters.iter().find(|(key, _)| of_suite(key)) else { return Ok(()) };
        let what = "the suite names its results itself: remove it, and use --output-dir";
        Err(Error::file(self.path, format!("{name}: {key}: {what}")))
    }
}

fn variables(values: &Dict) -> Vec<(String, String)> {
    values.iter().map(|(name, value)| (name.to_owned(), python_str(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Test>, String> {
        parse_tests(Path::new("t.json"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_merged_key_by_key() {
        let tests = read(
            r#"{"defaults": {"qps_list": [1, "inf"], "server_environment_variables": {"A": 1},
                 "server_parameters": {"model": "m", "x": 1, "y": 2}, "client_parameters": {"num_prompts": 8}},
               "tests": [{"test_name": "serving_a", "server_parameters": {"y": 3}},
                         {"test_name": "serving_b", "qps_list": ["1e3"], "max_concurrency_list": [4, 8],
                          "server_parameters": {"model": "n"}}]}"#,
        );
        let tests = tests.unwrap();
        let [a, b] = &tests[..] else { panic!("{tests:?}") };
        assert_eq!((a.rates.join(" "), a.concurrencies.as_slice()), ("1 inf".to_owned(), &[8][..]));
        assert_eq!((a.engine.get("x"), a.engine.get("y")), (Some(&Value::Int(1)), Some(&Value::Int(3))));
        assert_eq!(a.variables, [("A".to_owned(), "1".to_owned())]);
        assert_eq!((b.model.as_deref(), b.concurrencies.as_slice()), (Some("n"), &[4, 8][..]));
        assert_eq!(b.rates, ["1e3"]);
    }

    #[test]
    fn other_tests_have_parameters() {
        let tests = read(r#"[{"test_name": "latency_x", "parameters": {"model": "m"}}]"#).unwrap();
        assert_eq!((tests[0].kind, tests[0].model.as_deref()), (TestKind::Latency, Some("m")));
    }

    #[test]
    fn faults_name_the_file_and_the_place() {
        let cases = [
            ("{", "not JSON"),
            ("3", "a list of tests"),
            ("[3]", "item 0"),
            (r#"[{"test_name": "x"}]"#, "\"x\""),
            (r#"[{"test_name": "latency_../x"}]"#, "latency_../x"),
            (r#"[{"test_name": "serving_x", "qps_list": [1]}]"#, "server_parameters.model"),
            (r#"[{"test_name": "serving_x", "server_parameters": {"model": "m"}}]"#, "qps_list"),
            (r#"[{"test_name": "latency_x", "parameters": 3}]"#, "parameters"),
            (r#"[{"test_name": "latency_x", "parameters": {"a": "'"}}]"#, "latency_x: a"),
            (r#"[{"test_name": "latency_x", "parameters": {"output-json": "/x"}}]"#, "latency_x: output-json"),
            (
                r#"[{"test_name": "serving_x", "qps_list": [1], "server_parameters": {"model": "m"},
                     "client_parameters": {"result_dir": "../x"}}]"#,
                "serving_x: result_dir",
            ),
            (
                r#"[{"test_name": "serving_x", "qps_list": [1], "server_parameters": {"model": "m"},
                     "client_parameters": {"num_prompts": 1e18}}]"#,
                "\"num_prompts\"",
            ),
            (r#"[{"test_name": "latency_x"}, {"test_name": "latency_x"}]"#, "more than one"),
            (r#"[{"test_name": "latency_x"}, {"test_name": "startup_x"}]"#, "startup_x"),
        ];
        for (text, part) in cases {
            let message = read(text).unwrap_err();
            assert!(message.contains("t.json") && message.contains(part), "{message}");
        }
    }
}
