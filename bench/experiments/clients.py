"""Clients of libgc that are installed (tests/compat/clients.py) as workloads of figures."""

import argparse
import glob
import os
import re
import shutil
import sys

from . import machine
from .running import OURS, THEIRS, Run, RunFailed
from .sweep import Workload

COMPAT = os.path.join(machine.SOURCE, "tests", "compat")
sys.path.append(COMPAT)
import run as compat  # noqa: E402

CLIENTS = compat.CLIENTS


class Client:
    """A workload of a program that is installed."""

    LIBRARIES = {THEIRS: compat.LIBGC, OURS: compat.GLEANER}

    def __init__(self, client, options, scratch):
        self.client = client
        os.mkdir(scratch)
        self.machine = compat.Machine(
            argparse.Namespace(measure=options.measure, ours=options.ours, theirs=options.theirs,
                               set=[], timeout=300), scratch)
        self.expected = None

    def workload(self):
        return Workload(self.client.name, [self.client.name], [self.client.name], has_seed=False,
                        measure=self.measure)

    def _prepare(self):
        """Makes the client's input, and sees that it loads the libraries that are meant."""
        self.machine.prepare(self.client)
        expected = self.machine.observed_run(self.client, compat.LIBGC)
        compat.compare(expected, self.machine.observed_run(self.client, compat.GLEANER),
                       "on Gleaner")
        self.expected = expected

    def measure(self, side, _options, _timeout_s):
        """One run. Raises RunFailed, also if it prints or writes anything else than before."""
        try:
            if self.expected is None:
                self._prepare()
            run = self.machine.run(self.client, self.LIBRARIES[side.library], side.environment)
            compat.compare(self.expected, run, f"on {side.label}")
        except compat.RunFailed as failure:
            raise RunFailed(str(failure)) from failure
        return Run({}, run.rss_mb, run.seconds, run.processor)


def client_called(name):
    """For argparse: the client."""
    for client in CLIENTS:
        if client.name == name:
            return client
    raise argparse.ArgumentTypeError(
        f"there is no client {name!r}, but {', '.join(client.name for client in CLIENTS)}")


def add_measure(parser):
    parser.add_argument("--measure", metavar="FILE",
                        help="the program built from tests/compat/measure.c "
                        "(BIN/gleaner_compat_measure)")


def check_measure(parser, options):
    """Ends with a message if it is not there."""
    options.measure = options.measure or os.path.join(options.bin, "gleaner_compat_measure")
    if not os.path.exists(options.measure):
        parser.error(f"--measure: there is no {options.measure}")


def installed(clients, options, scratch):
    """Workloads of those that are installed; of the others that --only wants a line says so."""
    found = []
    for number, client in enumerate(clients):
        missing = client.missing()
        if not missing:
            found.append(Client(client, options, os.path.join(scratch, str(number))).workload())
        elif re.search(options.only, client.name):
            print(f"left out: {client.name}: not installed: {', '.join(missing)}", file=sys.stderr)
    return found


def files_of(clients, options):
    """What runs of clients depend on."""
    read = [options.measure] + [shutil.which(name) or name for client in clients
                                for name in client.needs]
    return (*read, *(path for path in sorted(glob.glob(os.path.join(COMPAT, "**", "*"),
                                                       recursive=True))
                     if "__pycache__" not in path))
