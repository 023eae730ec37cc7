"""Programs run with an allocator preloaded."""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from .running import RUN_TIMEOUT_S, RunFailed, clean_environment, run_program

PEERS = {
    "mimalloc": "libmimalloc.so.2",
    "jemalloc": "libjemalloc.so.2",
    "tcmalloc": "libtcmalloc_minimal.so.4",
    "tbbmalloc": "libtbbmalloc_proxy.so.2",
}
GLIBC = "glibc"
OURS = "gleaner"
COLLECTING = "gleaner-collect"


class TooSlow(RunFailed):
    """A comparison policy did not get done in time: a result, not a failure."""


@dataclass
class Output:
    output: str
    seconds: float  # of the whole process
    rss_kb: int


def preloading(library, *more):
    """What stands for an allocator, as NAME=VALUE: a library to preload, and variables. Raises
    RunFailed if the loader would split the path."""
    if re.search(r"[\s:]", library):
        raise RunFailed(f"{library}: LD_PRELOAD cannot name a path with a blank or a colon in it")
    return (f"LD_PRELOAD={library}", *more)


def library_of(allocator):
    """The path that `preloading` got; None for an allocator that is not preloaded."""
    return allocator[0].partition("=")[2] if allocator else None


def run(argv, allocator=(), patience_s=None, **environment):
    """Runs a program to its end with what `preloading` returned. Raises RunFailed, or TooSlow after
    `patience_s` if that is given.

    time(1) starts it: the peak that the kernel reports of a child of this process would begin with
    this process's own."""
    limit_s = patience_s or RUN_TIMEOUT_S
    with tempfile.NamedTemporaryFile("r") as figures:
        prefix = ["time", "-q", "-f", "%M", "-o", figures.name]
        if allocator:
            prefix += ["env", *allocator]
        finished = run_program([*prefix, *argv], clean_environment(**environment), limit_s)
        if finished.wall_s >= limit_s:
            kind = TooSlow if patience_s else RunFailed
            raise kind(f"{' '.join(argv)}: not done after {limit_s} s")
        if finished.status != 0:
            raise RunFailed(f"{' '.join(argv)}: status {finished.status}: "
                            f"{finished.errors.strip()[-500:]}")
        return Output(finished.output, finished.wall_s, int(figures.read().split()[-1]))


def find_library(soname):
    """What the loader would take, or None."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(rf"^\s+{re.escape(soname)} .*=> (.+)$", cache, re.MULTILINE)
    return found[1] if found else None


def find_allocators(ours, chosen):
    """Name to what stands for it; checked in a process's own map."""
    allocators = {GLIBC: ()}
    for name, soname in PEERS.items():
        path = find_library(soname)
        if path:
            allocators[name] = preloading(path)
        else:
            print(f"{name} is not installed ({soname})", file=sys.stderr)
    if os.path.exists(ours):
        allocators[OURS] = preloading(os.path.abspath(ours))
    else:
        print(f"not built: {ours}", file=sys.stderr)
    for allocator in allocators.values():
        maps = run(["cat", "/proc/self/maps"], allocator).output
        path = library_of(allocator)
        if path and os.path.realpath(path) not in maps:
            raise RunFailed(f"{path} is not loaded by LD_PRELOAD")
    if chosen:
        unknown = set(chosen) - set(allocators) - {COLLECTING}
        if unknown:
            raise RunFailed(f"no such allocator: {', '.join(sorted(unknown))}")
        allocators = {name: allocators[name] for name in chosen if name != COLLECTING}
    return allocators
