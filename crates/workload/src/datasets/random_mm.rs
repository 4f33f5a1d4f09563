//! `random-mm`: random text with random images and videos. Text and media draw from one generator in turn.

use tacho_core::{Content, Request, json::Value};
use tacho_pyrand::Generator;

use super::random::{RandomSpec, allowed_tokens, prefix, run_of};
use crate::media::reference::{data_url, image_part, video_part};
use crate::media::{Rgb, video};
use crate::sampling::buckets::{Bucket, Buckets, Modality};
use crate::sampling::fit_length::{FittedText, GeneratorDraw, fit, mismatch_notice};
use crate::sampling::lengths::{Lengths, checked_count, checked_seed};
use crate::{
    Error, parallel, sampling::chat::multimodal_chat, sampling::context::SampleContext, sampling::sampled::Sampled,
};

/// Bytes of pixels that are buffered before they are encoded.
const MAX_BUFFERED_PIXELS: usize = 256 << 20;

#[derive(Debug, Clone, PartialEq)]
pub struct RandomMmSpec {
    pub text: RandomSpec,
    /// Mean number of media items per request.
    pub base_items: i64,
    pub items_range_ratio: f64,
    /// Maximum images and videos of a request, by modality.
    pub limits: Vec<(String, i64)>,
    pub buckets: Buckets,
    /// Whether the prompt becomes a chat message that contains its media.
    pub multimodal_chat: bool,
}

/// A media item before it is encoded.
struct Raw {
    bucket: Bucket,
    pixels: Vec<u8>,
}

/// A request before its media are encoded.
struct Draft {
    text: String,
    len: usize,
    media: Vec<Raw>,
}

/// Generates the requests; does not use the global generators.
pub(crate) fn sample(spec: &RandomMmSpec, context: &mut SampleContext<'_>) -> Result<Sampled, Error> {
    let tokenizer = context.tokenizer_of("random-mm")?;
    let (seed, count) = (checked_seed(spec.text.seed)?, checked_count(spec.text.num_prompts)?);
    let mut generator = Generator::new(seed);
    let range = spec.text.length_range(tokenizer);
    let lengths = range.draw(&mut generator, count)?;
    let plan = spec.plan()?;
    let allowed = allowed_tokens(tokenizer, &tokenizer.added_special_ids())?;
    let mut draw = GeneratorDraw { generator, vocab_size: tokenizer.vocab_size() };
    let prefix = prefix(spec.text.prefix_len, &allowed, tokenizer, &mut draw);
    let mut requests = Vec::with_capacity(count);
    let (mut drafts, mut held, mut mismatch, mut exhausted) = (Vec::new(), 0, 0, 0);
    for index in 0..count {
        let ids = prefix.iter().copied().chain(spec.tokens(&lengths, index, &allowed)).collect();
        let target = usize::try_from(spec.text.prefix_len.saturating_add(lengths.inputs[index])).unwrap_or(0);
        let fitted = FittedText::from(fit(ids, target, tokenizer, &mut draw));
        let (media, short) = plan.draw(&mut draw.generator)?;
        exhausted += usize::from(short);
        mismatch += fitted.mismatch();
        held += media.iter().map(|raw| raw.pixels.len()).sum::<usize>();
        drafts.push(Draft { len: fitted.len, text: fitted.text, media });
        if held > MAX_BUFFERED_PIXELS || index + 1 == count {
            let first = requests.len();
            let counters = context.counters;
            requests.extend(parallel::map_owned(std::mem::take(&mut drafts), |(at, draft)| {
                counters.finish_one();
                spec.request(draft, first + at, lengths.outputs[first + at])
            }));
            held = 0;
        }
    }
    let mut notices: Vec<String> = mismatch_notice(mismatch).into_iter().collect();
    if exhausted > 0 {
        notices.push(format!("{exhausted} requests have fewer media than drawn: every modality reached its limit"));
    }
    Ok(Sampled { notices, ..Sampled::of(requests) })
}

