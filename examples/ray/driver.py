"""Ranks on the nodes of a Ray cluster as one run: python driver.py RANKS -- --base-url http://server:8000 --model MODEL ...

Ray starts functions, not programs: each actor starts tacho and waits for it. Rank 0 tells where it runs first, and the
others are sent there. TACHO names the program on all nodes, PORT where rank 0 listens. Ctrl-C and SIGTERM are passed on,
since Ray itself leaves its workers no time: rank 0 then saves what was measured. SIGKILL to the driver loses the result.
"""

import os
import secrets
import signal
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

TACHO = os.environ.get("TACHO", "tacho")
PORT = os.environ.get("PORT", "7077")


@ray.remote(num_cpus=1, max_concurrency=2)
class Rank:
    def address(self):
        return ray.util.get_node_ip_address()

    def run(self, command, token):
        self.child = subprocess.Popen(command, env={**os.environ, "TACHO_RENDEZVOUS_TOKEN": token})
        return self.child.wait()

    def stop(self):
        child = getattr(self, "child", None)
        if child:
            child.terminate()


def main():
    ranks = int(sys.argv[1])
    arguments = sys.argv[sys.argv.index("--") + 1 :]
    ray.init()
    group = placement_group([{"CPU": 1}] * ranks, strategy="SPREAD")
    ray.get(group.ready())
    actors = [
        Rank.options(
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        ).remote()
        for index in range(ranks)
    ]
    meet = f"{ray.get(actors[0].address.remote())}:{PORT}"
    token = secrets.token_hex(32)
    runs = []
    for rank, actor in enumerate(actors):
        place = ["--rank", str(rank), "--ranks", str(ranks), "--rendezvous", meet, "--rendezvous-plaintext"]
        runs.append(actor.run.remote([TACHO, "serve", *arguments, *place], token))
    # Ray's own handler of SIGTERM ends the driver, and with it all ranks.
    signals = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: signals.append(number))
    while len(ray.wait(runs, num_returns=len(runs), timeout=0.5)[0]) < len(runs):
        if signals:
            signals.clear()
            ray.get(actors[0].stop.remote())
    sys.exit(max(ray.get(runs), key=abs))


if __name__ == "__main__":
    main()
