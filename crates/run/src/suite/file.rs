//! Test files: a list of tests, or an object of defaults and tests. Parses texts; reads no files and starts nothing.

use std::path::Path;

use tacho_core::json::{Dict, Value, parse, python_str};

use super::command;
use super::error::SuiteError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestKind {
    /// A server under load.
    Serving,
    Latency,
    Startup,
    Throughput,
}

impl TestKind {
    /// All kinds in the order in which they are run.
    pub const ALL: [TestKind; 4] = [TestKind::Serving, TestKind::Latency, TestKind::Startup, TestKind::Throughput];

    pub fn name(self) -> &'static str {
        match self {
            TestKind::Serving => "serving",
            TestKind::Latency => "latency",
            TestKind::Startup => "startup",
            TestKind::Throughput => "throughput",
        }
    }

    fn of(test_name: &str) -> Option<Self> {
        TestKind::ALL.into_iter().find(|kind| {
            test_name.strip_prefix(kind.name()).is_some_and(|rest| rest.len() > 1 && rest.starts_with('_'))
        })
    }
}

/// A server under several loads.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingTest {
    pub name: String,
    pub model: String,
    /// The server's parameters without the model.
    pub server: Dict,
    /// The server's additional environment variables.
    pub variables: Vec<(String, String)>,
    /// The client's parameters.
    pub client: Dict,
    /// Request rates; `inf` for all at once.
    pub rates: Vec<String>,
    pub concurrencies: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OfflineTest {
    pub name: String,
    pub kind: TestKind,
    /// The command's parameters.
    pub parameters: Dict,
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// A server under several loads.
    Serving(ServingTest),
    Offline(OfflineTest),
}

impl Test {
    pub fn name(&self) -> &str {
        match self {
            Test::Serving(test) => &test.name,
            Test::Offline(test) => &test.name,
        }
    }

    pub fn kind(&self) -> TestKind {
        match self {
            Test::Serving(_) => TestKind::Serving,
            Test::Offline(test) => test.kind,
        }
    }

    /// The parameters of the model and its parallelism.
    pub fn engine(&self) -> &Dict {
        match self {
            Test::Serving(test) => &test.server,
            Test::Offline(test) => &test.parameters,
        }
    }

    pub fn model(&self) -> Option<&str> {
        match self {
            Test::Serving(test) => Some(&test.model),
            Test::Offline(test) => test.parameters.get("model").and_then(Value::as_str),
        }
    }
}

/// The tests of a file; `path` is for error messages.
pub fn parse_tests(path: &Path, text: &str) -> Result<Vec<Test>, SuiteError> {
    let value = parse(text).map_err(|fault| SuiteError::Json { path: path.to_owned(), fault })?;
    let shape = |place: &str, wanted| SuiteError::Shape { path: path.to_owned(), place: place.to_owned(), wanted };
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
        if read.iter().any(|other| other.name() == test.name()) {
            return Err(SuiteError::RepeatedName { path: path.to_owned(), name: test.name().to_owned() });
        }
        if read.first().is_some_and(|first| first.kind() != test.kind()) {
            return Err(SuiteError::Name { path: path.to_owned(), name: test.name().to_owned() });
        }
        read.push(test);
    }
    Ok(read)
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
    fn shape(&self, key: &str, wanted: &'static str) -> SuiteError {
        let place = format!("{key:?} of item {}", self.at);
        SuiteError::Shape { path: self.path.to_owned(), place, wanted }
    }

    fn test(&self) -> Result<Test, SuiteError> {
        let name = self.item.get("test_name").and_then(Value::as_str);
        let name = name.ok_or_else(|| self.shape("test_name", "a text"))?.to_owned();
        // The name becomes a file name: it must not leave the directory.
        let kind = TestKind::of(&name).filter(|_| !name.contains(['/', '\0']));
        let kind = kind.ok_or_else(|| SuiteError::Name { path: self.path.to_owned(), name: name.clone() })?;
        if kind == TestKind::Serving {
            return self.serving(name).map(Test::Serving);
        }
        let parameters = self.object("parameters")?;
        self.check_words(&name, &parameters)?;
        self.check_outputs(&name, &parameters)?;
        let variables = variables(&self.object("environment_variables")?);
        Ok(Test::Offline(OfflineTest { name, kind, parameters, variables }))
    }

    fn serving(&self, name: String) -> Result<ServingTest, SuiteError> {
        let mut server = self.object("server_parameters")?;
        let model = server.remove("model").and_then(|model| model.as_str().map(str::to_owned));
        let model = model.ok_or_else(|| self.shape("server_parameters.model", "a text"))?;
        let client = self.object("client_parameters")?;
        for parameters in [&server, &client] {
            self.check_words(&name, parameters)?;
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
        Ok(ServingTest {
            rates: rates.iter().map(rate).collect(),
            concurrencies: concurrencies.iter().map(whole).collect::<Result<_, _>>()?,
            variables: variables(&self.object("server_environment_variables")?),
            name,
            model,
            server,
            client,
        })
    }

    /// The defaults' object, overridden by the test's.
    fn object(&self, key: &str) -> Result<Dict, SuiteError> {
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

    fn list(&self, key: &str) -> Result<Option<Vec<Value>>, SuiteError> {
        match self.item.get(key).or_else(|| self.defaults.get(key)) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::List(items)) if !items.is_empty() => Ok(Some(items.clone())),
            Some(_) => Err(self.shape(key, "a list that is not empty")),
        }
    }

    fn check_words(&self, name: &str, parameters: &Dict) -> Result<(), SuiteError> {
        let wrong = |(key, what)| SuiteError::Value { path: self.path.to_owned(), name: name.to_owned(), key, what };
        command::words(parameters).map(drop).map_err(wrong)
    }

    /// Refuses parameters that would put a result where the suite does not look for it.
    fn check_outputs(&self, name: &str, parameters: &Dict) -> Result<(), SuiteError> {
        let of_suite = |key: &str| OUTPUTS.contains(&key.replace('-', "_").as_str());
        let Some((key, _)) = parameters.iter().find(|(key, _)| of_suite(key)) else { return Ok(()) };
        let what = "the suite names its results itself: remove it, and use --output-dir".to_owned();
        Err(SuiteError::Value { path: self.path.to_owned(), name: name.to_owned(), key: key.to_owned(), what })
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
        let [Test::Serving(a), Test::Serving(b)] = &tests[..] else { panic!("{tests:?}") };
        assert_eq!((a.rates.join(" "), a.concurrencies.as_slice()), ("1 inf".to_owned(), &[8][..]));
        assert_eq!((a.server.get("x"), a.server.get("y")), (Some(&Value::Int(1)), Some(&Value::Int(3))));
        assert_eq!(a.variables, [("A".to_owned(), "1".to_owned())]);
        assert_eq!((b.model.as_str(), b.concurrencies.as_slice()), ("n", &[4, 8][..]));
        assert_eq!(b.rates, ["1e3"]);
    }

    #[test]
    fn other_tests_have_parameters() {
        let tests = read(r#"[{"test_name": "latency_x", "parameters": {"model": "m"}}]"#).unwrap();
        assert_eq!((tests[0].kind(), tests[0].model()), (TestKind::Latency, Some("m")));
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
