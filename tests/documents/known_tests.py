"""The tests that there are, as ctest names them in any preset."""

import fnmatch
import json
import pathlib
import re
import subprocess

# Folders of GoogleTest programs whose cases are tests of ctest, and the prefix of their names.
CASES = {"unit/platform": "unit.platform.", "unit/alloc": "unit.alloc.", "unit/gc": "unit.gc.",
         "unit/runtime": "unit.runtime.", "unit/tools": "unit.tools.",
         "bad_input": "bad_input.", "concurrent": "concurrent.",
         "record": "record."}


class KnownTests:
    def __init__(self, source, build):
        listing = subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True,
                                 capture_output=True, text=True).stdout
        # Without what a preset does not have, or has not built: the cases come from the source.
        self.names = {test["name"] for test in json.loads(listing)["tests"]}
        matrix = pathlib.Path(source, "tests/torture/matrix.cmake").read_text()
        self.names |= {f"torture.graph_torture.{row}" for row in re.findall(r'"(\w+)\|', matrix)}
        self.cases = {}  # name without instantiation and parameter: the source file
        for folder, prefix in CASES.items():
            for path in pathlib.Path(source, "tests", folder).glob("*_test.cc"):
                for suite, name in re.findall(r"^(?:[A-Z]+_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)",
                                              path.read_text(), re.M):
                    self.cases[f"{prefix}{suite}.{name}"] = path
        self.sources = "\n".join(path.read_text() for path in pathlib.Path(source, "tests").rglob("*")
                                 if path.suffix in (".c", ".cc", ".h"))

    def has(self, name):
        """Whether there is such a test: `*` stands for anything, a suite for its cases. A name
        without dots is that of a case, or of a function in a test."""
        if "." not in name:
            return re.search(rf"\b{re.escape(name)}\b", self.sources) is not None
        if self._any(self.names, name):
            return True
        # unit.gc.Kinds/Suite.Case/0 is Suite.Case in the source.
        name = re.sub(r"\.\w+/", ".", name)
        name = re.sub(r"/[^.]*$", "", name)
        return self._any(self.cases, name)

    @staticmethod
    def _any(names, pattern):
        return any(fnmatch.fnmatchcase(each, pattern) or each.startswith(pattern + ".")
                   for each in names)
