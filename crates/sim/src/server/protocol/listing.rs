//! `/v1/models`: the served names and the LoRA adapters.

use crate::server::app::App;
use crate::server::response::escape::{list, quote, quoted};

pub(crate) fn render(app: &App) -> Vec<u8> {
    let created = app.unix_time();
    let base = app.names.iter().map(|name| (name, None));
    let adapters = app.spec.lora_modules.iter().map(|name| (name, app.names.first()));
    let mut out = br#"{"object":"list","data":"#.to_vec();
    list(&mut out, base.chain(adapters), |out, (name, parent)| {
        out.extend_from_slice(br#"{"id":"#);
        quote(out, name);
        let root = if parent.is_some() { name } else { &app.spec.model };
        let limit = parent.map_or_else(|| app.spec.engine.max_model_len.to_string(), |_| "null".to_owned());
        let parent = parent.map_or_else(|| "null".to_owned(), |parent| quoted(parent));
        let card = format!(
            r#","object":"model","created":{created},"owned_by":"vllm","root":{},"parent":{parent},"max_model_len":{limit},"#,
            quoted(root)
        );
        out.extend_from_slice(card.as_bytes());
        let permission = format!(
            concat!(
                r#""permission":[{{"id":"modelperm-{}","object":"model_permission","created":{},"#,
                r#""allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,"#,
                r#""allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,"#,
                r#""organization":"*","group":null,"is_blocking":false}}]}}"#
            ),
            app.random_id(),
            created
        );
        out.extend_from_slice(permission.as_bytes());
    });
    out.push(b'}');
    out
}
