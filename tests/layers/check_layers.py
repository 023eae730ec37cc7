#!/usr/bin/env python3
"""Checks who includes what.

  platform <- observe <- alloc <- gc <- runtime <- malloc <- record <- tools: a folder includes itself and those to
  its left.
  The rooms of a layer have an order as well, ROOMS: a room includes itself and those to its left.
  Only the file that chooses among write trackers, and runtime/, include platform/mprotect/.
  Files include each other in circles of at most MAX_CIRCLE, a header and its source taken for one.
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
# The rooms of each layer, in order; "." is the files that are in none. A system/ within a room belongs to the room.
ROOMS = {
    "platform": ["common", "faults", "os", "costs", "threads", "loader", "unwind", "nodes", "mprotect", "tracking"],
    "observe": ["."],
    "alloc": ["metadata", "fits", ".", "arenas"],
    "gc": ["mark", "policy", "cycle", "finish", "inspect", "."],
    "runtime": ["process", "threads", "collect", "debug", "nodes", "observe", "start", "api"],
    "malloc": ["system", "."],
    "record": ["system", "."],
    "tools": ["common", "system", "run", "heap", "top", "predict", "report", "numa", "replay", "trace", "."],
}
# A room that nothing else includes than the file or the layer named here: everything else works without it.
ONLY_BY = {"platform/mprotect": ("platform/tracking/write_tracking.h", "runtime/")}

# Files in a circle can only be understood, tested and changed together. Two that belong together, such as a structure and
# the one that fills it, sometimes name each other, and a third may share a type with them. From four on a circle is a part
# of the program without an order inside, and nobody has meant it.
MAX_CIRCLE = 3

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


def room_of(name):
    """The layer and the room of a file."""
    parts = name.split("/")
    return parts[0], parts[1] if len(parts) > 2 else "."


def room_error(name, target):
    """Why a file may not include another one of its layer."""
    layer, room = room_of(name)
    order = ROOMS[layer]
    other = room_of(target)[1]
    if other == room:
        return None
    for one in (room, other):
        if one not in order:
            return f'includes "{target}": {layer}/{one} is not in the order of the rooms (ROOMS)'
    if order.index(other) > order.index(room):
        return f'includes "{target}": in {layer}/ the room {other} is above {room}'
    return None


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
        name = path.relative_to(root).as_posix()
        room = "/".join(room_of(quoted))
        if not name.startswith((f"{room}/", *ONLY_BY.get(room, [""]))):
            return f'includes "{quoted}": only {" and ".join(ONLY_BY[room])} may'
        return room_error(name, quoted) if target == layer else None
    if (root / "include/gleaner" / quoted).is_file():
        if LAYERS.index(layer) < LAYERS.index("runtime"):
            return f'includes "{quoted}": the public headers are for runtime/ and tools/'
        return None
    return f'includes "{quoted}", which is not a path from the root or in include/gleaner/'


def circles(includes):
    """The strongly connected components of a graph, which is a dictionary of sets (Tarjan 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(includes.get(node, ())):
            if other not in index:
                visit(other)
            if other in stack:
                low[node] = min(low[node], low[other])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(includes):
        if node not in index:
            visit(node)
    return found


def circle_errors(root):
    """Circles of more than MAX_CIRCLE files, of which a header and its source are one."""
    includes = {}
    for layer in LAYERS:
        for path in (root / layer).rglob("*"):
            if path.suffix not in (".h", ".cc", ".def", ".inc"):
                continue
            own = path.relative_to(root).with_suffix("").as_posix()
            others = {pathlib.PurePosixPath(match[1]).with_suffix("").as_posix()
                      for match in INCLUDE.finditer(path.read_text())
                      if match[1] and (root / match[1]).is_file()}
            includes.setdefault(own, set()).update(others - {own})
    for circle in circles(includes):
        if len(circle) > MAX_CIRCLE:
            yield f"{circle[0]}: is in a circle of {len(circle)} files, more than {MAX_CIRCLE}: {' '.join(circle)}"


def violations(root):
    yield from circle_errors(root)
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
