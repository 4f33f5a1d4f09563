"""What compare.sh measures and prints.

    clients.py run URL DIRECTORY LIMIT COMMAND...   runs a client; its cost and what the server counted go to DIRECTORY/run.json
    clients.py table DIRECTORY                      tables of all runs
"""
import ctypes
import glob
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request

PR_SET_CHILD_SUBREAPER = 36
CLIENTS = ["tacho", "vllm", "vllm-rs", "aiperf", "guidellm"]
TIMES = {"ttft": "vllm:time_to_first_token_seconds", "itl": "vllm:inter_token_latency_seconds", "e2el": "vllm:e2e_request_latency_seconds"}


def scraped(url):
    """The server's counters, summed over their labels but the bounds of histograms."""
    values = {}
    with urllib.request.urlopen(url + "/metrics", timeout=30) as response:
        for line in response.read().decode().splitlines():
            if line.startswith("vllm:"):
                name, value = line.rsplit(" ", 1)
                bound = name.split('le="')[1].split('"')[0] if 'le="' in name else ""
                name = name.split("{")[0] + (" " + bound if bound else "")
                values[name] = values.get(name, 0.0) + float(value)
    return values


def tree(root):
    """The processes below one, itself included."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                parents.setdefault(int(file.read().rsplit(") ", 1)[1].split()[1]), []).append(int(path.split("/")[2]))
        except OSError:
            pass
    found = [root]
    for pid in found:
        found += parents.get(pid, [])
    return found


def memory(pids):
    """Their memory in MiB; what they share counts once."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except OSError:
            pass
    return total / 1024


def run(url, directory, limit, command):
    # Orphans of the client become children of this process, whose times then include theirs.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before, begin, ended, peak = scraped(url), time.monotonic(), threading.Event(), [0.0]
    with open(os.path.join(directory, "output.txt"), "w") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    def sample():
        while not ended.wait(0.25):
            peak[0] = max(peak[0], memory(tree(os.getpid())[1:]))

    def end():
        for pid in tree(os.getpid())[1:]:
            os.kill(pid, signal.SIGKILL)

    sampler, timer = threading.Thread(target=sample), threading.Timer(limit, end)
    sampler.start(), timer.start()
    child.wait()
    wall = time.monotonic() - begin
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    ended.set(), timer.cancel(), sampler.join()
    usage, after = resource.getrusage(resource.RUSAGE_CHILDREN), scraped(url)
    measured = {
        "command": command,
        "exit_code": child.returncode,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "memory_mib": peak[0] or usage.ru_maxrss / 1024,
        "wall_s": wall,
        "server": {name: value - before.get(name, 0.0) for name, value in after.items()},
    }
    with open(os.path.join(directory, "run.json"), "w") as file:
        json.dump(measured, file, indent=1)


def reported(directory):
    """What a client printed: tokens/s, duration, and mean and p99 in ms."""
    result, aiperf, guidellm = (os.path.join(directory, name) for name in ["result.json", "profile_export_aiperf.json", "benchmarks.json"])
    if os.path.exists(result):
        of = json.load(open(result))
        found = {"tokens/s": of["output_throughput"], "duration": of["duration"], "done": of["completed"]}
        return found | {f"{at} {key}": of.get(f"{at}_{key}_ms") for at in ["mean", "p99"] for key in ["ttft", "itl"]}
    if os.path.exists(aiperf):
        of = json.load(open(aiperf))
        found = {"tokens/s": of["output_token_throughput"]["avg"], "duration": of["benchmark_duration"]["avg"], "done": of["request_count"]["avg"]}
        for key, name in {"ttft": "time_to_first_token", "itl": "inter_chunk_latency"}.items():
            found |= {f"mean {key}": of.get(name, {}).get("avg"), f"p99 {key}": of.get(name, {}).get("p99")}
        return found
    if os.path.exists(guidellm):
        of = json.load(open(guidellm))["benchmarks"][0]
        value = lambda name: of["metrics"][name]["successful"]
        ttft = value("time_to_first_token_ms")
        # It keeps one mean per request, so that a percentile of gaps is not known.
        return {"tokens/s": value("output_tokens_per_second")["mean"], "duration": of["duration"], "done": value("request_latency")["count"],
                "mean ttft": ttft["mean"], "p99 ttft": ttft["percentiles"]["p99"], "mean itl": value("inter_token_latency_ms")["mean"]}
    return {}


