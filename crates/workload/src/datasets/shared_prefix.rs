//! `generated-shared-prefix`: SGLang's groups of questions that share the system prompt of their group.

use tacho_core::Request;
use tacho_pyrand::{Generator, Globals};
use tacho_text::Tokenizer;

use crate::{Error, parallel, sampling::context::SampleContext, sampling::sampled::Sampled};

#[derive(Debug, Clone, PartialEq)]
pub struct SharedPrefixSpec {
    /// Seed of both global generators.
    pub seed: i64,
    pub groups: i64,
    pub prompts_per_group: i64,
    pub system_len: i64,
    /// Questions per conversation; 1 for single requests.
    pub turns: i64,
    pub question_len: i64,
    pub output_len: i64,
    /// Lengths are uniform between this fraction of the maximum and the maximum; 1 always gives the maximum.
    pub range_ratio: f64,
    /// The exponent of the Zipf distribution of questions over groups; `None` for an even distribution.
    pub zipf: Option<f64>,
    /// Whether groups stay together; otherwise requests are shuffled.
    pub ordered: bool,
    /// Whether token counting is skipped; prompt lengths are then 1.
    pub uncounted: bool,
    pub request_id_prefix: String,
}

/// Generates the requests; advances both global generators.
pub(crate) fn sample(spec: &SharedPrefixSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let (tokenizer, counters) = (context.tokenizer_of("generated-shared-prefix")?, context.counters);
    let chat = |(index, chat): (usize, Chat)| {
        let prompt = chat.questions.join("\n\n");
        let len = if spec.uncounted { 1 } else { tokenizer.count(&prompt, true) as u64 };
        counters.finish_one();
        let id = Some(format!("{}{index}", spec.request_id_prefix));
        Request { id, ..Request::text(prompt, len, chat.output_len) }
    };
    let requests = parallel::map_owned(chats(spec, tokenizer, context.globals)?, chat);
    Ok(Sampled::of(requests))
}

/// The questions of a conversation, the first with the system prompt, and the length of each response.
pub(crate) struct Chat {
    pub(crate) questions: Vec<String>,
    pub(crate) output_len: i64,
}

/// Generates the conversations; advances both global generators.
pub(crate) fn chats(spec: &SharedPrefixSpec, tokenizer: &Tokenizer, globals: &mut Globals) -> Result<Vec<Chat>, Error> {
    let seed = u32::try_from(spec.seed).map_err(|_| Error::SeedOutOfRange { seed: spec.seed })?;
    let groups = positive("--gsp-num-groups", spec.groups)?;
    let total = groups * positive("--gsp-prompts-per-group", spec.prompts_per_group)?;
    let turns = positive("--gsp-num-turns", spec.turns)?;
    globals.seed(seed);
    let system_lens = spec.lengths("--gsp-system-prompt-len", spec.system_len, groups, globals)?;
    let question_lens = spec.lengths("--gsp-question-len", spec.question_len, total * turns, globals)?;
    let output_lens = spec.lengths("--gsp-output-len", spec.output_len, total, globals)?;
    // All entries, including special ones, in the order of the tokenizer's vocabulary.
    let mut vocabulary = tokenizer.all_ids();
    vocabulary.sort_unstable();
    let mut draw = |len: &i64| -> Vec<u32> {
        let positions = globals.py.choices_indices(vocabulary.len(), *len as usize);
        positions.into_iter().map(|position| vocabulary[position]).collect()
    };
    let systems: Vec<Vec<u32>> = system_lens.iter().map(&mut draw).collect();
    let questions: Vec<Vec<u32>> = question_lens.iter().map(&mut draw).collect();
    let systems: Vec<String> = parallel::map(&systems, |(_, ids)| tokenizer.decode(ids));
    let chosen = spec.chosen_groups(groups, total);
    let chat = |(at, &(&group, &output_len)): (usize, &(&usize, &i64))| {
        let asked = &questions[at * turns..(at + 1) * turns];
        let mut questions: Vec<String> = asked.iter().map(|ids| tokenizer.decode(ids)).collect();
        questions[0] = format!("{}\n\n{}", systems[group], questions[0]);
        Chat { questions, output_len }
    };
    let rows: Vec<(&usize, &i64)> = chosen.iter().zip(&output_lens).collect();
    let mut chats: Vec<Chat> = parallel::map(&rows, chat);
    if !spec.ordered {
        globals.py.shuffle(&mut chats);
    }
    Ok(chats)
}

fn positive(flag: &'static str, value: i64) -> Result<usize, Error> {
    let count = usize::try_from(value).ok().filter(|&count| count > 0);
    count.ok_or_else(|| usage!("{flag} is {value}: it must be 1 or more"))
}

