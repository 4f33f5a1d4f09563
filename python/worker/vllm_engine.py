"""vLLM's engines: synchronous, chat and asynchronous."""

import asyncio
import gc
import os
import sys
import threading
import time
from tacho_worker_main import Problem

# Seconds that a call which waits for a dead engine gets to fail by itself: its own error says more.
PATIENCE = 5.0


def plain(value):
    """The value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value == value and value not in (float("inf"), float("-inf")) else str(value)
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    if hasattr(value, "value") and type(value).__mro__[1:2] and hasattr(type(value), "__members__"):
        return plain(value.value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name, None)) for name in value.__dataclass_fields__}
    return f"<{type(value).__name__} is not JSON serializable>"


def as_data(name, value):
    """Media as the engine takes them: a sound is an array of samples with its rate."""
    if name != "audio":
        return value
    import numpy

    samples, rate = value
    return numpy.asarray(samples, dtype=numpy.float32), rate


def find(owner, path, what):
    """An attribute that not every release has."""
    for name in path.split("."):
        if not hasattr(owner, name):
            raise Problem("engine", f"{what} is not supported by this vLLM ({name} is missing)")
        owner = getattr(owner, name)
    return owner


def watch(resources, closing):
    """Ends this process when the engine core's process died: vLLM's synchronous client then waits for ever."""
    while not closing.wait(1.0):
        if resources.engine_dead and not closing.wait(PATIENCE):
            print("the engine core's process died; is there a message of the kernel about memory?", file=sys.stderr)
            sys.stderr.flush()
            os._exit(1)


class VllmEngine:
    """The synchronous engine; the others differ in how a batch is run."""

    is_async = False

    def __init__(self, params):
        self.params, self.batches, self.llm = params, {}, None
        self.closing = threading.Event()
        started = time.perf_counter()
        try:
            import vllm
        except ImportError as error:
            raise Problem("missing", f"{sys.executable} cannot import vllm ({error})") from error
        self.import_seconds, self.vllm = time.perf_counter() - started, vllm

    def parse(self):
        """Reads the engine's arguments with the engine's own parser."""
        from vllm.engine.arg_utils import AsyncEngineArgs, EngineArgs

        try:
            from vllm.utils.argparse_utils import FlexibleArgumentParser
        except ImportError:
            from vllm.utils import FlexibleArgumentParser
        kind = AsyncEngineArgs if self.is_async or self.params["accepts_async_flags"] else EngineArgs

        def refuse(message):
            raise Problem("usage", message, usage=True)

        parser = FlexibleArgumentParser(prog="tacho")
        parser = kind.add_cli_args(parser)
        parser.error = refuse
        parser.set_defaults(**self.params["defaults"])
        namespace, left = parser.parse_known_args(self.params["words"])
        if left:
            refuse("unrecognized arguments: " + " ".join(left))
        kind = AsyncEngineArgs if self.is_async else EngineArgs
        self.engine_args = kind.from_cli_args(namespace)
        if self.params["mm_stats"]:
            self.engine_args.enable_mm_processor_stats = True
        return {"args": {name: plain(value) for name, value in vars(namespace).items()}}

    def load(self, params):
        from vllm import LLM

        started = time.perf_counter()
        if hasattr(LLM, "from_engine_args"):
            self.llm = LLM.from_engine_args(self.engine_args)
        else:
            import dataclasses

            self.llm = LLM(**dataclasses.asdict(self.engine_args))
        seconds = time.perf_counter() - started
        resources = getattr(getattr(self.llm.llm_engine, "engine_core", None), "resources", None)
        if hasattr(resources, "engine_dead"):
            threading.Thread(target=watch, args=(resources, self.closing), daemon=True).start()
        return self.loaded(self.llm.llm_engine.model_config, getattr(self.llm.llm_engine, "vllm_config", None), seconds)

    def loaded(self, model, config, seconds):
        compilation = getattr(config, "compilation_config", None)
        profiler = getattr(config, "profiler_config", None)
        folder = getattr(profiler, "torch_profiler_dir", "") or getattr(profiler, "proton_profiler_dir", "")
        versions = {"vllm": self.vllm.__version__}
        try:
            import torch

            versions["torch"] = torch.__version__
        except ImportError:
            pass
        return {
            "max_model_len": model.max_model_len,
            "vocab_size": model.get_vocab_size(),
            "import_seconds": self.import_seconds,
            "load_seconds": seconds,
            "compilation_seconds": float(getattr(compilation, "compilation_time", 0.0) or 0.0),
            "encoder_compilation_seconds": float(getattr(compilation, "encoder_compilation_time", 0.0) or 0.0),
            "profiler": getattr(profiler, "profiler", None),
            "profile_dir": folder or None,
            "versions": versions,
        }

    def sampling(self, params, output_len):
        from vllm import SamplingParams

        return SamplingParams(
            n=params["n"],
            temperature=params["temperature"],
            top_p=1.0,
            ignore_eos=params["ignore_eos"],
            max_tokens=output_len,
            detokenize=params["detokenize"],
        )

    def prompt(self, request):
        from vllm.inputs import TextPrompt, TokensPrompt

        content = request["prompt"]
        if isinstance(content, dict) and "prompt_token_ids" in content:
            prompt = TokensPrompt(prompt_token_ids=content["prompt_token_ids"])
        elif isinstance(content, str):
            prompt = TextPrompt(prompt=content)
        else:
            raise Problem("workload", "the plain engine takes texts and token ids; use --backend vllm-chat for messages")
        media = request.get("media")
        if media:
            if not isinstance(media, dict) or "type" in media:
                raise Problem("workload", "the plain engine does not take chat media; use --backend vllm-chat")
            prompt["multi_modal_data"] = {name: as_data(name, value) for name, value in media.items()}
        return prompt

    def queue(self, params):
        """Builds everything that is built before the clock starts."""
        requests = params["requests"]
        self.batches[params["slot"]] = {
            "prompts": [self.prompt(request) for request in requests],
            "sampling": [self.sampling(params, request["output_len"]) for request in requests],
            "loras": self.loras(params, requests),
            "beam": self.beam(params, requests),
            "priority": self.priorities(requests),
        }
        return {}

    def beam(self, params, requests):
        if not params["beam"]:
            return None
        from vllm.sampling_params import BeamSearchParams

        settings = {"beam_width": params["n"], "max_tokens": requests[0]["output_len"], "ignore_eos": True}
        try:
            return BeamSearchParams(**settings, watermarking=False)
        except TypeError:
            return BeamSearchParams(**settings)

    def priorities(self, requests):
        """The order in which requests are served, where any has a place in it; lower ones first."""
        if all(request.get("priority") is None for request in requests):
            return {}
        return {"priority": [request.get("priority") or 0 for request in requests]}

    def loras(self, params, requests):
        if params.get("lora_path") is None:
            return None
        from vllm.lora.request import LoRARequest
        from vllm.lora.utils import get_adapter_absolute_path

        path = get_adapter_absolute_path(params["lora_path"])
        ids = [request.get("lora") for request in requests]
        return [i and LoRARequest(lora_name=str(i), lora_int_id=i, lora_path=path) for i in ids]

    def generate(self, params):
        batch = self.batches[params["slot"]]
        if params["fresh"]:
            self.forget()
        if params["prequeue"]:
            find(self.llm, "enqueue", "--prequeue-requests")
            self.llm.sleep(level=0, mode="abort")
        profile_seconds = 0.0
        started = time.perf_counter()
        if params["profile"]:
            self.llm.start_profile()
            profile_seconds = time.perf_counter() - started
        outputs = self.run(batch, params)
        if params["profile"]:
            stopping = time.perf_counter()
            self.llm.stop_profile()
            profile_seconds += time.perf_counter() - stopping
        seconds = time.perf_counter() - started
        return self.counted(outputs, batch, seconds, profile_seconds)

    def forget(self):
        """Drops cached prefixes and processed media, so that a second run of the same batch does the same work."""
        find(self.llm, "reset_prefix_cache", "--num-runs")()
        getattr(self.llm.llm_engine, "reset_mm_cache", lambda: None)()

    def run(self, batch, params):
        if batch["beam"] is not None:
            self.llm.beam_search(batch["prompts"], batch["beam"])
            return None
        sampling = batch["sampling"]
        if params["single_sampling"]:
            sampling = sampling[0]
        if params["prequeue"]:
            from vllm import RequestOutput

            try:
                self.enqueue(batch, sampling)
            finally:
                self.llm.wake_up(tags=["scheduling"])
            return self.llm.wait_for_completion(output_type=RequestOutput, use_tqdm=True)
        return self.ask(batch, sampling, params["progress"])

    def ask(self, batch, sampling, progress):
        return self.llm.generate(
            batch["prompts"], sampling, lora_request=batch["loras"], use_tqdm=progress, **batch["priority"]
        )

    def enqueue(self, batch, sampling):
        self.llm.enqueue(
            batch["prompts"], sampling, lora_request=batch["loras"], use_tqdm=True, **batch["priority"]
        )

    def counted(self, outputs, batch, seconds, profile_seconds):
        result = {"seconds": seconds, "profile_seconds": profile_seconds, "requests": len(batch["prompts"])}
        if outputs is None:
            return result | {"prompt_tokens": 0, "output_tokens": 0, "finished": len(batch["prompts"]), "e2e_ms": []}
        latencies = []
        for output in outputs:
            metrics = getattr(output, "metrics", None)
            first = getattr(metrics, "first_token_latency", None)
            if output.finished and first:
                span = (metrics.last_token_ts or 0.0) - (metrics.first_token_ts or 0.0)
                latencies.append((first + max(0.0, span)) * 1000)
        return result | {
            "prompt_tokens": sum(len(output.prompt_token_ids or ()) for output in outputs),
            "output_tokens": sum(len(part.token_ids) for output in outputs for part in output.outputs),
            "finished": sum(bool(output.finished) for output in outputs),
            "e2e_ms": latencies,
        }

    def mm_stats(self, params):
        """Stage times by request, of the renderer and of the encoder; reading empties both."""
        if params.get("freeze"):
            for generation in (0, 1, 2):
                gc.collect(generation)
            gc.freeze()
        registry = find(self.llm, "llm_engine.renderer._mm_timing_registry", "mm-processor")
        stats = {key: dict(value) for key, value in (registry.stat() or {}).items()}
        encoder = {}
        for worker in self.llm.llm_engine.collective_rpc("get_encoder_timing_stats") or ():
            for key, value in (worker or {}).items():
                known = encoder.setdefault(key, {})
                for stage in ("encoder_forward_secs", "num_encoder_calls"):
                    known[stage] = max(known.get(stage, 0), value.get(stage, 0))
        for key, value in encoder.items():
            short = key.rsplit("-", 1)[0]
            stats.setdefault(key if key in stats or short not in stats else short, {}).update(value)
        return {"requests": plain(stats)}

    def close(self):
        # The client calls a core that it ended itself dead, too.
        self.closing.set()
        self.llm = None


class VllmChatEngine(VllmEngine):
    """The same engine, asked in conversations."""

    def prompt(self, request):
        content = request["prompt"]
        if isinstance(content, list):
            return content
        if not isinstance(content, str):
            raise Problem("workload", "--backend vllm-chat takes texts and chat messages, not token ids")
        media = request.get("media")
        parts = media if isinstance(media, list) else [] if media is None else [media]
        return [{"role": "user", "content": [{"type": "text", "text": content}, *parts]}]

    def ask(self, batch, sampling, progress):
        return self.llm.chat(batch["prompts"], sampling, use_tqdm=progress)

    def enqueue(self, batch, sampling):
        self.llm.enqueue_chat(batch["prompts"], sampling, use_tqdm=True)


class VllmAsyncEngine(VllmEngine):
    """The asynchronous engine, on a loop of its own."""

    is_async = True

    def load(self, params):
        try:
            from vllm.entrypoints.launchers.api_server.entry import build_async_engine_client_from_engine_args as build
        except ImportError:
            from vllm.entrypoints.openai.api_server import build_async_engine_client_from_engine_args as build
        try:
            import uvloop

            self.loop = uvloop.new_event_loop()
        except ImportError:
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        started = time.perf_counter()
        self.context = build(self.engine_args)
        self.llm = self.loop.run_until_complete(self.context.__aenter__())
        seconds = time.perf_counter() - started
        return self.loaded(self.llm.model_config, getattr(self.llm, "vllm_config", None), seconds)

    def generate(self, params):
        batch = self.batches[params["slot"]]
        prefix = "warmup" if params["slot"] == "warmup" else "test"
        if params["fresh"]:
            self.loop.run_until_complete(find(self.llm, "reset_prefix_cache", "--num-runs")())
            self.loop.run_until_complete(find(self.llm, "reset_mm_cache", "--num-runs")())
        return self.loop.run_until_complete(self.drain(batch, prefix, params["profile"]))

    async def drain(self, batch, prefix, profile):
        loras = batch["loras"] or [None] * len(batch["prompts"])

        async def last(generator):
            final = None
            async for output in generator:
                final = output
            return final

        profile_seconds, started = 0.0, time.perf_counter()
        if profile:
            await self.llm.start_profile()
            profile_seconds = time.perf_counter() - started
        generators = [
            self.llm.generate(prompt, sampling, lora_request=lora, request_id=f"{prefix}{i}")
            for i, (prompt, sampling, lora) in enumerate(zip(batch["prompts"], batch["sampling"], loras))
        ]
        outputs = await asyncio.gather(*(last(generator) for generator in generators))
        if profile:
            stopping = time.perf_counter()
            await self.llm.stop_profile()
            profile_seconds += time.perf_counter() - stopping
        return self.counted(outputs, batch, time.perf_counter() - started, profile_seconds)

    def sampling(self, params, output_len):
        sampling = super().sampling(params, output_len)
        from vllm.sampling_params import RequestOutputKind

        # One final output per request: its token ids are complete, so that they can be counted.
        sampling.output_kind = RequestOutputKind.FINAL_ONLY
        return sampling

    def close(self):
        if self.llm is not None:
            self.loop.run_until_complete(self.context.__aexit__(None, None, None))


def make(params):
    kinds = {"vllm": VllmEngine, "vllm-chat": VllmChatEngine, "vllm-async": VllmAsyncEngine}
    if params["engine"] not in kinds:
        raise Problem("protocol", f"this worker has no engine {params['engine']!r}")
    return kinds[params["engine"]](params)
