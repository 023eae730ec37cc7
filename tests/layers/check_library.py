#!/usr/bin/env python3
"""Checks a built shared library: its SONAME, what it needs, what it runs at load, what it exports.

usage: check_library.py LIBRARY SONAME [EXPORTS]
EXPORTS: a version script that names all that is exported; C++ names are allowed then.
"""

import re
import subprocess
import sys

POINTER_BYTES = 8
# The compiler's own frame_dummy, and AtLoad in runtime/start/start.cc.
MAX_CONSTRUCTORS = 2


def readelf(option, library):
    return subprocess.run(["readelf", "-W", option, library], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def findings(library, soname, exports):
    dynamic = readelf("-d", library)
    actual = re.search(r"\(SONAME\).*\[(.*)\]", dynamic)
    if not actual or actual[1] != soname:
        yield f"SONAME is {actual[1] if actual else 'missing'}, not {soname}"
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not re.match(r"libc\.so\.|ld-linux", needed):
            yield f"needs {needed}"
    if "SYMBOLIC" in dynamic:
        yield "binds symbolically, which breaks clients that copy-relocate its data"
    constructors = re.search(r"\(INIT_ARRAYSZ\)\s+(\d+)", dynamic)
    if ((constructors and int(constructors[1]) > MAX_CONSTRUCTORS * POINTER_BYTES)
            or "_GLOBAL__sub_I_" in readelf("--syms", library)):
        yield "has global constructors"
    found = set()
    for line in readelf("--dyn-syms", library).splitlines():
        symbol = line.split()
        if len(symbol) < 8 or not symbol[0].rstrip(":").isdigit() or symbol[6] == "UND":
            continue
        visibility, name = symbol[5], symbol[7]
        if visibility == "PROTECTED":
            yield f"{name} is protected"
        if exports is None and name.startswith("_Z"):
            yield f"exports a C++ name: {name}"
        if exports is not None and name not in exports:
            yield f"exports {name}"
        found.add(name)
    for name in sorted((exports or set()) - found):
        yield f"does not export {name}"


def main():
    library, soname = sys.argv[1:3]
    exports = None
    if len(sys.argv) > 3:
        with open(sys.argv[3]) as script:
            text = re.sub(r"/\*.*?\*/", "", script.read(), flags=re.DOTALL)
        exports = set(re.findall(r"(\w+);", text.split("local:")[0]))
    found = list(findings(library, soname, exports))
    for finding in found:
        print(f"{library}: {finding}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
