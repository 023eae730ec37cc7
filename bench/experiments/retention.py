"""Counts what collections find after its last use, on Debian's libgc and on Gleaner.

Runs the program `retention` for each way of using objects, in each kind of thread and in each mode,
and prints one table: objects still held, libgc / Gleaner, by the depth of the stack at which they
were used.

--check tests a law. Both sides run the same program, so that the same words are left over in its
frames. A word that is left over keeps the object that it points to; Gleaner's objects have no
padding, so that there it also keeps the one that ends at that address. So Gleaner may hold twice
what libgc holds, and in all rounds of a cell together as many more as one round makes, for the
words that an interrupt or a first call of a function leaves. The exit status is 1 where it holds
more.
"""

from .main import complete, list_points, make_parser, measure_all
from .running import OURS, THEIRS
from .sweep import Figure, Metric, Workload

USES = ["locals", "registers", "arguments", "vector", "weak", "finalizers", "guardian"]
THREADS = ["main", "other", "waiting", "blocked", "ended"]
DEPTHS = [0, 4, 16, 64, 256]
OBJECTS_OF_ROUND = 8
# Objects allocated between the last use and the collection.
BETWEEN = {"at once": 0, "later": 1000}
# On libgc, what is beside the generational mode is the incremental one.
MODES = {"default": {"incremental": ["off"]}, "concurrent": {"incremental": ["on"]},
         "generational": {"incremental": ["on"], "generational": ["on"]}}
METRICS = [Metric(f"held_{depth}", f"depth {depth}") for depth in DEPTHS]


def workloads():
    return [Workload(f"{thread}, {when}, {use}", *2 * [
        ["retention", "--use", use, "--thread", thread, "--between", str(BETWEEN[when])]],
                     has_seed=False, wake=False)
            for thread in THREADS for when in BETWEEN for use in USES]


def held(measured):
    """Objects still held by depth, on libgc and on Gleaner, by mode, thread, when and use."""
    by_point = {(cell.workload.name, tuple(sorted(cell.point.items()))):
                [int(cell.median(metric)) for metric in METRICS]
                for cell in measured.cells if cell.series.runs}
    found = {}
    for mode, axes in MODES.items():
        ours = {axis: values[0] for axis, values in axes.items()}
        theirs = {"library": THEIRS, "incremental": ours["incremental"]}
        for workload in measured.figure.workloads:
            pair = [by_point.get((workload.name, tuple(sorted(point.items()))))
                    for point in (theirs, {"library": OURS, **ours})]
            if all(pair):
                found[(mode, *workload.name.split(", "))] = pair
    return found


def table(measured):
    lines = {}
    for (mode, thread, when, use), pair in held(measured).items():
        row = (mode, thread, when, use if measured.options.uses else "all")
        sums = lines.setdefault(row, [[0] * len(DEPTHS), [0] * len(DEPTHS)])
        lines[row] = [[sum(both) for both in zip(*sides)] for sides in zip(sums, pair)]
    return [["mode", "thread", "collection", "use"] + [metric.label for metric in METRICS]] + [
        [*row, *(f"{a} / {b}" for a, b in zip(*sides))] for row, sides in lines.items()]


def judge(measured):
    cell = next(cell for cell in measured.cells if cell.series.runs)
    print(f"libgc / Gleaner, of {cell.series.runs[0].values['objects']} objects of each use.")
    return [f"{', '.join(row)}, depth {depth}: libgc holds {a}, Gleaner {b}"
            for row, pair in held(measured).items() for depth, a, b in zip(DEPTHS, *pair)
            if b > 2 * a + OBJECTS_OF_ROUND] if measured.options.check else []


def main(arguments):
    parser = make_parser("bench-retention", __doc__)
    parser.add_argument("--uses", action="store_true", help="a row for each use, not their sum")
    parser.add_argument("--check", action="store_true", help="test the law")
    options = parser.parse_args(arguments)
    complete(parser, options, runs=1)

    def fits(workload, point):
        """Tiny runs are one thread and two uses but in the default mode."""
        thread, _, use = workload.name.split(", ")
        return not options.smoke or point["incremental"] == "off" or (
            thread == "main" and use in ("locals", "guardian"))

    points = [{"library": [THEIRS], "incremental": ["off", "on"]}, *MODES.values()]
    figure = Figure("retention", "Objects held after their last use", workloads(), METRICS,
                    "incremental", points, points, fits=fits, table=table, judge=judge,
                    drawn=[])
    if options.list:
        list_points([figure], options)
        return 0
    return measure_all([figure], options)
