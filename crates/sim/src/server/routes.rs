//! Routes: which handler answers which path.

use std::task::{Context, Poll};
use std::{io, pin::Pin, sync::Arc, sync::atomic::Ordering};

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde_json::{Value as Json, json};

use super::protocol::pooling::{self, Pooling};
use super::protocol::{anthropic, audio, images, info, metrics, realtime, speech};
use super::request::{Endpoint, Failure, Fields, Outcome, Problem, Prompt, Source};
use super::{
    app::App, request::form::Form, response::generation::Generation, response::stream::EventStream, response::whole,
    websocket, wire::ResetSwitch,
};
use crate::faults::Fault;

/// Largest accepted body, with room for images and audio.
const MAX_BYTES: usize = 64 << 20;
/// Longer texts are tokenized off the threads that write streams.
const LONG_TEXT: usize = 8192;
const JSON: &str = "application/json";
/// A placeholder for the page that FastAPI generates.
const DOCS: &str = "<!DOCTYPE html><title>vLLM simulator</title><p>See /openapi.json.";

#[derive(Clone, Copy)]
enum Handler {
    Generate(Endpoint),
    Pool(Pooling),
    Speech,
    Images,
    EditedImages,
    Realtime,
    Stored,
    /// A response to a body that needs no engine.
    Compute(fn(&App, &Fields) -> Result<Json, Problem>),
    /// Information that may depend on the query.
    Info(fn(&App, &str) -> Json),
    Page(&'static str, fn(&App) -> String),
    Sleep(bool),
    ResetPrefixCache,
    /// Health, ping, the profiler, and caches that a text model does not have.
    Nothing,
}

/// Paths, methods and handlers; `*` stands for any name.
const ROUTES: &[(&[&str], &str, Handler)] = &[
    (&["/v1/completions"], "POST", Handler::Generate(Endpoint::Completions)),
    (&["/v1/chat/completions"], "POST", Handler::Generate(Endpoint::Chat)),
    (&["/v1/responses"], "POST", Handler::Generate(Endpoint::Responses)),
    (&["/v1/responses/*"], "GET", Handler::Stored),
    (&["/v1/responses/*/cancel"], "POST", Handler::Stored),
    (&["/v1/messages"], "POST", Handler::Generate(Endpoint::Messages)),
    (&["/v1/messages/count_tokens"], "POST", Handler::Compute(anthropic::count)),
    (&["/v1/audio/transcriptions"], "POST", Handler::Generate(Endpoint::Transcription)),
    (&["/v1/audio/translations"], "POST", Handler::Generate(Endpoint::Translation)),
    (&["/v1/audio/speech"], "POST", Handler::Speech),
    (&["/v1/realtime"], "GET", Handler::Realtime),
    (&["/v1/images/generations"], "POST", Handler::Images),
    (&["/v1/images/edits"], "POST", Handler::EditedImages),
    (&["/generate"], "POST", Handler::Generate(Endpoint::Demo)),
    (&["/", "/generate_stream"], "POST", Handler::Generate(Endpoint::Tgi)),
    (&["/v2/models/*/generate_stream"], "POST", Handler::Generate(Endpoint::Triton)),
    (&["/v1/embeddings"], "POST", Handler::Pool(Pooling::Embeddings)),
    (&["/embeddings"], "POST", Handler::Pool(Pooling::Infinity)),
    (&["/pooling"], "POST", Handler::Pool(Pooling::Plain)),
    (&["/score", "/v1/score"], "POST", Handler::Pool(Pooling::Score)),
    (&["/rerank", "/v1/rerank", "/v2/rerank"], "POST", Handler::Pool(Pooling::Rerank)),
    (&["/tokenize"], "POST", Handler::Compute(info::tokenize)),
    (&["/detokenize"], "POST", Handler::Compute(info::detokenize)),
    (&["/v1/models"], "GET", Handler::Info(info::models)),
    (&["/version"], "GET", Handler::Info(info::version)),
    (&["/server_info"], "GET", Handler::Info(info::server_info)),
    (&["/load"], "GET", Handler::Info(info::load)),
    (&["/is_sleeping"], "GET", Handler::Info(info::is_sleeping)),
    (&["/openapi.json"], "GET", Handler::Info(info::openapi)),
    (&["/docs"], "GET", Handler::Page("text/html; charset=utf-8", |_| DOCS.to_owned())),
    (&["/metrics", "/metrics/"], "GET", Handler::Page("text/plain; version=1.0.0; charset=utf-8", metrics::page)),
    (&["/sleep"], "POST", Handler::Sleep(true)),
    (&["/wake_up"], "POST", Handler::Sleep(false)),
    (&["/reset_prefix_cache"], "POST", Handler::ResetPrefixCache),
    (&["/reset_mm_cache", "/reset_encoder_cache", "/start_profile", "/stop_profile"], "POST", Handler::Nothing),
    (&["/health"], "GET", Handler::Nothing),
    (&["/ping"], "GET, POST", Handler::Nothing),
];

fn is_route(route: &str, path: &str) -> bool {
    let Some((head, tail)) = route.split_once('*') else { return route == path };
    let name = path.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail));
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

