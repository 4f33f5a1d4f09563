//! `/tokenize` and `/detokenize`.

use tacho_core::json::Value;

use crate::server::app::App;
use crate::server::request::fields::Fields;
use crate::server::request::members::{out_of_range, wrong_int};
use crate::server::request::problem::{Invalid, Problem};
use crate::server::request::prompt::{self, Source};
use crate::server::response::escape::{ids, list, number, quote};

/// The response of `/tokenize`, for a text or a conversation.
pub(crate) fn tokenize(app: &App, fields: &Fields) -> Result<Vec<u8>, Problem> {
    let truthy = |name: &str| fields.get(name).is_some_and(Value::truthy);
    if truthy("continue_final_message") && truthy("add_generation_prompt") {
        let message = "Cannot set both `continue_final_message` and `add_generation_prompt` to True.";
        return Err(Problem::bad_request(message));
    }
    let source = if fields.has("messages") {
        prompt::of_conversation(fields)?
    } else if let Some(text) = fields.text("prompt")? {
        let add_special = !fields.has("add_special_tokens") || fields.flag("add_special_tokens")?;
        Source::Text(text.to_owned(), add_special)
    } else {
        return Err(Problem::invalid(&[fields.missing("prompt"), fields.missing("messages")]));
    };
    app.resolve(fields.text("model")?)?;
    source.check_length(app.spec.engine.max_model_len, || app.characters_per_token())?;
    let prompt = source.into_prompt(&app.spec.tokenizer, &app.vocabulary);
    let mut out = br#"{"count":"#.to_vec();
    number(&mut out, prompt.ids.len());
    out.extend_from_slice(br#","max_model_len":"#);
    number(&mut out, app.spec.engine.max_model_len);
    out.extend_from_slice(br#","tokens":"#);
    ids(&mut out, &prompt.ids);
    out.extend_from_slice(br#","token_strs":"#);
    if fields.flag("return_token_strs")? {
        list(&mut out, prompt.ids.iter(), |out, id| quote(out, &app.spec.tokenizer.decode(&[*id])));
    } else {
        out.extend_from_slice(b"null");
    }
    out.push(b'}');
    Ok(out)
}

/// The response of `/detokenize`; unknown ids have no text.
pub(crate) fn detokenize(app: &App, fields: &Fields) -> Result<Vec<u8>, Problem> {
    let wrong = |value: &Value| {
        Problem::invalid(&[Invalid::member("list_type", "tokens", "Input should be a valid list", value)])
    };
    let value = fields.required("tokens")?;
    let items = value.as_list().ok_or_else(|| wrong(value))?;
    let size = app.spec.tokenizer.full_vocab_size();
    let mut known = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let loc = format!("tokens.{at}");
        let wrong = wrong_int(&loc, item).or_else(|| out_of_range(&loc, item, 0));
        Problem::check(wrong.as_slice())?;
        let id = item.as_i64().unwrap_or(i64::MAX);
        known.extend(u32::try_from(id).ok().filter(|id| (*id as usize) < size));
    }
    app.resolve(fields.text("model")?)?;
    let mut out = br#"{"prompt":"#.to_vec();
    quote(&mut out, &app.spec.tokenizer.decode(&known));
    out.push(b'}');
    Ok(out)
}
