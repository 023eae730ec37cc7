"""One run of a program: its environment, a limit of time, and what it used."""

import csv
import functools
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field

THEIRS = "libgc"
OURS = "gleaner"
RUN_TIMEOUT_S = 300


class RunFailed(Exception):
    pass


@dataclass
class Side:
    """A program, what it is called with, and the libgc it is to use."""
    label: str
    command: list
    library: str = ""  # THEIRS, OURS, or empty for a program without libgc.
    environment: dict = field(default_factory=dict)


@dataclass
class Run:
    values: dict  # what the program prints of itself; values["seconds"] is what it measures
    rss_mb: float
    wall_s: float = 0  # of the whole process
    processor_s: float = 0
    foreign_share: float = 0  # of the machine, used by other programs meanwhile

    def record(self):
        return asdict(self)


@dataclass
class Finished:
    output: str
    errors: str
    status: int
    wall_s: float
    processor_s: float


# What programs may have of the caller's environment. All else is left out: every allocator, libc and
# language has variables that tune it, and no list of them is complete. Programs that are built with a
# sanitizer get its options.
KEPT_VARIABLES = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "ASAN_OPTIONS",
                  "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")


def clean_environment(**more):
    """An environment that tunes nothing, but by `more`."""
    kept = {key: os.environ[key] for key in KEPT_VARIABLES if key in os.environ}
    return {**kept, "LC_ALL": "C.UTF-8", "TZ": "UTC", **more}


# The signals that end the harness as exceptions. They wait while a program is being started: it could
# not be ended before its number is known.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
let_end = functools.partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, ENDING)


def kill_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run_program(argv, environment, timeout_s=RUN_TIMEOUT_S, started=None):
    """Runs a program to its end, or kills it and its children after `timeout_s`: the status is -9
    then. An exception that arrives meanwhile (Ctrl-C) ends them, too. started(process) may return an
    event, which is set when the program has ended."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = watch = ended = None
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            began = time.monotonic()
            process = subprocess.Popen(argv, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=output, stderr=errors, start_new_session=True,
                                       preexec_fn=let_end)
            watch = threading.Timer(timeout_s, kill_group, [process])
            watch.start()
            if started is not None:
                ended = started(process)
            let_end()
            # wait4 gives this child's own rusage. Popen.wait with a timeout would poll.
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            if ended is not None:
                ended.set()
        except BaseException:
            if process is not None and process.returncode is None:
                kill_group(process)
                process.wait()
            raise
        finally:
            if watch is not None:
                watch.cancel()
            let_end()
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Finished(*texts, process.returncode, wall_s, usage.ru_utime + usage.ru_stime)


def library_file(directory):
    return os.path.realpath(os.path.join(directory, "libgc.so.1"))


def directory_of(side, options):
    """Of the libgc that the side is to use; None if it uses none."""
    return {THEIRS: options.theirs, OURS: options.ours, "": None}[side.library]


def environment_of(side, options):
    environment = clean_environment(**side.environment)
    directory = directory_of(side, options)
    if directory:
        environment["LD_LIBRARY_PATH"] = os.path.abspath(directory)
    return environment


def parse_values(output, shown="the program"):
    """What a program prints: one line of key=value pairs, or CSV of two lines. There may be blanks in
    a value, as in a path."""
    lines = output.splitlines()
    if len(lines) == 2 and "," in lines[0]:
        return next(csv.DictReader(lines))
    if len(lines) != 1:
        raise RunFailed(f"{shown}: printed {len(lines)} lines instead of one")
    try:
        return dict(pair.split("=", 1) for pair in re.split(r" (?=\w+=)", lines[0]))
    except ValueError:
        raise RunFailed(f"{shown}: no key=value pairs: {lines[0][:200]}") from None


def number_of(values, key):
    """A figure of what a program prints. Raises RunFailed if it is none."""
    try:
        number = float(values[key])
    except KeyError:
        raise RunFailed(f"the program prints no {key}") from None
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise RunFailed(f"the program prints {key}={values[key]}, which is no number")
    return number


def run_once(side, options, timeout_s=RUN_TIMEOUT_S):
    """Runs one side once. Raises RunFailed, also if it takes longer, or if it used another libgc
    than the one intended: the program reports the path that the loader chose."""
    argv = [os.path.join(options.bin, side.command[0])] + side.command[1:]
    if options.smoke:
        argv.append("--smoke")
    shown = " ".join(argv)
    try:
        finished = run_program(argv, environment_of(side, options), timeout_s)
    except OSError as error:
        raise RunFailed(f"{shown}: {error.strerror}") from error
    sys.stderr.write(finished.errors)
    if finished.status != 0:
        raise RunFailed(f"{shown}: exit status {finished.status}")
    values = parse_values(finished.output, shown)
    directory = directory_of(side, options)
    if directory and os.path.realpath(values.get("lib", "")) != library_file(directory):
        raise RunFailed(f"{shown}: used {values.get('lib')}, not {library_file(directory)}")
    # The kernel's peak of a child of this process would begin with this process's own.
    rss_mb = number_of(values, "peak_rss_kb") / 1000 if "peak_rss_kb" in values else number_of(
        {"rss_mb": 0, **values}, "rss_mb")
    return Run(values, rss_mb, finished.wall_s, finished.processor_s)


def add_places(parser):
    """The arguments that say where the programs and both libraries are; see check_places."""
    parser.add_argument("--bin", metavar="DIR", help="the benchmark programs: <build>/bench")
    parser.add_argument("--ours", metavar="DIR",
                        help="directory of our libgc.so.1 (BIN/../lib/gleaner)")
    parser.add_argument("--theirs", metavar="DIR", default="/usr/lib/x86_64-linux-gnu",
                        help="directory of the libgc.so.1 to compare with (%(default)s)")


def check_places(parser, options):
    """Ends with a message if something is not there."""
    if not options.bin:
        parser.error("--bin is needed: the directory of the benchmark programs")
    if options.ours is None:
        options.ours = os.path.join(options.bin, "..", "lib", "gleaner")
    for name in ("ours", "theirs"):
        if not os.path.exists(library_file(getattr(options, name))):
            parser.error(f"--{name}: there is no libgc.so.1 in {getattr(options, name)}")
