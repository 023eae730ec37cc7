"""Programs that are made up, for tests of the harness: they note each of their runs."""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from experiments import figures, sweep

HERE = pathlib.Path(__file__).resolve().parent
POINTS = len(sweep.expand(figures.FIGURES["allocation"].quick))

# Counts its runs in a file, waits if there is a file `slow`, and fails as `broken` says.
PROGRAM = """#!/bin/sh
folder=${0%/*}
echo $$ >"$folder/pid"
echo "$GLEANER_POLICY $GLEANER_K $*" >>"$folder/calls"
env >"$folder/environment"
[ -e "$folder/slow" ] && [ "$(wc -l <"$folder/calls")" -gt 3 ] && exec sleep 60
checksum=1
if [ -e "$folder/broken" ] && [ "$GLEANER_POLICY" = ps ]; then
  case $(cat "$folder/broken") in
    status) echo "it broke" >&2; exit 3 ;;
    silent) exit 0 ;;
    checksum) checksum=2 ;;
    metric) echo "lib=$LD_LIBRARY_PATH/libgc.so.1 checksum=1 peak_rss_kb=1000"; exit ;;
    text) echo "what is this"; exit ;;
    number) echo "ops_per_second=nan lib=$LD_LIBRARY_PATH/libgc.so.1 checksum=1"; exit ;;
  esac
fi
echo "ops_per_second=1e6 seconds=0.1 checksum=$checksum peak_rss_kb=2000" \\
  "lib=$LD_LIBRARY_PATH/libgc.so.1"
"""


class WithPrograms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gleaner experiment ")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.bin, self.out = self.root / "bench", self.root / "out"
        for library in ("ours", "theirs"):
            (self.root / library).mkdir()
            (self.root / library / "libgc.so.1").write_text(library)
        self.bin.mkdir()
        self.program = self.bin / "malloc_peak"
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)
        (self.root / "matplotlib.py").write_text("raise ImportError")  # pictures take a second

    def command(self, *arguments):
        return [sys.executable, "-B", HERE / "experiment.py", "figures", "--bin", self.bin,
                "--ours", self.root / "ours", "--theirs", self.root / "theirs", "--out", self.out,
                "--quick", *arguments]

    def run_it(self, *arguments, status=0, **more):
        result = subprocess.run(self.command(*arguments or ["allocation"]), capture_output=True,
                                text=True, timeout=60, env=self.environment(), **more)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        return result.stdout + result.stderr

    def environment(self):
        return {**os.environ, "PYTHONPATH": str(self.root)}

    def calls(self):
        path = self.bin / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def journal(self):
        return self.out / "allocation.runs.jsonl"

    def records(self):
        with open(self.out / "allocation.csv", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def start_and_wait(self):
        (self.bin / "slow").touch()
        process = subprocess.Popen(self.command("allocation"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=self.environment())
        deadline = time.monotonic() + 30
        while self.calls() < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
        return process
