"""The figures of docs/figures/experiments.md, and the sweep that a command describes.

A command of the full form takes one to four seconds, of the quick form a few tenths.
"""

import dataclasses

from .running import OURS, THEIRS
from .sweep import MEMORY, SECONDS, Figure, Metric, Workload

# What a run usually takes, by the form.
RUN_S = {"": 2, "quick": 0.4, "smoke": 0.1}
COLLECT = Metric("collect_ms_median", "full collection, ms")
MEAN_PAUSE = Metric("pause_mean_ms", "mean pause, ms")
LONGEST_PAUSE = Metric("pause_max_ms", "longest pause, ms")
REMOTE = Metric("remote_share", "pages that another thread had touched first, %", factor=100)
ALLOCATORS = ["malloc", "arena-binned", "arena-tree", "arena-first-fit", "arena-buddy"]
POLICIES = ["al", "ps", "lps:1", "lps:2", "lps:4"]


def sized(name, program, full, quick, has_seed=True):
    return Workload(name, program.split() + full.split(), program.split() + quick.split(), has_seed)


# The programs of the sources, and those that readers know or that stand for programs of today.
PROGRAMS = {workload.name: workload for workload in (
    sized("matmul", "matmul", "--scale 0.3", "--scale 0.04"),
    sized("cky", "cky", "--scale 0.5", "--scale 0.1"),
    sized("bh-pt", "bh --variant pt", "--steps 10", "--steps 2"),
    sized("bh-st", "bh --variant st", "--steps 10", "--steps 2"),
    sized("cube", "cube", "--scale 0.3", "--scale 0.1"),
    sized("relay", "relay", "", ""),
    sized("malloc_peak", "malloc_peak", "--count 20000000", "--count 5000000"),
    sized("gcbench", "gcbench", "", "--depth 14"),
    sized("binary_trees", "binary_trees", "", "--depth 15"),
    sized("hash_table", "hash_table", "--megabytes 100 --operations 3000000",
          "--megabytes 40 --operations 500000"),
    sized("strings", "strings", "--count 5000000", "--count 1000000"),
    sized("json_documents", "json_documents", "--scale 0.5", "--scale 0.05"),
    sized("persistent_map", "persistent_map", "--scale 0.5", "--scale 0.05"),
    sized("mutating_graph", "mutating_graph", "--scale 0.3", "--scale 0.05"),
    sized("lru_cache", "lru_cache", "--scale 0.5", "--scale 0.05"),
)}
# A heap that may not grow takes other threads' pages under every policy; this one may.
FREE_TO_GROW = dataclasses.replace(PROGRAMS["relay"], name="relay, 400 MB from the start",
                                   environment={"GC_INITIAL_HEAP_SIZE": "400m"})
THESIS = ["matmul", "cky", "bh-pt", "bh-st", "cube"]
SHAPES = [sized(shape, f"mark_shapes --shape {shape}", "--scale 0.5", "--scale 0.05", False)
          for shape in ("graph", "tree", "list", "arrays", "huge")]


def programs(*names):
    return [PROGRAMS[name] for name in names]


def policies(threads):
    return [{"policy": POLICIES, "threads": threads}]


def marking(markers):
    """All optimisations, each of them left out, and libgc."""
    return [{"markers": markers, **variant} for variant in (
        {}, {"balance": ["off"]}, {"split": ["off"]}, {"termination": ["counter"]},
        {"library": [THEIRS]})]


FIGURES = {figure.name: figure for figure in (
    Figure("allocation", "Objects of 16 bytes allocated, nothing kept", programs("malloc_peak"),
           [Metric("ops_per_second", "million allocations per second", True, 1e-6)], "threads",
           policies([1, 2, 4]) + [{"library": [THEIRS], "threads": [1, 2, 4]}],
           policies([1, 2]) + [{"library": [THEIRS], "threads": [1, 2]}]),
    Figure("marking", "A full collection by markers", SHAPES, [COLLECT], "markers",
           marking([1, 2, 4]), marking([1, 2]), relative=True),
    Figure("marking_programs", "The mean collection of programs by markers, stop-parallel",
           programs("cky", "bh-pt", "bh-st", "cube", "gcbench"), [MEAN_PAUSE], "markers",
           [{"mode": ["stop"], **product} for product in marking([1, 2, 4])],
           [{"mode": ["stop"], **product} for product in marking([1, 2])[:2]], relative=True),
    Figure("policies", "Run time, memory and remote pages by policy, four threads",
           [*programs("relay"), FREE_TO_GROW, *programs(*THESIS)], [SECONDS, MEMORY, REMOTE],
           "policy", policies([4]), policies([4])),
    Figure("modes", "Pause and run time by mode, two threads",
           programs("bh-pt", "cky", "gcbench", "hash_table", "json_documents"),
           [SECONDS, LONGEST_PAUSE, MEAN_PAUSE, MEMORY], "mode",
           [{"mode": ["stop", "concurrent", "generational", "auto"], "threads": [2]}],
           [{"mode": ["stop", "concurrent"], "threads": [2]}]),
    Figure("resident", "Replacements among resident blocks of 1 B to 512 KiB, untouched",
           [sized("resident blocks", "gleaner_bench_resident --max 524288",
                  "--operations 100000", "--operations 10000")],
           [Metric("ns_per_operation", "ns for a free and an allocation", True)], "blocks",
           [{"allocator": ALLOCATORS, "blocks": [256, 512, 1024, 2048, 4096, 8192, 16384]}],
           [{"allocator": ALLOCATORS, "blocks": [256, 1024, 4096, 16384]}]),
    Figure("libraries", "All programs on both libraries", list(PROGRAMS.values()),
           [SECONDS, MEMORY], "threads", [{"library": [OURS, THEIRS], "threads": [1, 2]}],
           [{"library": [OURS, THEIRS], "threads": [2]}]),
)}


def sweep(workloads, axes):
    """The figure `sweep`: these programs, by these values of axes."""
    x = next((axis for axis, values in axes.items() if len(values) > 1), "threads")
    points = [axes or {"threads": [1]}]
    return Figure("sweep", "Programs by " + (", ".join(axes) or "nothing"), workloads,
                  [SECONDS, MEAN_PAUSE, LONGEST_PAUSE, MEMORY], x, points, points)
