#!/usr/bin/env python3
"""Every invariant of docs/invariants.md stands in the source, and the other way round; the tests that
it names exist.

usage: invariants.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

from known_tests import KnownTests

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FOLDERS = ("platform", "alloc", "gc", "runtime", "malloc", "record", "tools", "cord", "cplusplus", "include")
TAG = re.compile(r"\[inv\.[a-z0-9-]+\]")

problems = []
tests = KnownTests(SOURCE, BUILD)

in_source = set()
for folder in FOLDERS:
    for path in (SOURCE / folder).rglob("*"):
        if path.suffix in (".h", ".hpp", ".cc", ".def"):
            in_source.update(TAG.findall(path.read_text()))

documented, named = set(), 0
for number, line in enumerate((SOURCE / "docs/invariants.md").read_text().splitlines(), 1):
    if not line.startswith("| `[inv."):
        continue
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    tag, side = re.fullmatch(r"`(.*)`( \(one direction\))?", cells[0].strip()).groups()
    if tag in documented and not side:
        problems.append(f"docs/invariants.md:{number}: {tag} is there twice")
    documented.add(tag)
    if len(cells) != 4:
        problems.append(f"docs/invariants.md:{number}: {len(cells)} cells, not 4")
        continue
    for name in re.findall(r"`([^`]+)`", cells[3]):
        named += 1
        if not TAG.fullmatch(name) and not name.startswith("./dev ") and not tests.has(name):
            problems.append(f"docs/invariants.md:{number}: {tag}: there is no test {name}")

for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]:
    for tag in sorted(set(TAG.findall(path.read_text())) - documented):
        problems.append(f"{path.relative_to(SOURCE)}: {tag} is not in docs/invariants.md")
problems += [f"docs/invariants.md: {tag} stands nowhere in the source"
             for tag in sorted(documented - in_source)]
problems += [f"{tag} of the source is not in docs/invariants.md"
             for tag in sorted(in_source - documented)]
print(f"{len(documented)} invariants, {named} names of tests")
if problems or not documented or not named:
    sys.exit("\n".join(problems) or "nothing was found")