def known(server, key):
    """The server's mean in ms, and the bounds of the bucket of its histogram that holds the 99th percentile."""
    name, low = TIMES[key], 0.0
    count = server.get(f"{name}_count", 0.0)
    if not count:
        return None, None
    buckets = sorted((float(of.split()[1]), value) for of, value in server.items() if of.startswith(f"{name}_bucket"))
    for bound, below in buckets:
        if below >= 0.99 * count:
            return server[f"{name}_sum"] / count * 1e3, (low * 1e3, bound * 1e3)
        low = bound
    return server[f"{name}_sum"] / count * 1e3, None


def shown(value, digits=3):
    if value is None:
        return "–"
    if isinstance(value, tuple):
        return f"{shown(value[0])} to {shown(value[1])}"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def table(directory):
    runs = {}
    for path in glob.glob(os.path.join(directory, "*", "*", "run.json")):
        name, level = os.path.basename(os.path.dirname(path)).rsplit("-", 1)
        runs.setdefault((name, level), []).append((json.load(open(path)), reported(os.path.dirname(path))))
    names = [name for name in CLIENTS if any(key[0] == name for key in runs)]
    levels = sorted({int(level) for _, level in runs if level != "start"})

    def middle(values):
        values = [value for value in values if value is not None]
        return statistics.median(values) if values else None

    def cost(name, level):
        """CPU in µs per token that the server generated, without what starting costs; none where starting costs nearly all."""
        start = middle(of["cpu_s"] for of, _ in runs.get((name, "start"), [])) or 0.0
        total = middle(of["cpu_s"] for of, _ in runs.get((name, level), []) if of["exit_code"] == 0)
        tokens = middle(of["server"].get("vllm:generation_tokens_total") for of, _ in runs.get((name, level), []))
        return (total - start) / tokens * 1e6 if tokens and total and total > 1.2 * start else None

    print("| streams | client | CPU of the run (s) | µs of CPU per token | × tacho | memory (MiB) | output tokens/s |\n|--:|---|--:|--:|--:|--:|--:|")
    for level in ["start", *map(str, levels)]:
        for name in names:
            if of := runs.get((name, level)):
                own, ours = cost(name, level), cost("tacho", level)
                failed = "" if all(one["exit_code"] == 0 for one, _ in of) else " **failed**"
                columns = [middle(one["cpu_s"] for one, _ in of), None, None, middle(one["memory_mib"] for one, _ in of), None]
                if level != "start":
                    columns[1:3] = own, own / ours if own and ours else None
                    columns[4] = middle(said.get("tokens/s") for _, said in of)
                print(f"| {level} | {name}{failed} |", " | ".join(map(shown, columns)), "|")
    print("\n| streams | client | mean TTFT | server's | p99 TTFT | server's | mean ITL | server's | p99 ITL | server's | streams in use |\n|--:|---|" + "--:|" * 9)
    for level in map(str, levels):
        for name in names:
            if of := runs.get((name, level)):
                columns = []
                for key in ["ttft", "itl"]:
                    theirs = [known(one["server"], key) for one, _ in of]
                    columns += [middle(said.get(f"mean {key}") for _, said in of), middle(mean for mean, _ in theirs)]
                    columns += [middle(said.get(f"p99 {key}") for _, said in of), max((p99 for _, p99 in theirs if p99), default=None)]
                # By Little's law, from the server's latencies and the client's duration.
                busy = middle(one["server"].get(TIMES["e2el"] + "_sum", 0.0) / said["duration"] for one, said in of if said.get("duration"))
                print(f"| {level} | {name} |", " | ".join(map(shown, [*columns, busy])), "|")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) > 5:
        run(sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5:])
    elif sys.argv[1:2] == ["table"] and len(sys.argv) == 3:
        table(sys.argv[2])
    else:
        sys.exit(__doc__)
