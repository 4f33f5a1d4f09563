#!/usr/bin/env python3
"""Writes a CycloneDX 1.6 SBOM of what is linked into tacho, from `cargo metadata`: `ci/sbom.py VERSION > FILE`."""

import json
import subprocess
import sys
import uuid



def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


(host,) = [line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:")]
metadata = json.loads(output("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", host))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
(root,) = [package["id"] for package in metadata["packages"] if package["name"] == "tacho-cli"]


def linked(of):
    """Dependencies that are not for tests alone."""
    return [
        dependency["pkg"]
        for dependency in nodes[of]["deps"]
        if any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
    ]


found, open_ids = set(), [root]
while open_ids:
    package = open_ids.pop()
    if package not in found:
        found.add(package)
        open_ids += linked(package)


def reference(of):
    return f"pkg:cargo/{packages[of]['name']}@{packages[of]['version']}"


def component(of):
    package = packages[of]
    described = {
        "type": "application" if of == root else "library",
        "bom-ref": reference(of),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(of),
    }
    if package["license"]:
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    return described


print(
    json.dumps(
        {
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, 'tacho-' + sys.argv[1])}",
            "version": 1,
            "metadata": {"component": component(root)},
            "components": [component(of) for of in sorted(found - {root}, key=reference)],
            "dependencies": [
                {"ref": reference(of), "dependsOn": sorted({reference(to) for to in linked(of)})}
                for of in sorted(found, key=reference)
            ],
        },
        indent=1,
    )
)
