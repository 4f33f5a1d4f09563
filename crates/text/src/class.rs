//! The Hugging Face class of a tokenizer, from its settings and the model type. It determines the default special
//! tokens and parts of the pipeline.

/// Model types and the class that the library registers for them; `None` is the general class, which uses
/// `tokenizer.json` as it is.
#[rustfmt::skip]
const REGISTERED: &[(Option<&str>, &[&str])] = &[
    (
        None,
        &[
            "EvollaModel", "aria", "arctic", "bigbird_pegasus", "camembertv2-base", "canary", "chameleon", "chatlm",
            "cohere_asr", "deepseek_ocr", "deepseek_ocr2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4",
            "deepseek_vl", "deepseek_vl_hybrid", "deepseek_vl_v2", "ernie4_5", "ernie4_5_moe", "flex_olmo", "fuyu",
            "glm", "glm4", "glm4_moe", "glm4_moe_lite", "glm4v", "glm4v_moe", "glm_image", "glmasr", "got_ocr2",
            "gpt_bigcode", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared", "h2ovl_chat",
            "hyperclovax", "hyperclovax_vlm", "internlm2", "jamba", "janus", "kimi_k25", "kimi_linear", "kosmos-2",
            "llava", "llava_next", "mimo_v2_flash", "minicpm3", "minicpmv", "minicpmv4_6", "minicpmv4_7", "minimax_m2",
            "ministral", "ministral3", "mistral", "mistral3", "mixtral", "modernbert", "modernbert-decoder", "molmo",
            "molmo2", "nemotron", "nvfp4", "nystromformer", "olmo2", "olmo3", "olmo_hybrid", "opencua", "openvla",
            "paddleocr_vl", "pegasus_x", "persimmon", "phi3", "phi3_v", "phimoe", "pix2struct", "pixtral", "smolvlm",
            "stablelm", "step3_vl", "step3p5", "step3p7", "umt5", "unlimited-ocr", "unlimited_ocr", "vipllava",
            "voxtral", "voxtral_realtime", "xlm-roberta-xl",
        ],
    ),
    (Some("LlamaTokenizer"), &["idefics", "idefics2"]),
    (
        Some("GemmaTokenizer"),
        &[
            "diffusion_gemma", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text",
            "recurrent_gemma", "shieldgemma2", "t5gemma", "zaya",
        ],
    ),
    (
        Some("Qwen2Tokenizer"),
        &[
            "audioflamingo3", "colqwen2", "cosmos3_omni", "fun_asr_nano", "hunyuan_vl", "internvl", "lighton_ocr",
            "ovis2", "qianfan_ocr", "qwen2", "qwen2_5_omni", "qwen2_5_vl", "qwen2_audio", "qwen2_moe", "qwen2_vl",
            "qwen3", "qwen3_asr", "qwen3_moe", "qwen3_next", "qwen3_omni_moe", "qwen3_vl", "qwen3_vl_moe", "vibevoice",
        ],
    ),
    (
        Some("GPT2Tokenizer"),
        &[
            "blip-2", "codegen", "dbrx", "emu3", "gpt2", "gpt_neo", "gptj", "hyperclovax_vision_v2", "instructblip",
            "instructblipvideo", "jais2", "opt", "phi", "starcoder2",
        ],
    ),
    (
        Some("BertTokenizer"),
        &[
            "align", "bark", "bert", "blip", "bros", "chinese_clip", "convbert", "distilbert", "electra", "ernie",
            "flava", "git", "grounding-dino", "layoutlm", "megatron-bert", "mm-grounding-dino", "nezha", "nomic_bert",
            "qdqbert", "realm", "retribert", "squeezebert", "tvp", "vilt", "visual_bert",
        ],
    ),
    (
        Some("RobertaTokenizer"),
        &[
            "bart", "bridgetower", "clap", "data2vec-text", "ibert", "lilt", "longformer", "mega", "mra", "roberta",
            "roberta-prelayernorm",
        ],
    ),
    (Some("T5Tokenizer"), &["mt5", "musicgen", "musicgen_melody", "switch_transformers", "t5"]),
    (
        Some("XLMRobertaTokenizer"),
        &["gte", "jina_embeddings_v3", "metaclip_2", "trocr", "xlm-roberta", "xmod"],
    ),
];

/// Models whose settings name a wrong class.
const MISNAMED: [&str; 2] = ["qwen2", "hyperclovax_vision_v2"];
const GENERAL: [&str; 3] = ["PreTrainedTokenizer", "TokenizersBackend", "PythonBackend"];

/// The effective class, without `Fast`; `None` for the general one.
pub(crate) fn effective(named: Option<&str>, model_type: Option<&str>) -> Option<String> {
    let named = named.map(|name| name.strip_suffix("Fast").unwrap_or(name));
    let registered = REGISTERED.iter().find(|(_, kinds)| kinds.iter().any(|kind| Some(*kind) == model_type));
    let registered = registered.map(|(class, _)| *class);
    let class = match (named, registered) {
        (None, registered) => registered.flatten(),
        (Some(_), Some(None)) => None,
        (Some(_), Some(own)) if model_type.is_some_and(|kind| MISNAMED.contains(&kind)) => own,
        (named, _) => named,
    };
    class.filter(|class| !GENERAL.contains(class)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_kind_can_overrule_the_settings() {
        let class = |named, kind| effective(named, kind);
        assert_eq!(class(Some("LlamaTokenizerFast"), Some("llama")).as_deref(), Some("LlamaTokenizer"));
        assert_eq!(class(Some("LlamaTokenizer"), None).as_deref(), Some("LlamaTokenizer"));
        assert_eq!(class(Some("LlamaTokenizer"), Some("mistral")), None);
        assert_eq!(class(Some("LlamaTokenizerFast"), Some("deepseek_v3")), None);
        assert_eq!(class(Some("LlamaTokenizer"), Some("qwen2_moe")).as_deref(), Some("LlamaTokenizer"));
        assert_eq!(class(Some("LlamaTokenizer"), Some("qwen2")).as_deref(), Some("Qwen2Tokenizer"));
        assert_eq!(class(Some("PreTrainedTokenizerFast"), Some("llama")), None);
        assert_eq!((class(None, Some("gpt2")).as_deref(), class(None, Some("llama"))), (Some("GPT2Tokenizer"), None));
    }
}
