//! Routes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tacho_core::json::Value;

use super::app::App;
use super::protocol::pooling::{self, Pooling};
use super::protocol::speech::{self, SpeechStream};
use super::protocol::{anthropic, audio, images, info, listing, metrics, realtime, sglang, tokenize};
use super::request::ask::Endpoint;
use super::request::fields::Fields;
use super::request::form::Form;
use super::request::problem::{ON_PURPOSE, Problem};
use super::request::prompt::{Prompt, Source};
use super::request::read;
use super::response::generation::Generation;
use super::response::script::Script;
use super::response::stream::EventStream;
use super::response::whole;
use super::websocket;
use super::wire::ResetSwitch;
use crate::faults::Fault;

/// The vLLM version whose API is simulated.
pub(crate) const VERSION: &str = "0.32.0";
/// Largest accepted body, with room for images and audio.
const MAX_BYTES: usize = 64 << 20;
/// Longer texts are tokenized off the threads that write streams.
const LONG_TEXT: usize = 8192;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) enum ResponseBody {
    Whole(Full<Bytes>),
    Stream(Box<EventStream>),
    Speech(Box<SpeechStream>),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            ResponseBody::Stream(body) => Pin::new(body.as_mut()).poll_frame(cx),
            ResponseBody::Speech(body) => Pin::new(body.as_mut()).poll_frame(cx),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(body) => body.size_hint(),
            ResponseBody::Stream(_) | ResponseBody::Speech(_) => SizeHint::default(),
        }
    }
}

/// The methods of a path; `None` for unknown paths.
fn methods(path: &str) -> Option<&'static str> {
    Some(match path {
        "/v1/models" | "/health" | "/version" | "/metrics" | "/metrics/" | "/load" | "/is_sleeping"
        | "/server_info" | "/docs" | "/openapi.json" => "GET",
        "/ping" => "GET, POST",
        "/v1/realtime" => "GET",
        "/v1/completions"
        | "/v1/chat/completions"
        | "/v1/responses"
        | "/v1/messages"
        | "/v1/messages/count_tokens"
        | "/"
        | "/v1/audio/transcriptions"
        | "/v1/audio/translations"
        | "/v1/audio/speech"
        | "/v1/images/generations"
        | "/v1/images/edits"
        | "/generate"
        | "/generate_stream"
        | "/v1/embeddings"
        | "/embeddings"
        | "/pooling"
        | "/rerank"
        | "/v1/rerank"
        | "/v2/rerank"
        | "/score"
        | "/v1/score"
        | "/tokenize"
        | "/detokenize"
        | "/reset_prefix_cache"
        | "/reset_mm_cache"
        | "/reset_encoder_cache"
        | "/sleep"
        | "/wake_up"
        | "/start_profile"
        | "/stop_profile" => "POST",
        _ if is_triton(path) => "POST",
        _ if stored(path).is_some() => "GET",
        _ if stored(path.strip_suffix("/cancel")?).is_some() => "POST",
        _ => return None,
    })
}