impl SharedPrefixSpec {
    /// Uniform between a fraction of the maximum and the maximum; a fraction of 1 draws nothing.
    fn lengths(
        &self,
        flag: &'static str,
        longest: i64,
        count: usize,
        globals: &mut Globals,
    ) -> Result<Vec<i64>, Error> {
        if !(0.0..=1.0).contains(&self.range_ratio) {
            let must = "it must be in [0, 1], the share of the length from which lengths are drawn";
            return Err(usage!("--gsp-range-ratio is {}: {must}", self.range_ratio));
        }
        positive(flag, longest)?;
        let shortest = ((longest as f64 * self.range_ratio) as i64).max(1);
        Ok(globals.np.randint_vec(shortest, longest + 1, count))
    }

    /// The group of each question. The Zipf distribution uses a separate generator, so that texts do not depend on it.
    fn chosen_groups(&self, groups: usize, total: usize) -> Vec<usize> {
        let Some(alpha) = self.zipf else {
            return (0..total).map(|index| index / (total / groups)).collect();
        };
        let weights: Vec<f64> = (1..=groups).map(|rank| (rank as f64).powf(-alpha)).collect();
        let sum: f64 = weights.iter().sum();
        let shares: Vec<f64> = weights.into_iter().map(|weight| weight / sum).collect();
        let mut generator = Generator::new(self.seed.unsigned_abs());
        (0..total).map(|_| generator.choice_weighted(&shares)).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sampling::context::with_builtin;

    pub(crate) fn spec() -> SharedPrefixSpec {
        SharedPrefixSpec {
            seed: 42,
            groups: 3,
            prompts_per_group: 4,
            system_len: 12,
            turns: 1,
            question_len: 5,
            output_len: 7,
            range_ratio: 1.0,
            zipf: None,
            ordered: true,
            uncounted: false,
            request_id_prefix: "g-".to_owned(),
        }
    }

    fn made(spec: &SharedPrefixSpec) -> Vec<Request> {
        with_builtin(|context| sample(spec, context)).unwrap().requests
    }

    fn text(request: &Request) -> &str {
        match &request.content {
            tacho_core::Content::Text(text) => text,
            other => panic!("{other:?}"),
        }
    }

    fn system(request: &Request) -> &str {
        text(request).split("\n\n").next().unwrap()
    }

    #[test]
    fn groups_share_their_system_prompt() {
        let requests = made(&spec());
        assert_eq!(requests.len(), 12);
        for group in requests.chunks(4) {
            assert!(group.iter().all(|request| system(request) == system(&group[0])));
        }
        assert_ne!(system(&requests[0]), system(&requests[4]));
        assert!(requests.iter().all(|request| request.output_len == 7));
    }

    #[test]
    fn mixing_keeps_the_requests_and_renames_them() {
        let (ordered, mixed) = (made(&spec()), made(&SharedPrefixSpec { ordered: false, ..spec() }));
        assert_ne!(ordered, mixed);
        assert_eq!(mixed[3].id.as_deref(), Some("g-3"));
        let texts = |requests: &[Request]| {
            let mut texts: Vec<String> = requests.iter().map(|request| text(request).to_owned()).collect();
            texts.sort();
            texts
        };
        assert_eq!(texts(&ordered), texts(&mixed));
    }

    #[test]
    fn zipf_only_chooses_other_groups() {
        let (even, zipf) = (made(&spec()), made(&SharedPrefixSpec { zipf: Some(8.0), ..spec() }));
        let question = |request: &Request| text(request).split_once("\n\n").unwrap().1.to_owned();
        assert!(even.iter().zip(&zipf).all(|(even, zipf)| question(even) == question(zipf)));
        let hottest = zipf.iter().filter(|request| system(request) == system(&even[0])).count();
        assert!(hottest > 8, "{hottest} of 12");
    }

    #[test]
    fn lengths_vary_below_the_longest() {
        let spec = SharedPrefixSpec { range_ratio: 0.3, output_len: 100, prompts_per_group: 50, ..spec() };
        let outputs: Vec<i64> = made(&spec).iter().map(|request| request.output_len).collect();
        assert!(outputs.iter().all(|len| (30..=100).contains(len)));
        assert!(outputs.iter().min() < outputs.iter().max());
        let wrong = SharedPrefixSpec { range_ratio: 1.5, ..spec };
        let error = with_builtin(|context| sample(&wrong, context));
        assert!(error.unwrap_err().to_string().contains("--gsp-range-ratio"));
    }
}
