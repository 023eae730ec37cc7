"""The command line of the figures: `./dev experiment NAME|all`; and what commands share that measure
figures of their own."""

import argparse
import dataclasses
import os
import re
import time

from . import figures, machine, tables
from .journal import JournalError
from .running import add_places, check_places
from .sweep import AXES, Measured, expand, label_of, wrong_value

# Commands of their own.
OTHERS = {
    "bench": "all benchmarks on both libraries, or on two commits",
    "bench-latency": "stalls and latencies of threads in every mode",
    "bench-malloc": "malloc against the allocators people use",
    "bench-retention": "objects that collections find after their last use",
    "tradeoff": "time against peak memory, by the free space divisor",
    "regret": "mode auto against the fixed modes and libgc",
    "predictor": "gleaner predict against measurements and the thesis",
    "numa-effect": "on paper: what the place of memory changes on machines of several nodes",
}
SWEEP = "sweep"


def list_experiments():
    for figure in figures.FIGURES.values():
        print(f"{figure.name}: {figure.title}; {', '.join(w.name for w in figure.workloads)}")
    print(f"{SWEEP}: any of --program {','.join(figures.PROGRAMS)}, by any of the options below it")
    for name, what in OTHERS.items():
        print(f"{name}: {what}; not part of all, and with options of its own")


def values_of(axis):
    """For argparse: a list of values of the axis."""
    def parse(text):
        kind, _ = AXES[axis]
        values = text.split(",")
        for value in values:
            right = wrong_value(axis, value)
            if right:
                raise argparse.ArgumentTypeError(f"{value!r} is not {right}")
        return list(dict.fromkeys(map(kind, values)))
    return parse


def program_list(text):
    for name in text.split(","):
        if name not in figures.PROGRAMS:
            raise argparse.ArgumentTypeError(f"there is no program {name!r}, but "
                                             f"{', '.join(figures.PROGRAMS)}")
    return list(dict.fromkeys(text.split(",")))


def make_parser(name, description):
    """Of a command that measures figures."""
    parser = argparse.ArgumentParser(prog=name, description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--list", action="store_true", help="print what there is, and exit")
    parser.add_argument("--quick", action="store_true", help="small sizes, few points, one run")
    parser.add_argument("--smoke", action="store_true", help="tiny runs; the figures mean nothing")
    parser.add_argument("--runs", type=int, help="runs of each point (--quick, --smoke: 1)")
    parser.add_argument("--seed", type=int, help="of the programs' pseudo-random numbers")
    parser.add_argument("--only", metavar="REGEX", type=tables.regex, default="",
                        help="points whose 'program, configuration' matches")
    parser.add_argument("--skip", metavar="REGEX", type=tables.regex,
                        help="points whose 'program, configuration' does not match")
    parser.add_argument("--again", action="store_true",
                        help="measure anew what has been measured already")
    parser.add_argument("--out", metavar="DIR", help="where the files go (BIN/../experiments)")
    return parser


def complete(parser, options, runs=3):
    """Ends with a message if something is wrong."""
    if options.runs is None:
        options.runs = 1 if options.quick or options.smoke else runs
    if options.seed is not None and options.seed < 0:
        parser.error("--seed must be at least 0")
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    check_places(parser, options)
    form = "smoke" if options.smoke else "quick" if options.quick else ""
    options.usual_s = figures.RUN_S[form]
    options.out = os.path.normpath(
        options.out or os.path.join(options.bin, "..", "experiments", form))


def parse_arguments(arguments):
    parser = make_parser("experiment", __doc__)
    parser.add_argument("names", metavar="NAME", nargs="*",
                        help=f"{', '.join(figures.FIGURES)}, {SWEEP}, or all: all but {SWEEP}")
    group = parser.add_argument_group(
        f"of the experiment {SWEEP}: lists with commas, of which all combinations are measured")
    group.add_argument("--program", type=program_list, metavar="NAME,...")
    swept = [axis for axis in AXES if axis not in ("allocator", "blocks")]
    for axis in swept:
        words = ",".join(AXES[axis][1] or ("VALUE", "..."))
        group.add_argument(f"--{axis}", type=values_of(axis), metavar=words)
    options = parser.parse_args(arguments)
    if options.list:
        return options
    known = [*figures.FIGURES, SWEEP, "all"]
    for name in options.names:
        if name not in known:
            parser.error(f"there is no experiment {name!r}, but {', '.join(known)}")
    if not options.names:
        parser.error("which experiment? --list shows them")
    axes = {axis: getattr(options, axis) for axis in swept if getattr(options, axis)}
    if SWEEP in options.names and not options.program:
        parser.error(f"{SWEEP} needs --program")
    if SWEEP not in options.names and (axes or options.program):
        parser.error(f"--{next(iter(axes), 'program')} belongs to the experiment {SWEEP}")
    options.figures = [figure for figure in figures.FIGURES.values()
                       if figure.name in options.names or "all" in options.names]
    if SWEEP in options.names:
        options.figures.append(figures.sweep(figures.programs(*options.program), axes))
    complete(parser, options)
    return options


def estimate(all_measured, options):
    """In words, how long it will take."""
    count = sum(measured.runs() for measured in all_measured)
    there = sum(len(measured.session.journal.runs) for measured in all_measured)
    seconds = sum(measured.expected_s(options.usual_s) for measured in all_measured)
    time_text = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} s"
    return (f"{count} runs in {len(all_measured)} experiment(s), of which {there} are there already; "
            f"the others take about {time_text} on a machine with nothing else to do.")


