//! `--preset`: configurations that are part of the program.

use tacho_args::config::Builtin;

macro_rules! presets {
    ($count:literal: $($name:literal $version:literal),*) => {
        pub(crate) const PRESETS: [Builtin; $count] =
            [$(Builtin { name: $name, version: $version, text: include_str!(concat!("presets/", $name, ".yaml")) }),*];
        pub(crate) const NAMES: [&str; $count] = [$($name),*];
    };
}

presets!(6: "chat" 1, "rag" 1, "agent" 1, "summarize" 1, "code" 1, "batch" 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::serve::{ServeArgs, TABLE};
    use crate::commands::values_for;

    fn read(args: &[&str]) -> ServeArgs {
        let args: Vec<String> = ["serve"].iter().chain(args).map(|word| (*word).to_owned()).collect();
        ServeArgs::read(values_for(&TABLE, &args).unwrap().unwrap()).unwrap()
    }

    #[test]
    fn every_preset_is_a_run_and_names_its_sources() {
        for preset in &PRESETS {
            let args = read(&["--preset", preset.name]);
            assert!(args.values.is_set("--dataset-name"), "{}", preset.name);
            let title = format!("# Preset {}, version {}: ", preset.name, preset.version);
            assert!(preset.text.starts_with(&title), "{}", preset.text);
            assert!(preset.text.contains("\n# Lengths"), "{}", preset.text);
        }
    }

    #[test]
    fn flags_take_precedence_over_a_preset() {
        let args = read(&["--preset=chat", "--request-rate", "9"]);
        assert_eq!((args.load.request_rate, args.load.burstiness.value), (9.0, 0.84));
        // What a flag excludes is left out.
        let args = read(&["--preset", "chat", "--stages", "a:5s@4"]);
        assert!(args.stages.stages.is_some() && !args.values.is_set("--request-rate"));
        assert_eq!(read(&["--preset", "chat"]).report.metadata, [("preset".to_owned(), "chat v1".to_owned())]);
    }
}
