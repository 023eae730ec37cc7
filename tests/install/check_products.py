#!/usr/bin/env python3
"""The target that `./dev install` builds makes every file that is installed.

usage: check_products.py BUILD_DIR NINJA

In a build tree in which everything has been built before, an installed file that the target does
not make is there all the same: only the rules of the build can tell.
"""

import pathlib
import re
import subprocess
import sys

BUILD, NINJA = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]


def ninja(*arguments):
    output = subprocess.run([NINJA, "-C", BUILD, *arguments], check=True, capture_output=True,
                            text=True).stdout
    return output.splitlines()


def installed_files():
    """Those that are taken from the build tree, relative to it."""
    for script in BUILD.rglob("cmake_install.cmake"):
        for path in re.findall(r'"([^"\n]*)"', script.read_text()):
            path = pathlib.Path(path)
            if path.is_relative_to(BUILD) and not path.is_dir() and path.suffix != ".cmake":
                yield str(path.relative_to(BUILD))


made = {word for command in ninja("-t", "commands", "gleaner_products") for word in command.split()}
built = {line.split(":")[0] for line in ninja("-t", "targets", "all") if not line.endswith(": phony")}
files = sorted(set(installed_files()) & built)
assert len(files) >= 12, f"found only {files}"
missing = [file for file in files if file not in made]
print(f"{len(files)} installed files are built: {' '.join(files)}")
if missing:
    sys.exit(f"installed, but not built by gleaner_products: {' '.join(missing)}")
