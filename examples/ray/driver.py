"""Ranks on the nodes of a Ray cluster as one run: python driver.py RANKS -- --base-url http://server:8000 --model MODEL ...

Ray starts functions, not programs: each task starts tacho and waits for it. Task 0 tells where it runs first, and the
others are sent there. A task that ends takes its child with it.
"""

import secrets
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

PORT = 7077


@ray.remote(num_cpus=1)
class Rank:
    def address(self):
        return ray.util.get_node_ip_address()

    def run(self, rank, ranks, host, token, arguments):
        command = ["tacho", "serve", *arguments]
        command += ["--rank", str(rank), "--ranks", str(ranks), "--rendezvous", f"{host}:{PORT}"]
        environment = {"TACHO_RENDEZVOUS_TOKEN": token}
        child = subprocess.Popen(command, env={**__import__("os").environ, **environment})
        try:
            return child.wait()
        finally:
            child.terminate()


def main():
    ranks = int(sys.argv[1])
    arguments = sys.argv[sys.argv.index("--") + 1 :]
    ray.init()
    group = placement_group([{"CPU": 1}] * ranks, strategy="SPREAD")
    ray.get(group.ready())
    placed = [
        Rank.options(
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
        ).remote()
        for index in range(ranks)
    ]
    host = ray.get(placed[0].address.remote())
    token = secrets.token_hex(32)
    codes = ray.get([actor.run.remote(rank, ranks, host, token, arguments) for rank, actor in enumerate(placed)])
    sys.exit(next((code for code in codes if code != 0), 0))


if __name__ == "__main__":
    main()
