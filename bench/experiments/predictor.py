"""`gleaner predict` against measurements, against the thesis, and against itself with other figures.

measured     programs and shapes, each with one and with two markers. The program is asked for heap
             snapshots while it runs (GLEANER_SNAPSHOT_SIGNAL); each holds how long its own marking
             took, and is what the prediction is made from. This machine is calibrated first.
thesis       predicted speed-ups on the thesis's two machines
sensitivity  by how much the predicted time changes if one figure of the machine is half as large
             again

A busy machine makes measurements longer and never shorter, and the calibration is the least of
several: so a program's figure is the least of what was measured for the same number of markers, for a
byte of the largest snapshots.
"""

import argparse
import contextlib
import glob
import json
import os
import re
import signal
import statistics
import struct
import subprocess
import tempfile
import threading

from . import tables
from .figures import PROGRAMS, sized
from .running import (OURS, RunFailed, Side, Run, add_places, check_places, clean_environment,
                      environment_of, run_program)
from .session import Session

SHAPES = [sized(f"{shape}, {words}", f"mark_shapes --shape {shape}", f"--scale {full}",
                f"--scale {full / 10}", False)
          for shape in ("graph", "tree", "list", "arrays", "huge")
          for words, full in (("small", 0.03), ("large", 0.5))]
# The heaps of the default sizes are too small for many markers.
BODIES = [sized(f"bh-{variant}", f"bh --variant {variant}", "--bodies 300000 --steps 2",
                "--bodies 30000 --steps 2") for variant in ("pt", "st")]
OTHERS = BODIES + [PROGRAMS[name] for name in (
    "cky", "cube", "gcbench", "binary_trees", "hash_table", "json_documents",
    "persistent_map", "mutating_graph", "lru_cache")]
THESIS = ("bh-pt", "bh-st", "cube", "cky")
MACHINES = {"enterprise10000": 60, "origin2000": 64}
# The part of the heap that lies on the node of one thread, which allocates the whole tree: assumed.
ON_ONE_NODE = {"bh-st": 0.3}
MARKERS = (1, 2)
# The marking of less is one of the roots, not of the heap.
MIN_BYTES = 1 << 20
TITLES = {"measured": "Predicted against measured",
          "thesis": "Speed-ups on the thesis's machines",
          "sensitivity": "Change of the time by figures half as large again, mean of the thesis's "
                         "programs"}
FIRST_S, EVERY_S, MAX_SNAPSHOTS = 0.3, 0.4, 6  # when the program is asked for snapshots


