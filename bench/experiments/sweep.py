"""Programs by library, policy, threads, markers and so on (AXES): the cross product of what is asked
for, measured in turn, as table, CSV, JSON and picture.
"""

import itertools
import os
import re
import statistics
from dataclasses import dataclass, field

from . import machine, pictures, tables
from .running import OURS, THEIRS, RunFailed, Side, number_of, run_once
from .session import Session, digests

MAX_COLUMNS = 7  # of panels in a picture

# Each axis: the kind of its values, and which there are; wrong_value knows policies.
NUMBER, WORD = int, str
AXES = {
    "library": (WORD, (OURS, THEIRS)),
    "threads": (NUMBER, None),
    "policy": (WORD, None),  # al, ps, lps:K
    "markers": (NUMBER, None),
    "balance": (WORD, ("on", "off")),
    "split": (WORD, ("on", "off")),
    "termination": (WORD, ("states", "counter")),
    "mode": (WORD, ("auto", "stop", "concurrent", "generational")),
    "incremental": (WORD, ("on", "off")),
    "generational": (WORD, ("on", "off")),
    "barrier": (WORD, ("userfaultfd", "soft-dirty", "mprotect", "cards")),
    "divisor": (NUMBER, None),
    "allocator": (WORD, None),
    "blocks": (NUMBER, None),
}
# What libgc knows, too. The others make no difference there.
OF_LIBGC = ("library", "threads", "markers", "incremental", "divisor")
SWITCH = {"on": "1", "off": "0"}


def environment_of(point):
    """The variables that stand for a point, a dictionary of axes."""
    environment = {}
    if "policy" in point:
        policy, _, k = point["policy"].partition(":")
        environment["GLEANER_POLICY"] = policy
        if k:
            environment["GLEANER_K"] = k
    for axis, variable in (("balance", "GLEANER_MARK_BALANCE"), ("split", "GLEANER_MARK_SPLIT"),
                           ("generational", "GLEANER_GENERATIONAL"), ("markers", "GC_MARKERS"),
                           ("termination", "GLEANER_TERMINATION"), ("mode", "GLEANER_MODE"),
                           ("barrier", "GLEANER_WRITE_TRACKING"),
                           ("divisor", "GC_FREE_SPACE_DIVISOR")):
        if axis in point:
            environment[variable] = SWITCH.get(point[axis], str(point[axis]))
    if point.get("incremental") == "on":
        environment["GC_ENABLE_INCREMENTAL"] = "1"
    return environment


def wrong_value(axis, value):
    """What is wrong with a value of an axis, in words; None if nothing is."""
    kind, words = AXES[axis]
    if kind is NUMBER:
        return None if value.isdigit() and 1 <= int(value) <= 1 << 20 else "a number from 1 on"
    if axis == "policy":
        policy, colon, k = value.partition(":")
        right = policy in ("al", "ps") and not colon or policy == "lps" and (
            not colon or k.isdigit() and 1 <= int(k) <= 65535)
        return None if right else "al, ps, lps or lps:K"
    return None if not words or value in words else " or ".join(words)


@dataclass
class Workload:
    name: str
    command: list
    quick: list  # the command of the quick form
    has_seed: bool = True
    environment: dict = field(default_factory=dict)
    threads: int = 1  # where they are no axis
    wake: bool = True  # libgc's markers, which start with the first thread, if there is one thread
    measure: object = None  # measure(side, options) for what is no benchmark


@dataclass
class Metric:
    key: str  # of what the program prints, or one of OF_RUN
    label: str  # with the unit
    logarithmic: bool = False
    factor: float = 1


OF_RUN = ("rss_mb", "wall_s", "processor_s")
SECONDS = Metric("seconds", "run time, s")
MEMORY = Metric("rss_mb", "peak resident set, MB")


@dataclass
class Figure:
    """`points` are cross products, each a dictionary of axes to lists. The axis `x` is horizontal
    in the picture, each combination of the others is a line, each workload a panel; or the metric
    `against` is horizontal, and `x` stands beside the points."""
    name: str
    title: str
    workloads: list
    metrics: list
    x: str
    points: list
    quick: list
    relative: bool = False  # how many times the value at the least x
    against: Metric = None
    drawn: list = None  # metrics, if not all; none: no picture
    timeout_s: int = 120
    libraries: tuple = (OURS, THEIRS)  # whose failures are the experiment's; others' are results
    fits: object = lambda workload, point: True  # whether the point is measured
    files: tuple = ()  # that runs depend on, beside the programs and the libraries
    table: object = None  # table(measured): lines of text, the first the header
    judge: object = None  # judge(measured): prints what follows, and returns failures


