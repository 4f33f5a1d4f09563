"""A stand-in for vLLM with the calls that tacho's worker makes, and no engine. `STUB` chooses how it misbehaves.

It generates the tokens that it is asked for at once, and writes what it was called with to `stub.log`, a JSON line each.
"""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import types

__version__ = "0.32.0-stub"
MISCHIEF = os.environ.get("STUB", "")


def note(call, **what):
    with open("stub.log", "a") as log:
        log.write(json.dumps({"call": call, **what}) + "\n")


def module(name, **members):
    """Registers `vllm.<name>` and the packages above it."""
    parts = name.split(".")
    for at in range(1, len(parts) + 1):
        full = "vllm." + ".".join(parts[:at])
        sys.modules.setdefault(full, types.ModuleType(full))
    vars(sys.modules["vllm." + name]).update(members)


@dataclasses.dataclass
class EngineArgs:
    model: str = "m"
    enable_prefix_caching: object = None
    max_model_len: int = 2048
    profiler_dir: object = None
    profiler_config: object = None
    enable_mm_processor_stats: bool = False

    @classmethod
    def add_cli_args(cls, parser):
        parser.add_argument("--model", default="m")
        parser.add_argument("--tokenizer")
        parser.add_argument("--load-format")
        parser.add_argument("--kv-transfer-config")
        parser.add_argument("--max-loras", type=int, default=1)
        parser.add_argument("--enable-lora", action="store_true")
        parser.add_argument("--max-model-len", type=int, default=2048)
        parser.add_argument("--profiler-dir")
        parser.add_argument("--profiler-config", type=json.loads, default={})
        parser.add_argument("--data-parallel-size", type=int, default=1)
        parser.add_argument("--distributed-executor-backend")
        parser.add_argument("--dtype", choices=["auto", "float32"], default="auto")
        parser.add_argument("--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=None)
        return parser

    @classmethod
    def from_cli_args(cls, args):
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in vars(args).items() if name in names})


class AsyncEngineArgs(EngineArgs):
    pass


@dataclasses.dataclass
class SamplingParams:
    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    ignore_eos: bool = False
    max_tokens: int = 16
    detokenize: bool = True
    output_kind: object = None


@dataclasses.dataclass
class BeamSearchParams:
    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    watermarking: bool = True


@dataclasses.dataclass
class LoRARequest:
    lora_name: str
    lora_int_id: int
    lora_path: str


class RequestOutput:
    def __init__(self, prompt_tokens, params):
        self.finished, self.metrics = True, None
        self.prompt_token_ids = [0] * prompt_tokens
        self.outputs = [types.SimpleNamespace(token_ids=[0] * params.max_tokens) for _ in range(params.n)]


def count(prompt):
    return len(prompt["prompt_token_ids"]) if "prompt_token_ids" in prompt else len(prompt["prompt"].split())


def misbehave(where):
    if MISCHIEF == f"kill-{where}":
        print("about to fall", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if MISCHIEF == f"segv-{where}":
        print("a segmentation fault is near", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if MISCHIEF == f"hang-{where}":
        child = subprocess.Popen(["sleep", "600"])
        open("child", "w").write(str(child.pid))
        time.sleep(600)
    if MISCHIEF == f"core-{where}":
        CORE.engine_dead = True
        time.sleep(600)
    if MISCHIEF == f"memory-{where}":
        raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if MISCHIEF == f"error-{where}":
        raise ValueError("the layers do not fit\nsecond line")
    if MISCHIEF == f"exit-{where}":
        sys.exit(3)
    if MISCHIEF == "noise":
        print("5\nhello from print")
        os.write(1, b"17\n{\"id\": 1, \"result\": {}}")
        os.system("echo noise of a child")


# What the client knows of the process that runs the model.
CORE = types.SimpleNamespace(engine_dead=False)


class Registry:
    def __init__(self):
        self.times = {}

    def stat(self):
        times, self.times = self.times, {}
        return times


class LLM:
    def __init__(self, args):
        misbehave("load")
        note("load", pid=os.getpid(), prefix_caching=args.enable_prefix_caching, env=os.environ.get("VLLM_CACHE_ROOT"))
        config = types.SimpleNamespace(max_model_len=args.max_model_len, get_vocab_size=lambda: 500)
        profiler = types.SimpleNamespace(
            profiler="torch" if args.profiler_dir else args.profiler_config.get("profiler"),
            torch_profiler_dir=args.profiler_dir or "",
        )
        compilation = types.SimpleNamespace(compilation_time=1.5, encoder_compilation_time=0.0)
        self.model_config = config
        self.vllm_config = types.SimpleNamespace(compilation_config=compilation, profiler_config=profiler)
        self.registry, self.runs = Registry(), 0
        self.llm_engine = types.SimpleNamespace(
            model_config=config,
            engine_core=types.SimpleNamespace(resources=CORE),
            vllm_config=self.vllm_config,
            renderer=types.SimpleNamespace(_mm_timing_registry=self.registry),
            collective_rpc=lambda name: [
                {f"{i}-0": {"encoder_forward_secs": 0.002, "num_encoder_calls": 1} for i in range(self.runs)}
            ],
            reset_mm_cache=lambda: note("reset_mm_cache"),
        )

    @classmethod
    def from_engine_args(cls, args):
        return cls(args)

    def generate(self, prompts, sampling_params, lora_request=None, use_tqdm=True):
        misbehave("generate")
        time.sleep(float(os.environ.get("STUB_SECONDS", "0")))
        self.runs = len(prompts)
        every = sampling_params if isinstance(sampling_params, list) else [sampling_params] * len(prompts)
        loras = [lora and [lora.lora_int_id, lora.lora_path] for lora in lora_request or []]
        note("generate", prompts=len(prompts), n=every[0].n, loras=loras, detokenize=every[0].detokenize)
        return [RequestOutput(count(prompt), params) for prompt, params in zip(prompts, every)]

    def chat(self, conversations, sampling_params, use_tqdm=True):
        self.registry.times = {str(i): {"apply_hf_processor_secs": 0.01} for i in range(len(conversations))}
        texts = [" ".join(part.get("text", "") for part in talk[0]["content"]) for talk in conversations]
        return self.generate([{"prompt": text} for text in texts], sampling_params)

    def beam_search(self, prompts, params):
        note("beam_search", width=params.beam_width, watermarking=params.watermarking)

    def reset_prefix_cache(self):
        note("reset_prefix_cache")

    def start_profile(self):
        note("start_profile")

    def stop_profile(self):
        note("stop_profile")


class AsyncLLM:
    def __init__(self, args):
        self.inner = LLM(args)
        self.model_config, self.vllm_config = self.inner.model_config, self.inner.vllm_config

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        note("aexit")

    async def generate(self, prompt, params, lora_request=None, request_id=None):
        note("async", id=request_id)
        yield self.inner.generate([prompt], params, [lora_request] if lora_request else None)[0]


module("engine.arg_utils", EngineArgs=EngineArgs, AsyncEngineArgs=AsyncEngineArgs)
module("utils.argparse_utils", FlexibleArgumentParser=argparse.ArgumentParser)
module("sampling_params", BeamSearchParams=BeamSearchParams, RequestOutputKind=types.SimpleNamespace(FINAL_ONLY=2))
module("inputs", TextPrompt=dict, TokensPrompt=dict)
module("lora.request", LoRARequest=LoRARequest)
module("lora.utils", get_adapter_absolute_path=os.path.abspath)
module("entrypoints.openai.api_server", build_async_engine_client_from_engine_args=AsyncLLM)
