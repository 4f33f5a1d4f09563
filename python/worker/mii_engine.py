"""DeepSpeed-MII's pipeline."""

import sys
import time
from tacho_worker_main import Problem


class MiiEngine:
    """One pipeline, the whole batch at once."""

    def __init__(self, params):
        self.settings, self.batches = params["settings"], {}
        started = time.perf_counter()
        try:
            import mii
        except ImportError as error:
            raise Problem("missing", f"{sys.executable} cannot import mii ({error})") from error
        self.mii, self.import_seconds = mii, time.perf_counter() - started

    def parse(self):
        return {"args": {}}

    def load(self, params):
        started = time.perf_counter()
        self.llm = self.mii.pipeline(self.settings["model"], tensor_parallel=self.settings["tensor_parallel_size"])
        return {
            "max_model_len": None,
            "vocab_size": None,
            "import_seconds": self.import_seconds,
            "load_seconds": time.perf_counter() - started,
            "compilation_seconds": 0.0,
            "encoder_compilation_seconds": 0.0,
            "profiler": None,
            "profile_dir": None,
            "versions": {"mii": getattr(self.mii, "__version__", "unknown")},
        }

    def queue(self, params):
        requests = params["requests"]
        for request in requests:
            if not isinstance(request["prompt"], str):
                raise Problem("workload", "Prompt must be a string for MII backend")
        lengths = {request["output_len"] for request in requests}
        if len(lengths) > 1:
            raise Problem("workload", "MII generates one output length for all: give requests of equal --output-len")
        self.batches[params["slot"]] = requests
        return {}

    def generate(self, params):
        requests = self.batches[params["slot"]]
        prompts = [request["prompt"] for request in requests]
        started = time.perf_counter()
        outputs = self.llm(prompts, max_new_tokens=requests[0]["output_len"], ignore_eos=True)
        return {
            "seconds": time.perf_counter() - started,
            "profile_seconds": 0.0,
            "requests": len(requests),
            "prompt_tokens": sum(output.prompt_length for output in outputs),
            "output_tokens": sum(output.generated_length for output in outputs),
            "finished": len(outputs),
            "e2e_ms": [],
        }

    def close(self):
        self.llm = None