/// `/v2/models/NAME/generate_stream` with any name.
fn is_triton(path: &str) -> bool {
    let name = path.strip_prefix("/v2/models/").and_then(|rest| rest.strip_suffix("/generate_stream"));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

/// The name in `/v1/responses/NAME`.
fn stored(path: &str) -> Option<&str> {
    path.strip_prefix("/v1/responses/").filter(|id| !id.is_empty() && !id.contains('/'))
}

/// Answers a request. An I/O error means that the connection is to be aborted.
pub(crate) async fn respond(
    app: Arc<App>,
    request: Request<Incoming>,
    reset: ResetSwitch,
) -> io::Result<Response<ResponseBody>> {
    let outcome = match app.gate(&request) {
        Ok(()) => route(&app, request, &reset).await?,
        Err(problem) => Err(problem),
    };
    Ok(outcome.unwrap_or_else(problem_response))
}

impl App {
    /// Refuses unknown routes, and everything before the start delay is over.
    fn gate(&self, request: &Request<Incoming>) -> Result<(), Problem> {
        if self.started.elapsed() < self.spec.faults.start_delay {
            return Err(Problem::unavailable());
        }
        let allow = methods(request.uri().path()).ok_or_else(Problem::not_found)?;
        let method = request.method().as_str();
        if allow.split(", ").any(|allowed| allowed == method) { Ok(()) } else { Err(Problem::wrong_method(allow)) }
    }
}

type Outcome = io::Result<Result<Response<ResponseBody>, Problem>>;

async fn route(app: &Arc<App>, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome {
    let path = request.uri().path().to_owned();
    let response = match path.as_str() {
        "/v1/completions" => return generate(app, Endpoint::Completions, request, reset).await,
        "/v1/chat/completions" => return generate(app, Endpoint::Chat, request, reset).await,
        "/v1/responses" => return generate(app, Endpoint::Responses, request, reset).await,
        "/v1/audio/transcriptions" => return generate(app, Endpoint::Transcription, request, reset).await,
        "/v1/audio/translations" => return generate(app, Endpoint::Translation, request, reset).await,
        "/v1/audio/speech" => return speak(app, request, reset).await,
        "/v1/realtime" => return Ok(transcribe(app, request, reset)),
        "/v1/images/generations" | "/v1/images/edits" => return draw(app, request, reset).await,
        "/v1/messages" => return generate(app, Endpoint::Messages, request, reset).await,
        "/" => return generate(app, Endpoint::TgiWhole, request, reset).await,
        "/generate" => return generate(app, Endpoint::Demo, request, reset).await,
        "/generate_stream" => return generate(app, Endpoint::Tgi, request, reset).await,
        path if is_triton(path) => return generate(app, Endpoint::Triton, request, reset).await,
        "/v1/embeddings" => return pool(app, Pooling::Embeddings, request, reset).await,
        "/embeddings" => return pool(app, Pooling::Infinity, request, reset).await,
        "/pooling" => return pool(app, Pooling::Plain, request, reset).await,
        "/rerank" | "/v1/rerank" | "/v2/rerank" => return pool(app, Pooling::Rerank, request, reset).await,
        "/score" | "/v1/score" => return pool(app, Pooling::Score, request, reset).await,
        "/v1/messages/count_tokens" => {
            fields(request).await?.and_then(|fields| anthropic::count(app, &fields)).map(json)
        }
        "/load" => Ok(json(info::load(app).into_bytes())),
        "/is_sleeping" => Ok(json(info::is_sleeping(app).into_bytes())),
        "/sleep" | "/wake_up" => {
            app.sleeping.store(path == "/sleep", Ordering::Relaxed);
            Ok(Response::new(ResponseBody::Whole(Full::default())))
        }
        "/docs" => Ok(html(info::DOCS)),
        "/openapi.json" => Ok(json(info::openapi().into_bytes())),
        "/server_info" => Ok(json(info::server_info(app, request.uri().query()).into_bytes())),
        path if path.starts_with("/v1/responses/") => {
            let id = stored(path.strip_suffix("/cancel").unwrap_or(path)).unwrap_or_default();
            let kept = app.responses.get(id).ok_or_else(|| Problem::unknown_response(id));
            kept.map(|kept| json(kept.body.into_bytes()))
        }
        "/tokenize" => fields(request).await?.and_then(|fields| tokenize::tokenize(app, &fields)).map(json),
        "/detokenize" => fields(request).await?.and_then(|fields| tokenize::detokenize(app, &fields)).map(json),
        "/v1/models" => Ok(json(listing::render(app))),
        "/version" => Ok(json(info::version(app).into_bytes())),
        "/metrics" | "/metrics/" => Ok(metrics_page(app)),
        "/reset_prefix_cache" => {
            let success = app.engine.reset_prefix_cache().await;
            Ok(json(format!(r#"{{"success":{success}}}"#).into_bytes()))
        }
        // Health, ping, the profiler, and caches that a text model does not have.
        _ => Ok(Response::new(ResponseBody::Whole(Full::default()))),
    };
    Ok(response)
}

fn html(body: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(Full::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

async fn fields(request: Request<Incoming>) -> io::Result<Result<Fields, Problem>> {
    let received = received(request).await?;
    Ok(received.and_then(|(content_type, body)| Fields::parse(content_type.as_deref(), &body)))
}

/// The fields of a form with an audio file.
async fn form_fields(request: Request<Incoming>) -> io::Result<Result<Fields, Problem>> {
    let received = received(request).await?;
    Ok(received.and_then(|(content_type, body)| Form::parse(content_type.as_deref(), &body)).and_then(audio::fields))
}

async fn received(request: Request<Incoming>) -> io::Result<Result<(Option<String>, Bytes), Problem>> {
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = request.into_body();
    if body.size_hint().lower() > MAX_BYTES as u64 {
        return Ok(Err(Problem::too_large(MAX_BYTES)));
    }
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(body) => Ok(Ok((content_type, body.to_bytes()))),
        Err(error) if error.is::<LengthLimitError>() => Ok(Err(Problem::too_large(MAX_BYTES))),
        Err(error) => Err(io::Error::other(error)),
    }
}

async fn generate(app: &Arc<App>, endpoint: Endpoint, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome {
    let header = Header::of(&request);
    let received = match endpoint {
        Endpoint::Transcription | Endpoint::Translation => form_fields(request).await?,
        _ => fields(request).await?,
    };
    let fields = match received {
        Ok(fields) => fields,
        Err(problem) => return Ok(Err(problem)),
    };
    let endpoint = meant(endpoint, &fields);
    let generation = match start(app, endpoint, &fields, &header).await {
        Ok(generation) => generation,
        Err(problem) => return Ok(Err(problem)),
    };
    if !generation.ask.stream {
        return Ok(whole::respond(generation, reset).await?.map(json));
    }
    let body = ResponseBody::Stream(Box::new(EventStream::new(generation, reset.clone())));
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static(Script::content_type(endpoint));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    Ok(Ok(response))
}

/// The protocol of a request at a shared path, determined by its fields.
fn meant(endpoint: Endpoint, fields: &Fields) -> Endpoint {
    match endpoint {
        Endpoint::Tgi if fields.has("text_input") => Endpoint::Triton,
        Endpoint::Demo if sglang::is_meant(fields) => Endpoint::Sglang,
        Endpoint::Demo if fields.has("inputs") => Endpoint::TgiWhole,
        Endpoint::TgiWhole if fields.get("stream").is_some_and(Value::truthy) => Endpoint::Tgi,
        other => other,
    }
}

/// Generation settings in a request's headers.
struct Header {
    request_id: Option<String>,
    /// Overrides the body's.
    priority: Option<String>,
    session: Option<String>,
}

impl Header {
    fn of(request: &Request<Incoming>) -> Self {
        let text = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        Header { request_id: request_id(request), priority: text("x-vllm-priority"), session: text("x-session-id") }
    }

    fn priority(&self) -> Result<Option<i64>, Problem> {
        let Some(text) = &self.priority else { return Ok(None) };
        let wrong = || {
            let message = format!("X-Vllm-Priority must be an integer, got {text:?}.");
            Problem::parameter(&message, "priority", None)
        };
        text.trim().parse().map(Some).map_err(|_| wrong())
    }
}

fn request_id(request: &Request<Incoming>) -> Option<String> {
    request.headers().get("x-request-id").and_then(|value| value.to_str().ok()).map(str::to_owned)
}

async fn pool(app: &Arc<App>, pooling: Pooling, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome {
    let named = request_id(&request);
    let asked = fields(request).await?.and_then(|fields| {
        let (ask, sources) = pooling::Ask::read(pooling, &fields, app.spec.tokenizer.full_vocab_size())?;
        let model = app.resolve(ask.model.as_deref())?;
        Ok((ask, sources, model))
    });
    let (ask, sources, model) = match asked {
        Ok(asked) => asked,
        Err(problem) => return Ok(Err(problem)),
    };
    let prompts = match tokenised(app, sources).await {
        Ok(prompts) => prompts,
        Err(problem) => return Ok(Err(problem)),
    };
    let fault = app.strike();
    if fault == Fault::Error {
        return Ok(Err(Problem::internal(ON_PURPOSE)));
    }
    let computed = match pooling::Computation::start(app, &ask, &model, prompts) {
        Ok(computation) => computation.finish(fault, reset).await?,
        Err(problem) => return Ok(Err(problem)),
    };
    let id = named.unwrap_or_else(|| app.random_id());
    Ok(computed.map(|prompts| pooling_response(ask.respond(app, &id, &model, &prompts), fault)))
}

/// Generates speech. The audio model has no queue.
async fn speak(app: &Arc<App>, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome {
    let asked = fields(request).await?.and_then(|fields| speech::Ask::read(&fields));
    let started = match asked {
        Ok(ask) => media(app, ask.model.as_deref(), &ask.input).await.map(|(tokens, fault)| (ask, tokens, fault)),
        Err(problem) => Err(problem),
    };
    Ok(started.map(|(ask, tokens, fault)| {
        let kind = HeaderValue::from_static(ask.content_type());
        let stream = SpeechStream::new(ask, app.spec.media, tokens, fault, reset.clone());
        let mut response = Response::new(ResponseBody::Speech(Box::new(stream)));
        response.headers_mut().insert(CONTENT_TYPE, kind);
        response
    }))
}

/// Generates images. The image model has no queue.
async fn draw(app: &Arc<App>, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome {
    let is_form = request.uri().path().ends_with("/edits");
    let read = if is_form { image_form_fields(request).await? } else { fields(request).await? };
    let started = match read.and_then(|fields| images::Ask::read(&fields)) {
        Ok(ask) => media(app, ask.model.as_deref(), &ask.prompt).await.map(|(_, fault)| (ask, fault)),
        Err(problem) => Err(problem),
    };
    let (ask, fault) = match started {
        Ok(started) => started,
        Err(problem) => return Ok(Err(problem)),
    };
    let stall = if let Fault::Stall(_, pause) = fault { pause } else { std::time::Duration::ZERO };
    tokio::time::sleep(ask.takes(app.spec.media.image_step) + stall).await;
    if let Fault::Disconnect(_) | Fault::StreamError(_) = fault {
        reset.pull();
        return Err(io::ErrorKind::ConnectionReset.into());
    }
    let mut body = ask.respond(app).into_bytes();
    if let Fault::Truncate(_) = fault {
        body.truncate(body.len() / 2);
    }
    Ok(Ok(json(body)))
}

/// Opens a WebSocket for a live transcript.
fn transcribe(
    app: &Arc<App>,
    mut request: Request<Incoming>,
    reset: &ResetSwitch,
) -> Result<Response<ResponseBody>, Problem> {
    let accept = websocket::accept(request.headers()).ok_or_else(Problem::not_found)?;
    let fault = app.strike();
    if fault == Fault::Error {
        return Err(Problem::internal(ON_PURPOSE));
    }
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(realtime::serve(Arc::clone(app), upgraded, fault, reset.clone()));
    let mut response = Response::new(ResponseBody::Whole(Full::default()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend(accept);
    Ok(response)
}

async fn image_form_fields(request: Request<Incoming>) -> io::Result<Result<Fields, Problem>> {
    let received = received(request).await?;
    let form = received.and_then(|(content_type, body)| Form::parse(content_type.as_deref(), &body));
    Ok(form.and_then(|form| match form.file {
        Some(_) => Ok(Fields::from_texts(form.texts)),
        None => Err(Problem::invalid(&[Fields::from_texts(form.texts).missing("image")])),
    }))
}

/// The tokens of the text of a request for media, and its fault, after the API server's time.
async fn media(app: &Arc<App>, model: Option<&str>, text: &str) -> Result<(usize, Fault), Problem> {
    app.resolve(model)?;
    let prompts = tokenised(app, vec![Source::Text(text.to_owned(), false)]).await?;
    let fault = app.strike();
    if fault == Fault::Error {
        return Err(Problem::internal(ON_PURPOSE));
    }
    let tokens = prompts.iter().map(|prompt| prompt.ids.len()).sum();
    app.front.pass(tokens).await;
    Ok((tokens, fault))
}

fn pooling_response(reply: pooling::Reply, fault: Fault) -> Response<ResponseBody> {
    let pooling::Reply { mut body, content_type, metadata } = reply;
    if matches!(fault, Fault::Truncate(_)) {
        body.truncate(body.len() / 2);
    }
    let mut response = Response::new(ResponseBody::Whole(Full::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(value) = metadata.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert("metadata", value);
    }
    response
}

async fn start(app: &Arc<App>, endpoint: Endpoint, fields: &Fields, header: &Header) -> Result<Generation, Problem> {
    // Anthropic's protocol has its own errors, except those about types.
    let anthropic = |problem: Problem| match endpoint {
        Endpoint::Messages if problem.kind != "Bad Request" => problem.for_anthropic(),
        _ => problem,
    };
    let (mut ask, sources) = read::ask(endpoint, fields, app)?;
    ask.priority = header.priority()?.unwrap_or(ask.priority);
    let model = app.resolve(ask.model.as_deref()).map_err(anthropic)?;
    ask.check_limits(&app.spec).map_err(anthropic)?;
    let prompts = tokenised(app, sources).await.map_err(anthropic)?;
    let fault = app.strike();
    if fault == Fault::Error {
        return Err(Problem::internal(ON_PURPOSE));
    }
    let id = endpoint.id_prefix().to_owned() + &header.request_id.clone().unwrap_or_else(|| app.random_id());
    let tokens = prompts.iter().map(|prompt| prompt.ids.len()).sum();
    app.front.pass(tokens).await;
    Generation::start(app, ask, id, model, prompts, fault, header.session.as_deref()).await.map_err(anthropic)
}

/// Tokenized prompts; those that cannot fit are refused first.
async fn tokenised(app: &Arc<App>, sources: Vec<Source>) -> Result<Vec<Prompt>, Problem> {
    for source in &sources {
        source.check_length(app.spec.engine.max_model_len, || app.characters_per_token())?;
    }
    let mut prompts = Vec::with_capacity(sources.len());
    for source in sources {
        if source.text_len() < LONG_TEXT {
            prompts.push(source.into_prompt(&app.spec.tokenizer, &app.vocabulary));
            continue;
        }
        let app = Arc::clone(app);
        let work = move || source.into_prompt(&app.spec.tokenizer, &app.vocabulary);
        // A disconnect ends this after the current prompt.
        let prompt = tokio::task::spawn_blocking(work).await;
        prompts.push(prompt.map_err(|_| Problem::internal("the prompt could not be counted"))?);
    }
    Ok(prompts)
}

fn json(body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(Full::from(body)));
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

fn metrics_page(app: &App) -> Response<ResponseBody> {
    let text = metrics::render(&app.engine.stats(), &app.names[0], &app.spec.engine);
    let mut response = Response::new(ResponseBody::Whole(Full::from(text)));
    let kind = HeaderValue::from_static("text/plain; version=1.0.0; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn problem_response(problem: Problem) -> Response<ResponseBody> {
    let mut response = json(problem.body.into_bytes());
    *response.status_mut() = problem.status;
    if let Some(allow) = problem.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    response
}
