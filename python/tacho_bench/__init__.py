"""Run tacho from Python and read its results. Needs nothing but the standard library.

    import tacho_bench
    result = tacho_bench.run(["serve", "--sim", "--num-prompts", "100"])
    result["p99_ttft_ms"]

    rows = ({"prompt": f"Tell me about {n}.", "output_len": 32} for n in range(100))
    tacho_bench.run(["serve", "--sim"], dataset=rows)
"""

import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
import threading

__all__ = ["TachoError", "executable", "requests", "run"]


class TachoError(RuntimeError):
    """tacho ended with an exit code other than 0. `result` is what it measured until then, or None."""

    def __init__(self, returncode, message, result=None):
        super().__init__(message or f"tacho ended with exit code {returncode}")
        self.returncode = returncode
        self.result = result


def executable():
    """The path of the tacho command: the one installed with this package, else the one on the PATH."""
    name = "tacho.exe" if os.name == "nt" else "tacho"
    schemes = [None, "posix_user"] if os.name == "posix" else [None]
    for scheme in schemes:
        directory = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    path = shutil.which("tacho")
    if path is None:
        raise FileNotFoundError("the tacho command is not installed: pip install tacho-bench")
    return path


def run(args, *, dataset=None, check=True, **options):
    """Runs `tacho serve …` (or another command with --save-result) and returns its result as a dict; a list of them if the
    command makes several, as with --num-runs.

    `dataset` is an iterable of rows, dicts with the fields of --dataset-command. They are sent in their order, and only as
    many are taken as the run needs (and a few ahead): it may be endless if --num-prompts is given. Without it, all are sent.
    An exception that the iterable raises is raised here.

    `options` go to subprocess.run, e.g. env= or cwd=. The report is not printed: standard output is captured, and so is
    standard error unless stderr= is passed. A non-zero exit code raises TachoError, or with check=False is ignored where
    there is a result.
    """
    args = [os.fspath(arg) for arg in args]
    options.setdefault("stderr", subprocess.PIPE)
    with tempfile.TemporaryDirectory(prefix="tacho-") as directory, _Feed(dataset) as feed:
        flags = ["--save-result", "--result-dir", directory, "--result-filename", "result.json"]
        if dataset is not None:
            options["pass_fds"] = (*options.get("pass_fds", ()), feed.end)
            flags += ["--dataset-command", f"cat /dev/fd/{feed.end}"]
            if not _sets_num_prompts(args, options.get("env") or os.environ, options.get("cwd") or ""):
                flags += ["--num-prompts", "0"]
        ended = subprocess.run([executable(), *args, *flags], stdout=subprocess.PIPE, text=True, **options)
        result = _results(directory)
    if feed.error is not None:
        raise feed.error
    if ended.returncode != 0 and (check or result is None):
        raise TachoError(ended.returncode, _reason(ended.stderr or ""), result)
    return result


def _sets_num_prompts(args, environment, directory):
    """Whether the arguments, the environment or a configuration file set the number of requests."""
    if environment.get("TACHO_NUM_PROMPTS"):
        return True
    names = [arg.split("=")[0].replace("_", "-") for arg in args]
    # As argparse does, tacho takes a unique beginning of a flag.
    if any(name.startswith("--num-p") and "--num-prompts".startswith(name) for name in names):
        return True
    for place, name in enumerate(names):
        if name == "--config":
            path = args[place].partition("=")[2] or "".join(args[place + 1 : place + 2])
            with open(os.path.join(directory, path), encoding="utf-8") as file:
                if re.search(r"^\s*[\"']?num[-_]prompts[\"']?\s*:", file.read(), re.MULTILINE):
                    return True
    return False


def _results(directory):
    """The result in a directory, a list of several, or None."""
    names = [name for name in os.listdir(directory) if name.endswith(".json") and not name.endswith(".runs.json")]
    results = []
    # run2 comes before run10.
    for name in sorted(names, key=lambda name: (len(name), name)):
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            results.append(json.load(file))
    return results[0] if names == ["result.json"] else results or None


class _Feed:
    """Writes rows to a pipe while tacho runs. `end` is the descriptor that tacho reads from."""

    def __init__(self, rows):
        self.rows, self.end, self.error = rows, None, None

    def __enter__(self):
        if self.rows is not None:
            self.end, write = os.pipe()
            self.thread = threading.Thread(target=self._write, args=(write,), daemon=True)
            self.thread.start()
        return self

    def __exit__(self, *_):
        if self.end is not None:
            os.close(self.end)
            # A row source that waits for something forever must not keep the caller.
            self.thread.join(timeout=5)

    def _write(self, descriptor):
        try:
            with open(descriptor, "w", encoding="utf-8") as pipe:
                try:
                    for row in self.rows:
                        pipe.write(json.dumps(row) + "\n")
                except BrokenPipeError:
                    raise
                except BaseException as error:
                    self.error = error
                    # tacho must not go on with fewer rows: this is not JSON.
                    pipe.write("the row source failed\n")
        except BrokenPipeError:
            pass


def _reason(errors):
    """The lines of standard error that say why tacho failed, else all of them."""
    lines = [line for line in errors.splitlines() if line.startswith(("error", "FAILED")) or ": error: " in line]
    return "\n".join(lines) or errors.strip()


def requests(log, format="pandas"):
    """The requests of a log (a directory written by --log), one row each.

    format: "pandas" (a DataFrame, needs pandas and pyarrow), "arrow" (a Table, needs pyarrow) or "dicts" (a list).
    """
    if format not in ("pandas", "arrow", "dicts"):
        raise ValueError(f'format is "pandas", "arrow" or "dicts", not {format!r}')
    with tempfile.TemporaryDirectory(prefix="tacho-") as directory:
        path = os.path.join(directory, "requests.jsonl" if format == "dicts" else "requests.parquet")
        command = [executable(), "report", os.fspath(log), "--save-requests", path]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            raise TachoError(ended.returncode, _reason(ended.stderr))
        if format == "dicts":
            with open(path, encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        return table.to_pandas() if format == "pandas" else table
