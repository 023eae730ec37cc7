#!/usr/bin/env python3
"""docs/design/architecture.md and the READMEs of the layers list what there is: every room of a layer
and every file that is in no room, every function of the calls upwards, every rank of a lock. Each of
its six paths names at most three files of code to open first.

usage: architecture.py SOURCE_DIR
"""

import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
FOLDERS = ("platform", "observe", "alloc", "gc", "runtime", "malloc", "record", "tools")
TEXT = (SOURCE / "docs/design/architecture.md").read_text()

problems = []


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]


# A name stands for a file of its stem, a name with a slash at its end for a folder.
names = 0
for folder in FOLDERS:
    listed = set()
    readme = (SOURCE / folder / "README.md").read_text()
    for row in re.findall(r"^\| (`[^|]*) \|", readme, re.M):
        listed |= set(re.findall(r"`([^`]+)`", row))
    there = {f"{path.parent.name}/" for path in (SOURCE / folder).glob("*/*") if path.is_file()}
    stems = {path.stem for path in (SOURCE / folder).glob("*") if path.suffix in (".h", ".cc")}
    there -= {"__pycache__/"}
    names += len(listed)
    problems += [f"{folder}/README.md has no {name}" for name in there - listed]
    problems += [f"{folder}/README.md has no {stem}" for stem in
                 stems - {pathlib.Path(name).stem for name in listed} - {"gleaner"}]
    problems += [f"{folder}/README.md has {name}, which is not there" for name in listed
                 if not (SOURCE / folder / name).exists()]

for file, struct in (("alloc/hooks.h", "Hooks"), ("gc/world.h", "World"),
                     ("gc/cycle/handshakes.h", "Handshakes")):
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", (SOURCE / file).read_text(), re.M | re.S)[1]
    functions = re.findall(r"^  [^/\n]*?\(\*(?:\(\*)?(\w+)\)", body, re.M)
    assert len(functions) >= 3, (struct, functions)
    listed = set(re.findall(r"`([a-z_]+)`", re.search(
        rf"^\* `\w+::{struct}`(.*?)(?=^\* |^$)", section("Calls upwards"), re.M | re.S)[1]))
    listed -= {"g_hooks", "g_poll_bytes"}
    problems += [f"{struct}: {sorted(listed ^ set(functions))} in one of {file} and the calls upwards"
                 for _ in range(listed != set(functions))]

ranks = re.findall(r"^  (k\w+) = (\d+),", re.search(
    r"^enum class LockRank.*?^};", (SOURCE / "platform/os/lock.h").read_text(), re.M | re.S)[0], re.M)
documented = [(name, rank) for rank, name in
              re.findall(r"^\| (\d+) \| `(k\w+)` \|", section("Locks"), re.M)]
if ranks != documented:
    problems.append(f"ranks of locks: {set(ranks) ^ set(documented)}")
paths = re.split(r"^\*\*(.*?\?)\*\*", section("Six paths"), flags=re.M)
for question, answer in zip(paths[1::2], paths[2::2]):
    answer = re.sub(r"^\|.*$", "", answer, flags=re.M)  # a table is for reference
    files = {name for name in re.findall(r"`([\w/]+\.(?:h|cc|def))`", answer)
             if not name.startswith("malloc/")}
    if not files or len(files) > 3:
        problems.append(f"{question} {len(files)} files: {sorted(files)}")
    problems += [f"{question} there is no {name}" for name in files if not (SOURCE / name).is_file()]
if len(paths) != 13:
    problems.append(f"{len(paths) // 2} paths, not six")

print(f"{names} names in the READMEs, {len(ranks)} ranks")
if problems:
    sys.exit("\n".join(problems))
