"""transformers, batched as vLLM's benchmark batches it. Runs without vLLM."""

import sys
import time
from tacho_worker_main import Problem

TOKEN_BUDGET = 2048


def batches(requests, largest):
    """Consecutive requests; a batch is closed when it is full or when the next would not fit the budget per row."""
    batch, prompt_len, output_len = [], 0, 0
    for index, request in enumerate(requests):
        batch.append(request)
        prompt_len = max(prompt_len, request["prompt_len"])
        output_len = max(output_len, request["output_len"])
        if len(batch) < largest and index + 1 < len(requests):
            after = requests[index + 1]
            if max(prompt_len, after["prompt_len"]) + max(output_len, after["output_len"]) <= TOKEN_BUDGET:
                continue
        yield batch, output_len
        batch, prompt_len, output_len = [], 0, 0


class HfEngine:
    """A transformers model."""

    def __init__(self, params):
        self.settings, self.batches = params["settings"], {}
        started = time.perf_counter()
        try:
            import torch
            import transformers
        except ImportError as error:
            raise Problem("missing", f"{sys.executable} cannot import transformers ({error})") from error
        self.torch, self.transformers = torch, transformers
        self.import_seconds = time.perf_counter() - started

    def parse(self):
        return {"args": {}}

    def load(self, params):
        settings, torch = self.settings, self.torch
        started = time.perf_counter()
        trust = settings["trust_remote_code"]
        self.tokenizer = self.transformers.AutoTokenizer.from_pretrained(settings["tokenizer"], trust_remote_code=trust)
        self.model = self.transformers.AutoModelForCausalLM.from_pretrained(
            settings["model"], dtype=settings["dtype"], trust_remote_code=trust
        ) if not settings["dummy_weights"] else self.random_model(settings, trust)
        if self.model.config.model_type == "llama" or self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = self.model.to(self.device)
        if settings["torch_compile"]:
            self.model = torch.compile(self.model)
        versions = {"transformers": self.transformers.__version__, "torch": torch.__version__}
        return {
            "max_model_len": None,
            "vocab_size": len(self.tokenizer),
            "import_seconds": self.import_seconds,
            "load_seconds": time.perf_counter() - started,
            "compilation_seconds": 0.0,
            "encoder_compilation_seconds": 0.0,
            "profiler": None,
            "profile_dir": None,
            "versions": versions,
        }

    def random_model(self, settings, trust):
        """What `--load-format dummy` asks of vLLM: the model's shape with random weights."""
        config = self.transformers.AutoConfig.from_pretrained(settings["model"], trust_remote_code=trust)
        dtype = None if settings["dtype"] == "auto" else getattr(self.torch, settings["dtype"])
        model = self.transformers.AutoModelForCausalLM.from_config(config, trust_remote_code=trust)
        return model.to(dtype or getattr(config, "dtype", None) or self.torch.float32)

    def queue(self, params):
        for request in params["requests"]:
            if not isinstance(request["prompt"], str):
                raise Problem("workload", "Prompt must be a string for HF backend")
        self.batches[params["slot"]] = params
        return {}

    def generate(self, params):
        import tqdm

        queued = self.batches[params["slot"]]
        requests, count = queued["requests"], queued["n"]
        bar = tqdm.tqdm(total=len(requests), disable=not params["progress"])
        started = time.perf_counter()
        for batch, output_len in batches(requests, self.settings["max_batch_size"]):
            ids = self.tokenizer([request["prompt"] for request in batch], return_tensors="pt", padding=True).input_ids
            output = self.model.generate(
                input_ids=ids.to(self.device),
                do_sample=True,
                num_return_sequences=count,
                temperature=1.0,
                top_p=1.0,
                use_cache=True,
                min_new_tokens=output_len,
                max_new_tokens=output_len,
            )
            if queued["detokenize"]:
                self.tokenizer.batch_decode(output, skip_special_tokens=True)
            bar.update(len(batch))
        seconds = time.perf_counter() - started
        bar.close()
        return {
            "seconds": seconds,
            "profile_seconds": 0.0,
            "requests": len(requests),
            "prompt_tokens": sum(request["prompt_len"] for request in requests),
            "output_tokens": sum(request["output_len"] for request in requests) * count,
            "finished": len(requests),
            "e2e_ms": [],
        }

    def close(self):
        self.model = None
