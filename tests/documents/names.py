#!/usr/bin/env python3
"""What the documents name in code type is there: identifiers of the source, options, tests,
paths.

usage: names.py SOURCE_DIR BUILD_DIR
"""

import pathlib
import re
import sys

from known_tests import KnownTests
from pages import pages

SOURCE, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
FOLDERS = ("platform", "observe", "alloc", "gc", "runtime", "malloc", "record", "tools", "cord", "cplusplus", "include",
           "tests", "bench", "examples", "demo", "cmake")
# What is meant to be found in the source by its form: CamelCase, a field_, a kConstant, a function or
# variable of the API.
IDENTIFIER = re.compile(r"[A-Z][a-z]+[A-Z]\w*|[a-z]\w*_|k[A-Z]\w+|(?:GC|GLEANER|gleaner|g)_\w+")
TEST = re.compile(r"(?:unit|api|concurrent|torture|malloc|record|bad_input|threads|compat|headers|"
                  r"hazards|examples|layers|install|documents|tool|model|bench|cord|cplusplus|numa)\.[\w.*/]+")
FILE = re.compile(r"\.(h|hpp|cc|c|py|md|sh|txt|cmake|def|\*)$")

# A path from the top of the source, or a part's name without its extension.
PATH = re.compile(rf"(?:docs|{'|'.join(FOLDERS)})/[\w./*-]*\w[\w./*-]*")


def is_there(path):
    return any(next(iter(SOURCE.glob(each)), None) is not None
               for each in (path.rstrip("/"), f"{path}.*", f"include/gleaner/{path}"))


text = "\n".join(path.read_text(errors="replace") for folder in FOLDERS
                 for path in (SOURCE / folder).rglob("*") if path.is_file())
words = set(re.findall(r"\w+", text))
words |= {f"GLEANER_{name.upper()}" for name in
          re.findall(r"^OPTION\((\w+)", (SOURCE / "runtime/process/options.def").read_text(), re.M)}
# Targets of the build: gleaner_unit_gc is made of a pattern.
words |= {f"gleaner_{path.stem}" for path in (SOURCE / "tests").rglob("*_test.cc")}
words |= {f"gleaner_unit_{layer}" for layer in ("platform", "observe", "alloc", "gc", "runtime", "malloc", "tools")}

tests = KnownTests(SOURCE, BUILD)
problems, seen = [], 0
for path in pages(SOURCE):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for code in re.findall(r"`([^`]+)`", line):
            if TEST.fullmatch(code) and not FILE.search(code):
                missing = [] if tests.has(code) else [code]
            elif PATH.fullmatch(code):
                missing = [] if is_there(code) else [code]
            else:  # a pattern stands for several
                missing = [word for word in re.findall(r"(?<![\w.*])\w+(?![\w*])", code)
                           if IDENTIFIER.fullmatch(word) and word not in words]
            seen += 1
            problems += [f"{path.relative_to(SOURCE)}:{number}: there is no {name}" for name in missing]
print(f"{seen} names in code type")
if problems or seen == 0:
    sys.exit("\n".join(problems) or "nothing was found")
