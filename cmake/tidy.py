"""Runs clang-tidy over the sources that changed since the commit that .ci/linted names.

usage: tidy.py RUN_CLANG_TIDY BUILD FOLDER [--all]

All sources were clean at that commit. A header that changed is looked at through one source: that of
its name, or else the first that includes it. What it does to others shows with --all: `./dev lint
--all`, which looks at every source. So does a change of the checks, and a repository without that
commit.
"""
import os
import pathlib
import re
import subprocess
import sys

FOLDERS = ("platform", "alloc", "gc", "runtime", "malloc", "record", "tools", "cplusplus", "cord")
CHECKS = ".clang-tidy"


def changed_since(folder, commit):
    """The files that differ from the commit's, or None if there is no such commit."""
    git = ["git", "-C", str(folder)]
    known = subprocess.run([*git, "cat-file", "-e", f"{commit}^{{commit}}"], capture_output=True,
                           check=False)
    if known.returncode != 0:
        return None
    names = subprocess.run([*git, "diff", "--name-only", "-z", commit, "--"], capture_output=True,
                           check=True, text=True).stdout
    new = subprocess.run([*git, "ls-files", "--others", "--exclude-standard", "-z"],
                         capture_output=True, check=True, text=True).stdout
    return set((names + new).split("\0"))


def to_look_at(folder, sources):
    linted = (folder / ".ci/linted").read_text(encoding="utf-8").strip()
    changed = changed_since(folder, linted)
    if changed is None or CHECKS in changed:
        return sources
    chosen = {source for source in sources if source in changed}
    includes = {source: re.findall(r'^#include "([^"]+)"', (folder / source).read_text(), re.M)
                for source in sources}
    for header in changed:
        own = re.sub(r"\.h$", ".cc", header)
        chosen.update([own] if own in includes else
                      [source for source in sources if header in includes[source]][:1])
    return sorted(chosen)


def main():
    folder = pathlib.Path(sys.argv[3])
    sources = sorted(str(path.relative_to(folder)) for name in FOLDERS
                     for path in (folder / name).rglob("*.cc"))
    chosen = sources if "--all" in sys.argv[4:] else to_look_at(folder, sources)
    print(f"clang-tidy looks at {len(chosen)} of {len(sources)} sources", flush=True)
    if chosen:
        files = [f"^{re.escape(os.path.join(folder, source))}$" for source in chosen]
        sys.exit(subprocess.run([sys.argv[1], "-quiet", "-p", sys.argv[2], *files],
                                check=False).returncode)


main()
