#!/usr/bin/env python3
"""Checks who includes what.

  platform <- observe <- alloc <- gc <- runtime <- malloc <- record <- tools: a folder includes itself and those to
  its left.
  The rooms of runtime/ have an order, too (ROOMS).
  The public headers (include/gleaner) are included from runtime/ on.
  cplusplus/ and cord/ include themselves and the public headers.
  Only sources of platform/ and observe/, and system/*.cc of any folder, include <sys/*>, <signal.h> and other headers of
  the operating system.
  Only runtime/process/options.cc reads the environment.

usage: check_layers.py ROOT
"""

import pathlib
import re
import sys

LAYERS = ["platform", "observe", "alloc", "gc", "runtime", "malloc", "record", "tools"]
# In order, as the layers.
ROOMS = {"runtime": ["process", "threads", "collect", "debug", "nodes", "observe", "start", "api"]}
# Libraries that are built on the API alone.
BESIDE = ["cplusplus", "cord"]
ENVIRONMENT_READER = "runtime/process/options.cc"

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
OS_HEADER = re.compile(r"sys/|linux/|asm/|hwloc|c?signal(\.h)?$|ucontext\.h$")
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\b|\b_?_?environ\b")
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def blank(match):
    """Keeps line numbers right."""
    return "\n" * match[0].count("\n")


def include_error(root, path, layer, quoted, system):
    if system:
        in_system = layer in ("platform", "observe") or path.parent.name == "system"
        if OS_HEADER.match(system) and not (in_system and path.suffix == ".cc"):
            return f"includes <{system}>; only platform/, observe/ and system/*.cc may"
        return None
    if layer in BESIDE:
        if quoted.startswith(f"{layer}/") or (root / "include/gleaner" / quoted).is_file():
            return None
        return f'includes "{quoted}"; {layer}/ is built on the public headers alone'
    if (root / quoted).is_file():
        target = quoted.split("/")[0]
        if target not in LAYERS:
            return f'includes "{quoted}", which is in no layer'
        if LAYERS.index(target) > LAYERS.index(layer):
            return f'includes "{quoted}": {target}/ is above {layer}/'
        if target == layer and layer in ROOMS:
            room, own = quoted.split("/")[1], path.relative_to(root).parts[1]
            if room not in ROOMS[layer]:
                return f'includes "{quoted}", which is in no room of {layer}/'
            if own in ROOMS[layer] and ROOMS[layer].index(room) > ROOMS[layer].index(own):
                return f'includes "{quoted}": {room}/ is above {own}/'
        return None
    if (root / "include/gleaner" / quoted).is_file():
        if LAYERS.index(layer) < LAYERS.index("runtime"):
            return f'includes "{quoted}": the public headers are for runtime/ and tools/'
        return None
    return f'includes "{quoted}", which is not a path from the root or in include/gleaner/'


def violations(root):
    for layer in LAYERS + BESIDE:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cc", ".def", ".inc"):
                continue
            text = path.read_text()
            name = path.relative_to(root).as_posix()

            for match in INCLUDE.finditer(text):
                error = include_error(root, path, layer, match[1], match[2])
                if error:
                    yield f"{name}:{text.count(chr(10), 0, match.start(0)) + 1}: {error}"

            code = COMMENT_OR_STRING.sub(blank, text)
            if name != ENVIRONMENT_READER:
                for match in ENVIRONMENT.finditer(code):
                    line = code.count("\n", 0, match.start()) + 1
                    yield f"{name}:{line}: reads the environment; only {ENVIRONMENT_READER} may"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    found = list(violations(root))
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