pub(crate) enum ResponseBody {
    Whole(Full<Bytes>),
    Stream(Box<EventStream>),
    Chunks(speech::Chunks),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
            ResponseBody::Stream(body) => Pin::new(body.as_mut()).poll_frame(cx),
            ResponseBody::Chunks(chunks) => chunks.poll_recv(cx).map_ok(Frame::data),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(body) => body.size_hint(),
            ResponseBody::Stream(_) | ResponseBody::Chunks(_) => SizeHint::default(),
        }
    }
}

fn response(content_type: &'static str, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn complete(content_type: &'static str, body: impl Into<Bytes>) -> Response<ResponseBody> {
    response(content_type, ResponseBody::Whole(Full::new(body.into())))
}

fn empty() -> Response<ResponseBody> {
    Response::new(ResponseBody::Whole(Full::default()))
}

/// Answers a request. An I/O error means that the connection is to be aborted.
pub(crate) async fn respond(
    app: Arc<App>,
    request: Request<Incoming>,
    reset: ResetSwitch,
) -> io::Result<Response<ResponseBody>> {
    let problem = match route(&app, request, &reset).await {
        Ok(response) => return Ok(response),
        Err(Failure::Abort(error)) => return Err(error),
        Err(Failure::Problem(problem)) => problem,
    };
    let mut response = complete(JSON, problem.body());
    *response.status_mut() = problem.status;
    if let Some(allow) = problem.allow {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    }
    Ok(response)
}

