"""Runs programs in every mode of collection and says how long their threads were held up.

Stalls are measured in the program, by looks at the clock: the gap between two operations or
allocations of one thread, and in request_loop the latency of a request from when it was due. So
every library is measured alike. A mode that the library does not have, or knows no option of, is left
out after a short trial. What becomes of libgc is a result: its row says how a run ended.
"""

import os
import re
import sys

from . import machine
from .figures import LONGEST_PAUSE, MEMORY, SECONDS
from .main import complete, list_points, make_parser, measure_all
from .running import OURS, THEIRS, environment_of, parse_values, run_program
from .sweep import Figure, Metric, Workload, expand, label_of, side_of

POINTS = [
    {"library": [THEIRS], "incremental": ["off", "on"]},
    {"incremental": ["off"], "mode": ["auto", "stop"]},
    {"incremental": ["on"], "barrier": ["userfaultfd", "soft-dirty", "mprotect", "cards"]},
    {"incremental": ["on"], "generational": ["on"]},
]
# The hash table of 4 GB, built and not collected since, peaks at 5.3 GB on libgc and 5.1 on ours; the
# rest is room to allocate in until a collection ends.
RESIDENT_PER_LIVE = 3


def workloads(options):
    """Pairs of a workload and its live data in MB. With --quick they take minutes and need less than
    2 GB."""
    quick = options.quick
    found = []

    def add(name, command, live_mb=0, operations=None):
        """On 1 and 2 threads; `operations` says how many each of so many threads is to do."""
        for threads in (1, 2):
            argv = command.split() + (
                ["--operations", str(operations(threads))] if operations else [])
            found.append((Workload(f"{name}, {threads} mutator{'s' * (threads - 1)}", argv, argv,
                                   threads=threads), live_mb))

    minimum = 3_000_000 if quick else 12_000_000
    for megabytes in options.megabytes or ((100, 400) if quick else (100, 1000, 4000)):
        # A quarter of the operations insert 308 bytes on average: nearly the live data once over.
        add(f"hash table, {megabytes} MB", f"hash_table --gaps --megabytes {megabytes}", megabytes,
            lambda threads, size=megabytes: max(minimum, 12_000 * size // threads))
    add("stable heap, 400 MB", "stable_heap --gaps" + " --operations 1000000" * quick, 400)
    add("request loop, 400 MB", f"request_loop --seconds {5 if quick else 20}", 400)
    add("GCBench", "gcbench --gaps")
    add("binary trees", "binary_trees --gaps")
    add("BH-pt", "bh --variant pt --gaps" + " --steps 5" * quick)
    return found


def smoke_workloads(options):
    """Each program once, with sizes of its own."""
    return {command[0]: Workload(name, command, command, threads=2)
            for name, command in ((one.name, [one.command[0]] + ["--gaps"] * ("--gaps" in one.command))
                                  for one, _ in workloads(options))}.values()


def that_fit(options):
    """The workloads for which there is memory."""
    available_mb = int(re.search(r"MemAvailable: +(\d+) kB", machine.read("/proc/meminfo"))[1]) // 1000
    for workload, live_mb in workloads(options):
        if RESIDENT_PER_LIVE * live_mb <= available_mb:
            yield workload
        elif re.search(options.only, workload.name):
            print(f"left out: {workload.name}: needs up to {RESIDENT_PER_LIVE * live_mb} MB, "
                  f"available are {available_mb}", file=sys.stderr)


def is_supported(point, options):
    if point["library"] == THEIRS:
        return True  # whatever becomes of it is a result
    side = side_of(Workload("trial", ["hash_table"], ["hash_table"]), point, options)
    trial = run_program([os.path.join(options.bin, "hash_table"), "--smoke", *side.command[1:]],
                        environment_of(side, options))
    unknown = re.search(r"GLEANER_[A-Z_]+|not expected: \S+", trial.errors)
    reason = f"there was a complaint of {unknown[0]}" if unknown else ""
    if not unknown and trial.status == 0:
        is_on = parse_values(trial.output).get("incremental") == "1"
        if is_on != (point["incremental"] == "on"):
            reason = f"the program reports incremental={int(is_on)}"
    if reason:
        print(f"left out: {label_of(point)}: {reason}", file=sys.stderr)
    return not reason


def figures(options, chosen):
    """Of the gaps, and of the requests' latencies."""
    supported = {} if options.list else {
        label_of(point): is_supported(point, options) for point in expand(POINTS)}

    def fits(workload, point):
        # Programs have to say what they write, with a flag that makes them do so.
        has_barrier = point.get("barrier") != "cards" or workload.command[0] == "hash_table"
        return has_barrier and supported.get(label_of(point), True)

    def figure(name, title, prefix, its):
        longest = Metric(f"{prefix}_max_ms", "longest stall, ms", True)
        quantiles = [Metric(f"{prefix}_{key}_us", f"{text}, us")
                     for key, text in (("p50", "p50"), ("p99", "p99"), ("p999", "p99.9"))]
        return Figure(name, title, its,
                      [SECONDS, *quantiles, longest, LONGEST_PAUSE, Metric("pauses", "pauses"),
                       MEMORY], "incremental", POINTS, POINTS, drawn=[longest], timeout_s=900,
                      libraries=(OURS,), fits=fits)

    requests = [one for one in chosen if one.command[0] == "request_loop"]
    return [figure("latency", "Stalls of threads by mode", "gap",
                   [one for one in chosen if one not in requests]),
            figure("latency_requests", "Latencies of requests by mode", "request", requests)]


def sizes(text):
    numbers = list(dict.fromkeys(int(word) for word in text.split(",")))
    if not all(1 <= number <= 1 << 20 for number in numbers):
        raise ValueError
    return numbers


def main(arguments):
    parser = make_parser("bench-latency", __doc__)
    parser.add_argument("--megabytes", metavar="N,...", type=sizes,
                        help="live data of the hash tables (100,1000,4000; --quick: 100,400)")
    options = parser.parse_args(arguments)
    complete(parser, options)
    chosen = list(smoke_workloads(options) if options.smoke else that_fit(options))
    its_figures = figures(options, chosen)
    if options.list:
        list_points(its_figures, options)
        return 0
    return measure_all(its_figures, options)