@dataclass
class Cell:
    """The runs of a workload at a point."""
    workload: Workload
    point: dict
    series: object = None

    def values(self, metric):
        if metric.key in OF_RUN:
            return [getattr(run, metric.key) for run in self.series.runs]
        return [float(run.values[metric.key]) * metric.factor for run in self.series.runs]

    def median(self, metric):
        return statistics.median(self.values(metric)) if self.series.runs else None

    def loaded(self):
        return sum(run.foreign_share >= machine.LOADED_SHARE for run in self.series.runs)


def expand(products):
    """The points of cross products, each once. On libgc, axes are left out that it does not know."""
    found = {}
    for product in products:
        for values in itertools.product(*product.values()):
            point = {"library": OURS, **dict(zip(product, values))}
            if point["library"] == THEIRS:
                point = {axis: value for axis, value in point.items() if axis in OF_LIBGC}
            found.setdefault(tuple(sorted(point.items())), point)
    return list(found.values())


def label_of(point, without=()):
    """`gleaner, policy lps:2, threads 4`; nothing of the axes in `without`."""
    has_library = "allocator" not in point and "library" not in without
    words = [point["library"]] if has_library else []
    words += [f"{axis} {point[axis]}" for axis in AXES
              if axis in point and axis not in ("library", *without)]
    return ", ".join(words)


def side_of(workload, point, options):
    command = list(workload.quick if options.quick else workload.command)
    if options.seed is not None and workload.has_seed:
        command += ["--seed", str(options.seed)]
    if "allocator" in point:  # a program without libgc
        command += ["--allocator", point["allocator"], "--blocks", str(point["blocks"])]
        return Side(label_of(point), command)
    threads = point.get("threads", workload.threads)
    command += ["--threads", str(threads)]
    command += ["--barrier"] * (point.get("barrier") == "cards")
    command += ["--wake-markers"] * (threads == 1 and workload.wake)
    return Side(label_of(point), command, point["library"],
                {**workload.environment, **environment_of(point)})


def how_it_ended(failure):
    """A run, in a few words."""
    status = re.search(r"exit status (-?\d+)", str(failure))
    if not status:
        return str(failure)
    number = -int(status[1])
    return "not done in time" if number == 9 else (
        f"signal {number}" if number > 0 else f"exit status {-number}")


