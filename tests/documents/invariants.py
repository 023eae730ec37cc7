#!/usr/bin/env python3
"""Every invariant of docs/design/invariants.md stands in the source, and the other way round; each has
a test, and the tests that it names exist. Tests cite no other invariants. Every note that the code
cites is there, and the other way round.

usage: invariants.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

from known_tests import KnownTests
from pages import pages

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FOLDERS = ("platform", "observe", "alloc", "gc", "runtime", "malloc", "record", "tools", "cord", "cplusplus", "include")
TAG = re.compile(r"\[inv\.[a-z0-9-]+\]")
PAGE = "docs/design/invariants.md"
NOTE = re.compile(r"Note \[([a-z-]+)\]")
# In place of names: the tests of another invariant's row.
ELSEWHERE = re.compile(r"the same\b|of that\b|those of\b|all tests of the preset")

problems = []
tests = KnownTests(SOURCE, BUILD)

def cited(folders, suffixes=(".h", ".hpp", ".cc", ".c", ".def", ".pml")):
    """The tags and the notes that files cite."""
    text = "\n".join(path.read_text() for folder in folders
                     for path in sorted((SOURCE / folder).rglob("*")) if path.suffix in suffixes)
    return set(TAG.findall(text)), set(NOTE.findall(text))


in_source, noted = cited(FOLDERS)
in_tests, noted_in_tests = cited(["tests"])

documented, named = set(), 0
for number, line in enumerate((SOURCE / PAGE).read_text().splitlines(), 1):
    if not line.startswith("| `[inv."):
        continue
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    tag, side = re.fullmatch(r"`(.*)`( \(one direction\))?", cells[0].strip()).groups()
    if tag in documented and not side:
        problems.append(f"{PAGE}:{number}: {tag} is there twice")
    documented.add(tag)
    if len(cells) != 4:
        problems.append(f"{PAGE}:{number}: {len(cells)} cells, not 4")
        continue
    if "`" not in cells[3] and not ELSEWHERE.match(cells[3]):
        problems.append(f"{PAGE}:{number}: {tag}: no test")
    for name in re.findall(r"`([^`]+)`", cells[3]):
        named += 1
        if not TAG.fullmatch(name) and not name.startswith("./dev ") and not tests.has(name):
            problems.append(f"{PAGE}:{number}: {tag}: there is no test {name}")

for path in pages(SOURCE):
    for tag in sorted(set(TAG.findall(path.read_text())) - documented):
        problems.append(f"{path.relative_to(SOURCE)}: {tag} is not in {PAGE}")
problems += [f"{PAGE}: {tag} stands nowhere in the source"
             for tag in sorted(documented - in_source)]
problems += [f"{tag} of the source is not in {PAGE}"
             for tag in sorted(in_source - documented)]
problems += [f"{tag} of the tests is not in {PAGE}"
             for tag in sorted(in_tests - documented)]

notes = set(re.findall(r"^## Note \[([a-z-]+)\]$", (SOURCE / PAGE).read_text(), re.M))
problems += [f"{PAGE}: no Note [{note}], which is cited"
             for note in sorted((noted | noted_in_tests) - notes)]
problems += [f"{PAGE}: nobody cites Note [{note}]" for note in sorted(notes - noted)]
print(f"{len(documented)} invariants, {named} names of tests, {len(notes)} notes")
if problems or not documented or not named or not notes:
    sys.exit("\n".join(problems) or "nothing was found")
