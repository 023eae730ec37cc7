"""Configurations measured in turn, with progress on the terminal; a journal has finished runs."""

import functools
import glob
import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass, field

from . import machine
from .journal import Journal, digest_of_file
from .running import Run, RunFailed, library_file

HERE = os.path.dirname(os.path.abspath(__file__))
PLAIN_LINE_S = 30  # Without a terminal, a line of progress that often.


class Progress:
    """Shows what is running: a line on a terminal, else a line now and then, on standard error."""

    def __init__(self, total):
        self.total, self.done = total, 0
        self.shown = time.monotonic()

    def begin(self, text):
        place = f"{self.done} of {self.total}: " if self.total else ""
        if sys.stderr.isatty():
            print(f"\r\033[K{place}{text}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown >= PLAIN_LINE_S:
            self.shown = time.monotonic()
            print(f"{place}{text}", file=sys.stderr, flush=True)

    def end(self):
        self.done += 1

    def close(self):
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@dataclass
class Series:
    """The runs of one side; `failure` is the exception that ended them."""
    runs: list = field(default_factory=list)
    failure: Exception = None


class Session:
    """The runs of an experiment. `settings` are all that figures depend on, but for the machine. An
    experiment that the next command is to measure again removes its journal at the end; one that is
    drawn again from the same runs closes it."""

    def __init__(self, path, settings, total=0, again=False):
        described = machine.describe()
        self.journal = Journal(path, {**settings, "machine": machine.identity(described)}, again,
                               described)
        if self.journal.reused:
            print(f"goes on: {self.journal.reused} run(s) are in {path}", file=sys.stderr)
        self.progress = Progress(total)

    @classmethod
    def of_command(cls, name, options, arguments, files=(), total=0):
        """For an experiment that measures anew each time it has ended: commands of other arguments
        have journals of their own, beside the programs of `options.bin`."""
        settings = {"command": [name, *map(str, arguments)],
                    "programs": digests(options, sorted(os.listdir(options.bin)), files),
                    "harness": {path: digest_of_file(path)
                                for path in sorted(glob.glob(os.path.join(HERE, "*.py")))}}
        named = hashlib.sha256(json.dumps(settings["command"]).encode()).hexdigest()[:12]
        folder = os.path.join(options.bin, "..", "experiments", "unfinished")
        return cls(os.path.normpath(os.path.join(folder, f"{name}-{named}.jsonl")), settings, total)

    def once(self, key, text, measure, accept=lambda run: None):
        """The run of this key: from the journal, or else what `measure` returns. accept(run) may
        raise RunFailed; such a run is not kept."""
        self.progress.begin(text)
        record = self.journal.get(key)
        if record is None:
            others = machine.OtherPrograms()
            run = measure()
            run.foreign_share = others.share()
            accept(run)
            self.journal.put(key, run.record())
        else:
            run = Run(**record)
            accept(run)
        self.progress.end()
        return run

    def in_turn(self, name, sides, runs, measure, accept=lambda label, run: None, rotate=False,
                enough=lambda run: False, patient=True, measured=()):
        """Runs measure(side) `runs` times for each of `sides`, a dictionary: A B C A B C, or with
        `rotate` A B C B C A, so that nobody always follows a certain other one. `measured` are
        digests of what only these runs depend on. A side that fails is not run again; the others go
        on, unless `patient` is false: then RunFailed leaves. accept(label, run) may raise it, too;
        enough(run) says that once will do. Returns the series by label."""
        series = {label: Series() for label in sides}
        labels = list(sides)
        for number in range(runs):
            shift = number % len(labels) if rotate and labels else 0
            for label in labels[shift:] + labels[:shift]:
                one = series[label]
                if one.failure or (one.runs and enough(one.runs[-1])):
                    continue
                try:
                    one.runs.append(self.once(
                        [name, measured, label, number], f"{name}, {label}: run {number + 1}",
                        functools.partial(measure, sides[label]), functools.partial(accept, label)))
                except RunFailed as failure:
                    if not patient:
                        raise
                    one.failure = failure
        return series

    def folder(self):
        """Of files that runs depend on and that take as long to make: it lasts as long as the
        journal. It is empty unless there are runs in the journal."""
        path = self.journal.path + ".files"
        if not self.journal.reused:
            shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path, exist_ok=True)
        return path

    def close(self):
        self.progress.close()
        self.journal.close()

    def remove(self):
        self.progress.close()
        shutil.rmtree(self.journal.path + ".files", ignore_errors=True)
        self.journal.remove()


def digests(options, programs, files=()):
    """Of the programs of --bin, of both libraries and of other files: a change of any makes figures
    incomparable."""
    paths = [os.path.join(options.bin, program) for program in programs]
    paths += [library_file(directory) for directory in (getattr(options, "ours", None),
                                                        getattr(options, "theirs", None))
              if directory]
    return {path: digest_of_file(path) for path in [*paths, *files] if os.path.isfile(path)}