impl RandomMmSpec {
    fn tokens<'a>(&self, lengths: &Lengths, index: usize, allowed: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        run_of(allowed, lengths.offsets[index] as usize + index, lengths.inputs[index] as usize)
    }

    fn request(&self, draft: Draft, index: usize, output_len: i64) -> Request {
        let parts = draft.media.iter().map(Raw::to_part).collect();
        let media = Value::List(parts);
        let id = Some(format!("{}{index}", self.text.request_id_prefix));
        let (content, media) = if self.multimodal_chat {
            (multimodal_chat(&draft.text, Some(&media)), None)
        } else {
            (Content::Text(draft.text), Some(media))
        };
        Request { content, media, id, ..Request::text("", draft.len as u64, output_len) }
    }

    fn plan(&self) -> Result<MediaPlan, Error> {
        if !(0.0..=1.0).contains(&self.items_range_ratio) {
            let ratio = self.items_range_ratio;
            return Err(usage!("--random-mm-num-mm-items-range-ratio is {ratio}: it must be in [0, 1]"));
        }
        let limit = |modality: Modality| self.limits.iter().find(|(name, _)| name == modality.name()).map(|(_, n)| *n);
        for bucket in self.buckets.entries() {
            let modality = bucket.0.modality()?;
            limit(modality).ok_or_else(|| {
                let known: Vec<&str> = self.limits.iter().map(|(name, _)| name.as_str()).collect();
                let (modality, known) = (modality.name(), known.join(", "));
                usage!("the modality {modality} of a bucket is not in --random-mm-limit-mm-per-prompt, only {known}")
            })?;
        }
        let buckets = self.buckets.normalized()?;
        let mut limits = Vec::new();
        for modality in [Modality::Image, Modality::Video] {
            let used = buckets.iter().any(|(bucket, _)| bucket.modality().is_ok_and(|found| found == modality));
            if let (true, Some(limit)) = (used, limit(modality)) {
                limits.push((modality, limit));
            }
        }
        let base = self.base_items as f64;
        let high = ((base * (1.0 + self.items_range_ratio)).ceil() as i64).min(limits.iter().map(|(_, n)| n).sum());
        let low = ((base * (1.0 - self.items_range_ratio)).floor() as i64).max(0);
        if low > high {
            let asked = format!("--random-mm-base-items-per-request asks for at least {low} media");
            return Err(usage!("{asked}, and the limits allow {high}"));
        }
        Ok(MediaPlan { buckets, limits, low, high })
    }
}

/// The parameters for drawing media, the same for every request.
struct MediaPlan {
    buckets: Vec<(Bucket, f64)>,
    limits: Vec<(Modality, i64)>,
    low: i64,
    high: i64,
}

impl MediaPlan {
    /// The media of one request, and whether the limits allowed fewer than were drawn. The pixels of an item are drawn
    /// before the next item is chosen.
    fn draw(&self, generator: &mut Generator) -> Result<(Vec<Raw>, bool), Error> {
        let wanted = generator.integers(self.low, self.high + 1) as usize;
        let mut buckets = self.buckets.clone();
        let mut media: Vec<Raw> = Vec::with_capacity(wanted);
        while media.len() < wanted {
            let shares: Vec<f64> = buckets.iter().map(|(_, share)| *share).collect();
            let bucket = buckets[generator.choice_weighted(&shares)].0;
            let modality = bucket.modality()?;
            let limit = self.limits.iter().find(|(known, _)| *known == modality).map_or(0, |(_, limit)| *limit);
            let taken = media.iter().filter(|raw| raw.bucket.modality().is_ok_and(|known| known == modality)).count();
            if (taken as i64) < limit {
                let mut pixels = vec![0; bucket.frames as usize * bucket.height as usize * bucket.width as usize * 3];
                generator.fill_bytes(&mut pixels);
                media.push(Raw { bucket, pixels });
                continue;
            }
            buckets.retain(|(bucket, _)| bucket.modality().is_ok_and(|found| found != modality));
            if buckets.is_empty() {
                return Ok((media, true));
            }
            Buckets::divide_by_sum(&mut buckets);
        }
        Ok((media, false))
    }
}

impl Raw {
    fn to_part(&self) -> Value {
        let (height, width) = (self.bucket.height as usize, self.bucket.width as usize);
        if self.bucket.frames == 1 {
            let image = Rgb { width, height, pixels: self.pixels.clone() };
            return image_part(&image.to_jpeg_url());
        }
        video_part(&data_url("video/mp4", &video::encode(&self.pixels, height, width)))
    }
}