async fn route(app: &Arc<App>, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome<Response<ResponseBody>> {
    if app.started.elapsed() < app.spec.faults.start_delay {
        return Err(Problem::unavailable("the simulator is starting").into());
    }
    let path = request.uri().path().to_owned();
    let found = ROUTES.iter().find(|(routes, ..)| routes.iter().any(|route| is_route(route, &path)));
    let (_, methods, handler) = found.ok_or_else(Problem::not_found)?;
    if !methods.split(", ").any(|method| method == request.method().as_str()) {
        return Err(Problem::wrong_method(methods).into());
    }
    Ok(match *handler {
        Handler::Generate(endpoint) => return generate(app, endpoint, request, reset).await,
        Handler::Pool(pooling) => return pool(app, pooling, request, reset).await,
        Handler::Speech => return speak(app, request, reset).await,
        Handler::Images => return draw(app, images::Ask::read(&fields(request).await?)?, reset).await,
        Handler::EditedImages => {
            let form = form(request).await?;
            form.file.ok_or_else(|| Problem::wrong_type("body.image", "expected a file"))?;
            return draw(app, images::Ask::read(&Fields::from_texts(form.texts))?, reset).await;
        }
        Handler::Realtime => transcribe(app, request, reset)?,
        Handler::Stored => {
            let id = path.split('/').nth(3).unwrap_or_default();
            complete(JSON, app.responses.get(id).ok_or_else(|| Problem::unknown_response(id))?.body)
        }
        Handler::Compute(compute) => complete(JSON, compute(app, &fields(request).await?)?.to_string()),
        Handler::Info(info) => complete(JSON, info(app, request.uri().query().unwrap_or_default()).to_string()),
        Handler::Page(content_type, page) => complete(content_type, page(app)),
        Handler::Sleep(sleeps) => {
            app.sleeping.store(sleeps, Ordering::Relaxed);
            empty()
        }
        Handler::ResetPrefixCache => {
            complete(JSON, json!({"success": app.engine.reset_prefix_cache().await}).to_string())
        }
        Handler::Nothing => empty(),
    })
}

fn header(request: &Request<Incoming>, name: &str) -> Option<String> {
    request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

async fn fields(request: Request<Incoming>) -> Outcome<Fields> {
    let content_type = header(&request, "content-type");
    Ok(Fields::parse(content_type.as_deref(), &received(request).await?)?)
}

async fn form(request: Request<Incoming>) -> Outcome<Form> {
    let content_type = header(&request, "content-type");
    Ok(Form::parse(content_type.as_deref(), &received(request).await?)?)
}

async fn received(request: Request<Incoming>) -> Outcome<Bytes> {
    let too_large = || {
        let message = format!("the body is larger than {MAX_BYTES} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large", &message, None)
    };
    let body = request.into_body();
    if body.size_hint().lower() > MAX_BYTES as u64 {
        return Err(too_large().into());
    }
    match Limited::new(body, MAX_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large().into()),
        Err(error) => Err(io::Error::other(error).into()),
    }
}

async fn generate(
    app: &Arc<App>,
    endpoint: Endpoint,
    request: Request<Incoming>,
    reset: &ResetSwitch,
) -> Outcome<Response<ResponseBody>> {
    let settings = Settings::of(&request);
    let fields = match endpoint {
        Endpoint::Transcription | Endpoint::Translation => audio::fields(form(request).await?)?,
        _ => fields(request).await?,
    };
    let endpoint = meant(endpoint, &fields);
    // Anthropic's protocol has its own errors.
    let own = |problem: Problem| if endpoint == Endpoint::Messages { problem.for_anthropic() } else { problem };
    let generation = start(app, endpoint, &fields, &settings).await.map_err(own)?;
    if !generation.ask.stream {
        return Ok(complete(JSON, whole::respond(generation, reset).await?));
    }
    let body = ResponseBody::Stream(Box::new(EventStream::new(generation, reset.clone())));
    Ok(response(endpoint.protocol().content_type, body))
}

/// The protocol of a request at a shared path, determined by its fields.
fn meant(endpoint: Endpoint, fields: &Fields) -> Endpoint {
    let has = |name: &str| fields.dict().get(name).is_some();
    match endpoint {
        Endpoint::Tgi if has("text_input") => Endpoint::Triton,
        Endpoint::Demo if has("text") || has("input_ids") => Endpoint::Sglang,
        Endpoint::Demo if has("inputs") => Endpoint::Tgi,
        other => other,
    }
}

/// Generation settings outside the body of a request.
struct Settings {
    request_id: Option<String>,
    /// Overrides the body's.
    priority: Option<String>,
    session: Option<String>,
    /// Whether the path is of streams only.
    streams: bool,
}

impl Settings {
    fn of(request: &Request<Incoming>) -> Self {
        Settings {
            request_id: header(request, "x-request-id"),
            priority: header(request, "x-vllm-priority"),
            session: header(request, "x-session-id"),
            streams: request.uri().path().ends_with("/generate_stream"),
        }
    }
}

async fn start(
    app: &Arc<App>,
    endpoint: Endpoint,
    fields: &Fields,
    settings: &Settings,
) -> Result<Generation, Problem> {
    let protocol = endpoint.protocol();
    let (mut ask, sources) = (protocol.read)(fields, app)?;
    ask.stream |= settings.streams;
    if let Some(priority) = &settings.priority {
        let wrong =
            |_| Problem::parameter("priority", &format!("expected an integer in X-Vllm-Priority, got {priority:?}"));
        ask.priority = priority.trim().parse().map_err(wrong)?;
    }
    let model = app.resolve(ask.model.as_deref())?;
    ask.check_limits(&app.spec)?;
    let prompts = tokenized(app, sources).await?;
    let fault = app.next_fault()?;
    let id = protocol.id_prefix.to_owned() + &settings.request_id.clone().unwrap_or_else(|| app.random_id());
    app.api_server.pass(prompts.iter().map(|prompt| prompt.ids.len()).sum()).await;
    Generation::start(app, ask, id, model, prompts, fault, settings.session.as_deref()).await
}

async fn pool(
    app: &Arc<App>,
    pooling: Pooling,
    request: Request<Incoming>,
    reset: &ResetSwitch,
) -> Outcome<Response<ResponseBody>> {
    let id = header(&request, "x-request-id");
    let (ask, sources) = pooling::Ask::read(pooling, &fields(request).await?, app.spec.tokenizer.full_vocab_size())?;
    let model = app.resolve(ask.model.as_deref())?;
    let prompts = tokenized(app, sources).await?;
    let fault = app.next_fault()?;
    let prompts = ask.compute(app, &model, prompts).await?;
    reset.apply(fault).await?;
    let reply = ask.respond(app, &id.unwrap_or_else(|| app.random_id()), &model, &prompts);
    let mut response = complete(reply.content_type, fault.cut(reply.body));
    if let Some(value) = reply.metadata.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert("metadata", value);
    }
    Ok(response)
}

