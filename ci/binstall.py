#!/usr/bin/env python3
"""Checks that `cargo binstall` finds an archive of ci/release: `ci/binstall.py ARCHIVE TARGET…`.

Of each target it fills in the addresses of crates/cli/Cargo.toml as `cargo binstall` does, and compares them with the name of
the archive and with the paths in it.
"""

import json
import pathlib
import subprocess
import sys
import tarfile

archive, *targets = sys.argv[1:]
command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
(package,) = [package for package in metadata["packages"] if package["name"] == "tacho-cli"]
binstall = package["metadata"]["binstall"]
with tarfile.open(archive) as opened:
    paths = opened.getnames()

for target in targets:
    settings = {**binstall, **binstall.get("overrides", {}).get(target, {})}

    def filled(key):
        text = settings[key]
        for name, value in {
            "repo": package["repository"],
            "version": package["version"],
            "target": target,
            "bin": "tacho",
        }.items():
            text = text.replace(f"{{ {name} }}", value)
        return text

    wanted = filled("pkg-url").rsplit("/", 1)[1]
    if wanted != pathlib.Path(archive).name:
        sys.exit(f"binstall: on {target} cargo binstall looks for {wanted}, and the archive is {archive}")
    if filled("bin-dir") not in paths:
        sys.exit(f"binstall: on {target} cargo binstall looks for {filled('bin-dir')}, which {archive} does not contain")