def marking_of(path):
    """The marking that a snapshot was taken with: live bytes, ns, markers (`kEnd` of
    docs/reference/formats.md)."""
    end_block, head_words = 10, 4
    with open(path, "rb") as file:
        file.seek(8 * head_words)
        kind = None
        while kind != end_block:
            (word, _) = struct.unpack("<QQ", file.read(16))
            kind, size = word & 0xff, word >> 8
            payload = file.read(size) if kind == end_block else file.seek(-(-size // 8) * 8, 1)
    numbers, value, shift = [], 0, 0
    for byte in payload:
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(value)
            value = shift = 0
    live_bytes, ns, _, markers = numbers[1], *numbers[6:9]
    return live_bytes, ns, markers


class Predictor:
    """The command `gleaner`, beside the programs."""

    def __init__(self, options):
        self.gleaner = os.path.join(options.bin, "..", "bin", "gleaner")

    def run(self, *arguments):
        done = subprocess.run([self.gleaner, *arguments], env=clean_environment(), text=True,
                              capture_output=True, check=False)
        if done.returncode != 0:
            raise RunFailed(f"gleaner {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def file_of(self, machine):
        return os.path.join(os.path.dirname(self.gleaner), "..", "share", "gleaner", "machines",
                            f"{machine}.machine")

    def predict_with(self, description, snapshot, markers):
        with tempfile.NamedTemporaryFile("w", suffix=".machine") as file:
            file.write(description)
            file.flush()
            return self.predict(snapshot, file.name, markers)

    def predict(self, snapshot, machine, markers):
        return json.loads(self.run("predict", snapshot, "--machine", machine, "--json",
                                   "--markers", ",".join(map(str, markers))))


def ask_for_snapshots(process):
    """Signals, until the program ends."""
    def ask():
        wait_s = FIRST_S
        for _ in range(MAX_SNAPSHOTS):
            if ended.wait(wait_s):
                return
            # Not process.send_signal, which may reap the process before run_program does.
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGUSR1)
            wait_s = EVERY_S

    ended = threading.Event()
    threading.Thread(target=ask, daemon=True).start()
    return ended


def snapshots_of(workload, markers, options, predictor, machine, kept):
    """A run of the program: what was measured and what is predicted for the one of its largest
    snapshots that was marked fastest. It is left in `kept`, in place of that of an earlier run."""
    command = workload.quick if options.quick else workload.command
    with tempfile.TemporaryDirectory() as folder:
        # Marking that begins before the stop is not measured.
        side = Side(workload.name, command, OURS, {
            "GC_MARKERS": str(markers), "GLEANER_MODE": "stop", "GLEANER_SNAPSHOT_SIGNAL": "USR1",
            "GLEANER_SNAPSHOT": os.path.join(folder, "snapshot")})
        argv = [os.path.join(options.bin, command[0]), *command[1:]]
        done = run_program(argv, environment_of(side, options), started=ask_for_snapshots)
        if done.status != 0:
            raise RunFailed(f"{' '.join(argv)}: exit status {done.status}: {done.errors.strip()}")
        chosen = fastest_of_largest(
            {path: marking_of(path) for path in glob.glob(os.path.join(folder, "*"))
             if os.path.getsize(path)})  # a snapshot that failed is empty
        if chosen is None:
            return Run({}, 0, done.wall_s, done.processor_s)
        path, (live_bytes, measured_ns, _) = chosen
        predicted = predictor.predict(path, machine, [1, markers] if markers > 1 else [1])
        os.replace(path, kept)
    return Run({"objects": predicted["objects"], "MB": live_bytes / 1e6,
                "measured": measured_ns / 1e6,
                "predicted": predicted["markings"][-1]["mark_ns"] / 1e6},
               0, done.wall_s, done.processor_s)


def fastest_of_largest(markings):
    """Of `markings`, path: (bytes, ns, markers), the item of at least 4/5 of the largest one's bytes
    that took the least time for a byte. None if all are small or were not measured."""
    usual = [item for item in markings.items() if item[1][0] >= MIN_BYTES and item[1][1] > 0]
    most = max((size for _, (size, _, _) in usual), default=0)
    return min((item for item in usual if item[1][0] >= 0.8 * most),
               key=lambda item: item[1][1] / item[1][0], default=None)


def fastest(runs):
    """Of the figures of several runs, those of the one that was marked fastest, by the byte."""
    figures = [run.values for run in runs if run.values]
    if not figures:
        return None
    least = min(figures, key=lambda values: values["measured"] / values["MB"])
    return {"objects": least["objects"], "MB": least["MB"], "measured ms": least["measured"],
            "predicted ms": least["predicted"],
            "error": least["predicted"] / least["measured"] - 1}


def measure(options, session, predictor, machine, snapshots):
    """Records of each workload and number of markers."""
    records = []
    for workload in [*SHAPES, *OTHERS]:
        if options.only and not re.search(options.only, workload.name):
            continue
        kept = os.path.join(snapshots, workload.name.replace(", ", "-"))
        series = session.in_turn(
            workload.name, {str(n): n for n in MARKERS}, options.runs,
            lambda n, one=workload, path=kept: snapshots_of(one, n, options, predictor, machine,
                                                            path))
        for label, one in series.items():
            if one.failure:
                raise one.failure
            figures = fastest(one.runs)
            if figures:
                records.append({"program": workload.name, "markers": int(label), **figures})
    return records


def thesis(predictor, snapshots):
    """Records of each program and machine."""
    records = []
    for program in THESIS:
        for machine, most in MACHINES.items():
            numbers = [1, 2, 4, 8, 16, 32, most]
            with open(predictor.file_of(machine), encoding="utf-8") as file:
                text = file.read()
            text += f"concentration {ON_ONE_NODE.get(program, 0)}\n"
            predicted = predictor.predict_with(text, os.path.join(snapshots, program), numbers)
            records.append({"program": program, "machine": machine, **{
                f"{each['markers']} markers": each["speed_up"] for each in predicted["markings"]
                if each["markers"] > 1 and each["markers"] != most},
                "all": predicted["markings"][-1]["speed_up"]})
    return records


def with_larger(text, name):
    """A machine's description with one figure, or the times of one row, half as large again."""
    lines = []
    for line in filter(str.strip, text.splitlines()):
        key, *values = line.split()
        if key == name:
            first = {"cache": 4, "tlb": 2}.get(key, 0)
            values = values[:first] + [str(1.5 * float(value)) for value in values[first:]]
        lines.append(" ".join([key, *values]))
    return "\n".join(lines) + "\n"


def sensitivity(predictor, machine, snapshots):
    """Records of each figure: the change of the mean time over the thesis's programs."""
    with open(machine, encoding="utf-8") as file:
        text = "".join(line for line in file if not line.startswith("#"))
    numbers = [1, 16, 64]

    def times(description):
        of = [predictor.predict_with(description, os.path.join(snapshots, program), numbers)
              for program in THESIS]
        return [[each["mark_ns"] for each in one["markings"]] for one in of]

    before = times(text)
    records = []
    for name in ("cache", "memory", "further_ns", "tlb", "occupancy_ns", "range_ns", "word_ns",
                 "reference_ns", "object_ns", "chain_ns", "surprise_ns", "start_ns", "atomic_ns",
                 "transfer_ns", "wake_call_ns"):
        after = times(with_larger(text, name))
        records.append({"figure, x 1.5": name, **{
            f"{number} markers, %": 100 * (statistics.mean(
                b[i] / a[i] for a, b in zip(before, after)) - 1)
            for i, number in enumerate(numbers)}})
    return records


def show(title, records):
    def text(value):
        return value if isinstance(value, str) else str(value) if isinstance(
            value, int) else f"{value:.2f}"

    print(f"\n## {title}\n")
    keys = list(dict.fromkeys(key for record in records for key in record))
    tables.print_markdown([keys, *([text(record.get(key, "")) for key in keys]
                                   for record in records)])


def main(cli_arguments):
    parser = argparse.ArgumentParser(prog="experiment predictor", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_places(parser)
    parser.add_argument("--quick", action="store_true", help="small heaps, one run")
    parser.add_argument("--runs", type=int, help="runs of each point (3; --quick: 1)")
    parser.add_argument("--machine", metavar="FILE",
                        help="a calibration of this machine; by default one is made")
    parser.add_argument("--only", type=tables.regex, metavar="REGEX",
                        help="programs whose name matches; no thesis, no sensitivity")
    parser.add_argument("--out", metavar="DIR", help="where the file goes (BIN/../experiments)")
    options = parser.parse_args(cli_arguments)
    check_places(parser, options)
    options.runs = options.runs or (1 if options.quick else 3)
    out = os.path.normpath(options.out or os.path.join(options.bin, "..", "experiments"))
    os.makedirs(out, exist_ok=True)

    predictor = Predictor(options)
    session = Session.of_command("predictor", options, cli_arguments, files=[predictor.gleaner])
    snapshots = session.folder()
    machine = options.machine or os.path.join(snapshots, "this.machine")
    results, failures = {}, []
    try:
        if not os.path.exists(machine):
            predictor.run("calibrate", "--output", machine)
        results["measured"] = measure(options, session, predictor, machine, snapshots)
        if not results["measured"]:
            failures.append("no snapshot of a MiB or more was taken")
        elif not options.only:
            results["thesis"] = thesis(predictor, snapshots)
            results["sensitivity"] = sensitivity(predictor, machine, snapshots)
    except RunFailed as failure:
        failures.append(failure)
    for name, records in results.items():
        if not records:
            continue
        show(f"{TITLES[name]} ({name})", records)
        if name == "measured":
            errors = [abs(record["error"]) for record in records]
            print(f"\nMean error {100 * statistics.mean(errors):.0f} %, largest "
                  f"{100 * max(errors):.0f} %.")
    if failures:
        session.close()
        return tables.report_failures(failures)
    path = os.path.join(out, "predictor.json")
    tables.write_json(path, results)
    print(f"\n{path}")
    session.remove()
    return 0
