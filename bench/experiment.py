#!/usr/bin/env python3
"""Runs an experiment of the package `experiments`: experiment.py NAME [ARGUMENT...], where NAME is
`figures` for those of `./dev experiment`."""

import importlib
import sys

MODULES = {"figures": "main", "bench": "compare", "bench-latency": "latency",
           "bench-malloc": "malloc", "bench-retention": "retention", "tradeoff": "tradeoff"}

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in MODULES:
        sys.exit(f"usage: experiment.py {'|'.join(MODULES)} [ARGUMENT...]")
    sys.exit(importlib.import_module(f"experiments.{MODULES[sys.argv[1]]}").main(sys.argv[2:]))