class Measured:
    """A figure's cells, and what is wrong."""

    def __init__(self, figure, options):
        self.figure, self.options = figure, options
        points = expand(figure.quick if options.quick else figure.points)
        self.cells = [Cell(workload, point) for workload in figure.workloads for point in points
                      if figure.fits(workload, point)]
        self.sides = [side_of(cell.workload, cell.point, options) for cell in self.cells]
        self.failures = []
        self.session = None
        self.described = None  # the machine, when the first of the runs was made

    def path(self, suffix):
        return os.path.join(self.options.out, self.figure.name + suffix)

    def settings(self):
        programs = sorted({side.command[0] for side in self.sides})
        return {"runs": self.options.runs, "smoke": self.options.smoke,
                "configurations": [[side.label, *side.command, sorted(side.environment.items())]
                                   for side in self.sides],
                "programs": digests(self.options, programs, self.figure.files)}

    def open(self):
        """Reads the journal. Raises JournalError."""
        self.session = Session(self.path(".runs.jsonl"), self.settings(), self.runs(),
                               self.options.again)
        self.described = self.session.journal.described

    def runs(self):
        return len(self.cells) * self.options.runs

    def expected_s(self, usual_s):
        """How long the runs take that are not in the journal, by those that are in it, or if there
        are none by what is usual for one. pre: open."""
        known = [run["wall_s"] for run in self.session.journal.runs.values()]
        return (self.runs() - len(known)) * (statistics.mean(known) if known else usual_s)

    def run(self):
        """Measures what is not in the journal, and closes it. Raises JournalError. pre: open."""
        before = self.settings()["programs"]
        try:
            for workload in self.figure.workloads:
                its = {side.label: (cell, side) for cell, side in zip(self.cells, self.sides)
                       if cell.workload is workload}
                self._run_workload(self.session, workload, its)
            if self.settings()["programs"] != before:
                self.failures.append(f"{self.figure.name}: a program or a library was changed during "
                                     "the runs, which are of both")
        finally:
            self.session.close()

    def _run_workload(self, session, workload, its):
        checksums = {}

        def accept(label, run):
            point = its[label][0].point
            incremental = run.values.get("incremental")
            if SWITCH.get(point.get("incremental"), incremental) != incremental:
                raise RunFailed(f"the program reports incremental={incremental}")
            for metric in self.figure.metrics:
                if metric.key not in OF_RUN:
                    number_of(run.values, metric.key)
            threads = point.get("threads")
            checksum = run.values.get("checksum")
            if checksums.setdefault(threads, checksum) != checksum:
                raise RunFailed(f"checksum {checksum}, not {checksums[threads]} as before")

        series = session.in_turn(f"{self.figure.name}, {workload.name}",
                                 {label: side for label, (_, side) in its.items()},
                                 self.options.runs,
                                 lambda side: (workload.measure or run_once)(
                                     side, self.options, self.figure.timeout_s), accept,
                                 rotate=True)
        for label, (cell, _) in its.items():
            cell.series = series[label]
            if cell.series.failure and cell.point.get("library", OURS) in self.figure.libraries:
                self.failures.append(f"{self.figure.name}, {workload.name}, {label}: "
                                     f"{cell.series.failure}")

    def table(self):
        """The first line is the header. A star marks runs under foreign load. Where a failure is a
        result, it stands there."""
        if self.figure.table:
            return self.figure.table(self)
        lines = [["program", "configuration", "runs"]
                 + [f"{metric.label}, median (min-max)" for metric in self.figure.metrics]]
        for cell in self.cells:
            if cell.series.failure and cell.point.get("library") not in (
                    None, *self.figure.libraries):
                lines.append([cell.workload.name, label_of(cell.point), how_it_ended(
                    cell.series.failure)] + ["-"] * len(self.figure.metrics))
            if not cell.series.runs:
                continue
            line = [cell.workload.name, label_of(cell.point),
                    f"{len(cell.series.runs)}" + "*" * bool(cell.loaded())]
            for metric in self.figure.metrics:
                values = cell.values(metric)
                low, mid, high = map(tables.three_digits,
                                     (min(values), statistics.median(values), max(values)))
                line.append(f"{mid} ({low}-{high})" if len(values) > 1 else mid)
            lines.append(line)
        return lines

    def write(self):
        records = [{"figure": self.figure.name, "program": cell.workload.name, **cell.point,
                    "run": number, "rss_mb": run.rss_mb, "wall_s": run.wall_s,
                    "processor_s": run.processor_s, "foreign_share": round(run.foreign_share, 3),
                    "loaded": int(run.foreign_share >= machine.LOADED_SHARE), **run.values}
                   for cell in self.cells for number, run in enumerate(cell.series.runs)]
        tables.write_records(self.path(".csv"), records)
        tables.write_json(self.path(".json"), {
            "figure": self.figure.name, "title": self.figure.title, "machine": self.described,
            "quick": self.options.quick, "smoke": self.options.smoke, "failures": self.failures,
            "cells": [{"program": cell.workload.name, "command": side.command,
                       "environment": side.environment, **cell.point,
                       "runs": len(cell.series.runs), "loaded": cell.loaded(),
                       **{metric.key: {"median": cell.median(metric),
                                       "minimum": min(cell.values(metric)),
                                       "maximum": max(cell.values(metric))}
                          for metric in self.figure.metrics}}
                      for cell, side in zip(self.cells, self.sides) if cell.series.runs]})

    def lines(self, workload, metric):
        """For the picture: by label, pairs (x, median) in rising order."""
        found = {}
        for cell in self.cells:
            if cell.workload is workload and cell.series.runs and not cell.series.failure:
                x = cell.point.get(self.figure.x, "any")
                label = label_of(cell.point, (self.figure.x,)) or "default"
                found.setdefault(label, []).append(
                    (cell.median(self.figure.against), cell.median(metric), x)
                    if self.figure.against else (x, cell.median(metric)))
        if self.figure.relative:
            least = min(cell.point.get(self.figure.x, "any") for cell in self.cells
                        if cell.workload is workload)
            for label, points in found.items():
                points.sort()
                base_x, base = points[0]
                # Its run there may have failed; and a pause of 0 is that of a run without any.
                found[label] = [(x, base / y) for x, y in points if base_x == least and base and y]
        return found

    def draw(self):
        """False if there is no picture."""
        metrics = self.figure.metrics if self.figure.drawn is None else self.figure.drawn
        if not metrics:
            return False
        panels = [(f"{workload.name}", self._y_label(metric), metric.logarithmic,
                   self.lines(workload, metric))
                  for metric in metrics for workload in self.figure.workloads]
        form = " — tiny runs that mean nothing" if self.options.smoke else (
            " — quick form" if self.options.quick else "")
        count = len(self.figure.workloads)
        columns = -(-count // -(-count // MAX_COLUMNS))  # rows as full as can be
        return pictures.draw_panels(self.path(".png"), self.figure.title + form,
                                    machine.sentence(self.described),
                                    getattr(self.figure.against, "label", self.figure.x), columns,
                                    panels)

    def _y_label(self, metric):
        return f"times as fast as with the least {self.figure.x}" if self.figure.relative \
            else metric.label
