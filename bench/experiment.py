#!/usr/bin/env python3
"""Runs an experiment of the package `experiments`: experiment.py NAME [ARGUMENT...], where NAME is
`figures` for those of `./dev experiment`."""

import importlib
import os
import signal
import sys

from experiments.journal import JournalError
from experiments.running import ENDING

MODULES = {"figures": "main", "bench": "compare", "bench-latency": "latency",
           "bench-malloc": "malloc", "bench-retention": "retention", "tradeoff": "tradeoff",
           "numa-effect": "numa_effect", "regret": "regret", "predictor": "predictor"}


def end(number, _frame):
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)


def main(name, arguments):
    for number in ENDING:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    try:
        return importlib.import_module(f"experiments.{MODULES[name]}").main(arguments)
    except JournalError as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if not error.filename:
            raise
        print(f"FAILED: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        again = "--again" in arguments
        print(f"interrupted; the same command {'without --again ' * again}goes on from here",
              file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} {'|'.join(MODULES)} [ARGUMENT...]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
