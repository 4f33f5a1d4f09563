"""Grades code by unit tests: tacho serve --grade-command 'python3 examples/grade/code.py'.

The "answer" of a row is Python code that raises an error if the output is wrong, as in HumanEval. Output and tests run in a
process of their own: in an empty directory that is removed afterwards, with limits on CPU time, memory, file size and
processes, without environment variables, and without network and other processes where `unshare` works. This stops accidents
and simple attacks; grade code that you do not trust on a machine that you can lose.
"""

import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile

SECONDS, MEMORY, FILE_SIZE, PROCESSES = 10, 1 << 30, 1 << 20, 64
ISOLATED = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]


def limit():
    limits = [("CPU", SECONDS), ("AS", MEMORY), ("FSIZE", FILE_SIZE), ("NPROC", PROCESSES), ("CORE", 0), ("NOFILE", 64)]
    for name, most in limits:
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (most, most))


def isolates():
    return shutil.which("unshare") and subprocess.run([*ISOLATED, "true"], stderr=subprocess.DEVNULL).returncode == 0


def passes(code):
    with tempfile.TemporaryDirectory() as directory:
        run = dict(cwd=directory, env={}, preexec_fn=limit, start_new_session=True, timeout=SECONDS)
        silent = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return subprocess.run([*prefix, sys.executable, "-I", "-c", code], **run, **silent).returncode == 0
        except subprocess.TimeoutExpired:
            return False


prefix = ISOLATED if isolates() else []
if not prefix:
    print("no unshare: the code can reach the network", file=sys.stderr)
for line in sys.stdin:
    row = json.loads(line)
    blocks = re.findall(r"```(?:python|py)?\n(.*?)```", row["output"], re.DOTALL)
    code = blocks[-1] if blocks else row["output"]
    print(json.dumps({"accuracy": passes(code + "\n\n" + (row["reference"] or ""))}), flush=True)