async fn speak(app: &Arc<App>, request: Request<Incoming>, reset: &ResetSwitch) -> Outcome<Response<ResponseBody>> {
    let ask = speech::Ask::read(&fields(request).await?)?;
    let (tokens, fault) = media(app, ask.model.as_deref(), &ask.input).await?;
    let content_type = ask.content_type();
    let chunks = speech::speak(ask, app.spec.media, tokens, fault, reset.clone());
    Ok(response(content_type, ResponseBody::Chunks(chunks)))
}

/// Generates images. The image model has no queue.
async fn draw(app: &Arc<App>, ask: images::Ask, reset: &ResetSwitch) -> Outcome<Response<ResponseBody>> {
    let (_, fault) = media(app, ask.model.as_deref(), &ask.prompt).await?;
    tokio::time::sleep(ask.takes(app.spec.media.image_step)).await;
    reset.apply(fault).await?;
    Ok(complete(JSON, fault.cut(ask.respond(app).to_string().into_bytes())))
}

/// The tokens of the text of a request for media, and its fault, after the API server's time.
async fn media(app: &Arc<App>, model: Option<&str>, text: &str) -> Result<(usize, Fault), Problem> {
    app.resolve(model)?;
    let prompts = tokenized(app, vec![Source::Text(text.to_owned(), false)]).await?;
    let fault = app.next_fault()?;
    let tokens = prompts.iter().map(|prompt| prompt.ids.len()).sum();
    app.api_server.pass(tokens).await;
    Ok((tokens, fault))
}

/// Opens a WebSocket for a live transcript.
fn transcribe(
    app: &Arc<App>,
    mut request: Request<Incoming>,
    reset: &ResetSwitch,
) -> Result<Response<ResponseBody>, Problem> {
    let accept = websocket::accept(request.headers()).ok_or_else(Problem::not_found)?;
    let fault = app.next_fault()?;
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(realtime::serve(Arc::clone(app), upgraded, fault, reset.clone()));
    let mut response = empty();
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().extend(accept);
    Ok(response)
}

/// Tokenized prompts; those that cannot fit are refused first.
async fn tokenized(app: &Arc<App>, sources: Vec<Source>) -> Result<Vec<Prompt>, Problem> {
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