def show(measured):
    """The table on standard output, and files."""
    print(f"\n## {measured.figure.title} ({measured.figure.name})\n")
    lines = measured.table()
    if len(lines) == 1:
        print("No run has succeeded.", flush=True)
        return
    tables.print_markdown(lines)
    loaded = sum(cell.loaded() for cell in measured.cells)
    if loaded:
        print(f"\n* {loaded} run(s) under foreign load: other programs used "
              f"{machine.LOADED_SHARE:.0%} of the machine or more meanwhile.")
    if measured.figure.judge:
        print()
        measured.failures += measured.figure.judge(measured)
    measured.write()
    kinds = [".csv", ".json"] + [".png"] * measured.draw()
    print(f"\n{', '.join(map(measured.path, kinds))}", flush=True)


def attempt(name, act):
    """What went wrong, as a list: what one experiment cannot write does not keep the others from
    being measured."""
    try:
        act()
        return []
    except JournalError as error:
        return [f"{name}: {error}"]
    except OSError as error:
        return [f"{name}: {error.filename}: {error.strerror}" if error.filename else
                f"{name}: {error}"]


def main(arguments):
    options = parse_arguments(arguments)
    if options.list:
        list_experiments()
        return 0
    return measure_all(options.figures, options)


def list_points(its_figures, options):
    for figure in its_figures:
        for workload in figure.workloads:
            command = " ".join(workload.quick if options.quick else workload.command)
            print(f"{workload.name}: {command}".rstrip(": "))
        for point in expand(figure.quick if options.quick else figure.points):
            print(f"  {label_of(point)}")


def choose(figure, options):
    """Leaves out what --only and --skip do not want. """
    fits = figure.fits

    def chosen(workload, point):
        name = f"{workload.name}, {label_of(point)}"
        return fits(workload, point) and re.search(options.only, name) and not (
            options.skip and re.search(options.skip, name))

    figure = dataclasses.replace(figure, fits=chosen)
    points = expand(figure.quick if options.quick else figure.points)
    figure.workloads = [workload for workload in figure.workloads
                        if any(chosen(workload, point) for point in points)]
    return figure


def measure_all(its_figures, options):
    """Measures and shows figures; returns the status to exit with."""
    its_figures = [figure for figure in (choose(each, options) for each in its_figures)
                   if figure.workloads]
    if not its_figures:
        return tables.report_failures(["nothing is left to run; --list shows what there is"])
    began, others = time.monotonic(), machine.OtherPrograms()
    print(machine.sentence(machine.describe()))
    failures = []
    opened = []
    for figure in its_figures:
        measured = Measured(figure, options)
        wrong = attempt(figure.name, measured.open)
        failures += wrong
        if not wrong:
            opened.append(measured)
    print(estimate(opened, options), flush=True)
    for measured in opened:
        wrong = attempt(measured.figure.name, measured.run) or attempt(
            measured.figure.name, lambda one=measured: show(one))
        failures += measured.failures + wrong
    print(f"\n{options.runs} run(s) of each point, in turn; "
          f"{(time.monotonic() - began) / 60:.1f} minutes, {others.since_began()}.")
    return tables.report_failures(failures)
