"""What the place of memory changes on machines of several memory nodes: DGEMM and LU on paper, and
marking by `gleaner predict`. Nothing is measured on such a machine; docs/figures/numa_effect.md has the
formulas, the sources of the figures, and what they can mean.
"""

import argparse
import os
import tempfile
from dataclasses import dataclass

from . import tables
from .predictor import Predictor, show
from .running import OURS, RunFailed, Side, add_places, check_places, run_once


@dataclass
class Machine:
    name: str
    nodes: int
    flops: float  # of all cores, per second
    bandwidth: float  # of a node's memory, bytes per second, half of them written


MACHINES = (Machine("2 x Skylake", 2, 56 * 1.7e9 * 32, 149.5e9 / 2),
            Machine("4 x Nehalem-EX", 4, 32 * 2.26e9 * 4, 36e9 / 2))
# Columns n, and how many updates of all of them it is: an LU is n / K of a rest that becomes smaller.
PROGRAMS = {"DGEMM": (16_000, lambda n, depth: 1), "LU": (10_000, lambda n, depth: n / depth / 3)}
DEPTHS = (64, 192)
# Machines of `gleaner predict`, and numbers of markers.
PREDICTED = {"two-socket": (1, 4, 40, 80), "origin2000": (1, 4, 16, 64)}
CONCENTRATIONS = {"spread": 0, "half on one node": 0.5, "one node": 1}  # of the lines of memory


def on_paper():
    """An update C += A B of depth K moves C once in and once out."""
    records = []
    for program, (size, updates_of) in PROGRAMS.items():
        for machine in MACHINES:
            for depth in DEPTHS:
                updates = updates_of(size, depth)
                computing = 1e3 * updates * 2 * size ** 2 * depth / machine.flops
                moving = 1e3 * updates * 16 * size ** 2 / machine.bandwidth
                one, spread = (max(computing, its) for its in (moving, moving / machine.nodes))
                records.append({
                    "program": program, "machine": machine.name, "K": depth,
                    "computing, ms": computing, "moving, ms": moving, "one node, ms": one,
                    "spread, ms": spread, "times as fast": one / spread,
                    "apart": (computing + moving) / (computing + moving / machine.nodes)})
    return records


def marking(predictor, snapshot):
    records = []
    for machine, markers in PREDICTED.items():
        with open(predictor.file_of(machine), encoding="utf-8") as file:
            text = file.read()
        for place, concentration in CONCENTRATIONS.items():
            predicted = predictor.predict_with(f"{text}concentration {concentration}\n", snapshot,
                                               markers)
            records += [{"machine": machine, "markers": each["markers"], "heap": place,
                         "ms": each["mark_ns"] / 1e6, "speed-up": each["speed_up"],
                         "of it waiting for memory, %": 100 * each["waiting"]}
                        for each in predicted["markings"]]
    return records


def main(arguments):
    parser = argparse.ArgumentParser(prog="experiment numa-effect", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--quick", action="store_true", help="a small heap")
    parser.add_argument("--out", metavar="DIR", help="where the file goes (BIN/../experiments)")
    options = parser.parse_args(arguments)
    check_places(parser, options)
    options.smoke = False
    out = os.path.normpath(options.out or os.path.join(options.bin, "..", "experiments"))
    os.makedirs(out, exist_ok=True)
    path = os.path.join(out, "numa_effect.json")
    results = {"on_paper": on_paper()}
    try:
        with tempfile.TemporaryDirectory() as folder:
            snapshot = os.path.join(folder, "snapshot")
            run_once(Side("graph", ["mark_shapes", "--shape", "graph", "--repeats", "1", "--scale",
                                    "0.05" if options.quick else "0.5"], OURS,
                          {"GLEANER_SNAPSHOT": snapshot}), options)
            results["marking"] = marking(Predictor(options), snapshot)
    except RunFailed as failure:
        return tables.report_failures([failure])
    show("DGEMM and LU, on paper (on_paper)", results["on_paper"])
    show("Marking of a random graph, predicted (marking)", results["marking"])
    tables.write_json(path, results)
    print(f"\nNothing is measured on these machines. {path}")
    return 0
