"""The Python side of tacho's offline benchmarks: one engine, driven over a pair of pipes.

A frame is the length of a JSON text in decimal, a line feed, and the text. The driver sends {"id", "call", "params"};
the answer is {"id", "result"} or {"id", "error": {"kind", "message", "usage"}}. The first frame, sent unasked, says
hello. All times are taken here, around the engine call alone.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback

PROTOCOL = 1
MAGIC = b"tacho-worker\n"


class Problem(Exception):
    """Something to tell the user in one line; `usage` marks a wrong engine argument."""

    def __init__(self, kind, message, usage=False):
        super().__init__(message)
        self.kind, self.message, self.usage = kind, message, usage


class Channel:
    """Takes over stdin and stdout before any library can write to them, and gives the engine stderr instead."""

    def __init__(self):
        self.source = os.fdopen(os.dup(0), "rb")
        self.sink = os.fdopen(os.dup(1), "wb")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(2, 1)
        self.calls = queue.Queue()

    def listen(self):
        """Reads calls until the driver is gone, then ends the whole process group with it."""
        try:
            while True:
                length = self.source.readline()
                if not length:
                    break
                self.calls.put(json.loads(self.source.read(int(length))))
        finally:
            if os.getpgrp() == os.getpid():
                os.killpg(os.getpgrp(), signal.SIGKILL)
            os._exit(1)

    def send(self, message):
        text = json.dumps(message).encode()
        self.sink.write(b"%d\n%s" % (len(text), text))
        self.sink.flush()


def make_engine(params):
    name = params["engine"]
    if name == "hf":
        import hf_engine

        return hf_engine.HfEngine(params)
    if name == "mii":
        import mii_engine

        return mii_engine.MiiEngine(params)
    import vllm_engine

    return vllm_engine.make(params)


def one_line(error):
    """The first line that says something; the rest is in the log."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def describe(error):
    if isinstance(error, Problem):
        return {"kind": error.kind, "message": error.message, "usage": error.usage}
    traceback.print_exception(error)
    name = type(error).__name__
    text = one_line(error)
    memory = "OutOfMemory" in name or "out of memory" in str(error).lower() or isinstance(error, MemoryError)
    return {"kind": "memory" if memory else "engine", "message": f"{name}: {text}", "usage": False}


def serve(channel):
    channel.sink.write(MAGIC)
    channel.send({"tacho_worker": PROTOCOL, "python": sys.version.split()[0], "executable": sys.executable})
    engine = None
    while True:
        message = channel.calls.get()
        call, params = message["call"], message["params"]
        if call == "close":
            if engine is not None:
                engine.close()
            channel.send({"id": message["id"], "result": {}})
            return
        try:
            if call == "parse":
                engine = make_engine(params)
                result = engine.parse()
            elif call in ("load", "queue", "generate", "mm_stats"):
                result = getattr(engine, call)(params)
            else:
                raise Problem("protocol", f"unknown call {call!r}")
            channel.send({"id": message["id"], "result": result})
        except SystemExit as error:
            answer = {"kind": "engine", "message": f"the engine ended with exit status {error.code}", "usage": False}
            channel.send({"id": message["id"], "error": answer})
        except BaseException as error:
            channel.send({"id": message["id"], "error": describe(error)})


def main():
    channel = Channel()
    # Children that import this file again must find the engines' modules, and no second worker.
    sys.modules["tacho_worker_main"] = sys.modules["__main__"]
    threading.Thread(target=channel.listen, daemon=True).start()
    serve(channel)
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
