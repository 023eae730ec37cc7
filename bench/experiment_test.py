#!/usr/bin/env python3
"""The harness: files and columns, resuming, what failed programs and disks lead to.

usage: experiment_test.py [--bin DIR --ours DIR] [unittest's arguments]

Programs that are made up note each of their runs. With --bin there is also a tiny run of real ones.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

from experiment_fixture import HERE, POINTS, PROGRAM, WithPrograms

SEED = int(os.environ.get("SEED", "1"))
PLACES = argparse.Namespace(bin=None, ours=None)


class Files(WithPrograms):
    def test_table_csv_and_json(self):
        text = self.run_it()
        self.assertIn(f"{POINTS} runs in 1 experiment(s), of which 0 are there already", text)
        self.assertIn(f"{self.out}/allocation.csv, {self.out}/allocation.json\n", text)  # no picture
        self.assertRegex(text, r"\| malloc_peak \| gleaner, threads 2, policy lps:4 \| 1\*? ")
        self.assertEqual(self.calls(), POINTS)
        records = self.records()
        self.assertEqual(len(records), POINTS)
        for column in ("figure", "program", "library", "policy", "threads", "run", "rss_mb",
                       "wall_s", "foreign_share", "loaded", "ops_per_second", "checksum"):
            self.assertIn(column, records[0])
        content = json.loads((self.out / "allocation.json").read_text())
        self.assertLessEqual({"processor", "family", "model", "kernel", "governor", "commit"},
                             content["machine"].keys())
        self.assertEqual(content["cells"][0]["ops_per_second"]["median"], 1)
        self.assertEqual(len(content["cells"]), POINTS)

    def test_a_program_that_prints_csv(self):
        program = self.bin / "gleaner_bench_resident"
        program.write_text("#!/bin/sh\necho allocator,ns_per_operation,rss_mb\necho x,42,5.5\n")
        program.chmod(0o755)
        self.assertIn("| allocator arena-buddy, blocks 1024 ", self.run_it("resident"))
        cells = json.loads((self.out / "resident.json").read_text())["cells"]
        self.assertEqual({cell["ns_per_operation"]["median"] for cell in cells}, {42})

    def test_what_is_set(self):
        self.run_it()
        calls = (self.bin / "calls").read_text()
        self.assertIn("lps 4 --count 5000000 --threads 2\n", calls)
        self.assertIn("  --count 5000000 --threads 1 --wake-markers\n", calls)  # libgc

    def test_nothing_of_the_callers_tunes_programs(self):
        tuning = {"GLIBC_TUNABLES": "glibc.malloc.arena_max=1", "MIMALLOC_ARENA_EAGER_COMMIT": "0",
                  "TCMALLOC_RELEASE_RATE": "10", "TBB_MALLOC_USE_HUGE_PAGES": "1",
                  "MALLOC_ARENA_MAX": "1", "GC_MARKERS": "3", "GLEANER_MODE": "stop",
                  "LD_BIND_NOW": "1", "PYTHONMALLOC": "debug"}
        with unittest.mock.patch.dict(os.environ, tuning):
            self.run_it()
        lines = (self.bin / "environment").read_text().splitlines()
        self.assertFalse({line.partition("=")[0] for line in lines} & tuning.keys())

    def test_the_seed_is_handed_on(self):
        self.run_it("allocation", "--seed", "5")
        self.assertIn("--count 5000000 --seed 5 --threads 2\n", (self.bin / "calls").read_text())

    def test_a_sweep_of_ones_own(self):
        text = self.run_it("sweep", "--program", "malloc_peak", "--library", "gleaner,libgc",
                           "--policy", "ps,lps:3", status=1)  # the program prints no pauses
        self.assertEqual(self.calls(), 3)  # policies are nothing to libgc
        self.assertIn("FAILED: sweep, malloc_peak, gleaner, policy lps:3: the program prints no", text)

    def test_axes_of_the_collector(self):
        self.run_it("sweep", "--program", "malloc_peak", "--barrier", "cards", "--divisor", "5",
                    "--generational", "on", status=1)  # the program prints no pauses
        self.assertIn("--barrier", (self.bin / "calls").read_text())
        lines = (self.bin / "environment").read_text().splitlines()
        for variable in ("GLEANER_WRITE_TRACKING=cards", "GC_FREE_SPACE_DIVISOR=5",
                         "GLEANER_GENERATIONAL=1"):
            self.assertIn(variable, lines)
        text = self.run_it("sweep", "--program", "malloc_peak", "--incremental", "on", status=1)
        self.assertIn("the program reports incremental=None", text)
        self.assertIn("GC_ENABLE_INCREMENTAL=1", (self.bin / "environment").read_text())

    def test_some_points(self):
        self.run_it("allocation", "--only", "threads 2", "--skip", "libgc|lps:[12]")
        self.assertEqual([record["policy"] for record in self.records()], ["al", "ps", "lps:4"])
        self.assertIn("nothing is left to run", self.run_it("allocation", "--only", "no", status=1))

    def test_what_is_named_twice_is_measured_once(self):
        self.run_it("sweep", "--program", "malloc_peak,malloc_peak", "--policy", "ps,ps", status=1)
        self.assertEqual(self.calls(), 1)
        self.run_it("allocation", "allocation")
        self.assertEqual(self.calls(), 1 + POINTS)


class Resuming(WithPrograms):
    def test_the_same_command_measures_nothing_again(self):
        self.run_it()
        before = self.records()
        self.assertIn(f"goes on: {POINTS} run(s)", self.run_it())
        self.assertEqual(self.calls(), POINTS)
        self.assertEqual(self.records(), before)

    def test_unless_it_is_told_to(self):
        self.run_it()
        self.run_it("allocation", "--again")
        self.assertEqual(self.calls(), 2 * POINTS)

    def pid(self):
        return int((self.bin / "pid").read_text())

    def is_gone(self, group):
        """Soon: orphans that were killed wait for init."""
        for _ in range(200):
            try:
                os.killpg(group, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.05)
        return False

    def kill(self, process):
        """The harness, and then the program that it had started."""
        process.kill()
        process.wait()
        os.killpg(self.pid(), signal.SIGKILL)

    def check_that_it_goes_on(self):
        kept = self.journal().read_bytes()
        self.assertEqual(kept.count(b"\n"), 4)  # the header and three runs
        (self.bin / "slow").unlink()
        self.assertIn("goes on: 3 run(s)", self.run_it())
        self.assertTrue(self.journal().read_bytes().startswith(kept))
        self.assertEqual(self.calls(), POINTS + 1)
        self.assertEqual(len(self.records()), POINTS)

    def test_after_a_kill(self):
        process = self.start_and_wait()
        self.kill(process)
        self.check_that_it_goes_on()

    def test_after_a_signal_nothing_is_left_running(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number):
                process = self.start_and_wait()
                process.send_signal(number)
                self.assertEqual(process.wait(30), 128 + number)
                self.assertTrue(self.is_gone(self.pid()))
                self.check_that_it_goes_on()
                self.journal().unlink()
                (self.bin / "calls").unlink()

    def test_other_programs_libraries_and_settings_are_measured_anew(self):
        self.run_it()
        count = POINTS
        for change, word in ((lambda: self.program.write_text(PROGRAM + "# changed\n"), "programs"),
                             (lambda: (self.root / "ours/libgc.so.1").write_text("new"), "programs")):
            change()
            self.assertIn(f"measured anew: other {word}", self.run_it())
            count += POINTS
            self.assertEqual(self.calls(), count)
        self.assertIn("measured anew: other runs", self.run_it("allocation", "--runs", "2"))

    def change_header(self, change):
        header, rest = self.journal().read_bytes().split(b"\n", 1)
        content = json.loads(header)
        change(content)
        self.journal().write_bytes(json.dumps(content).encode() + b"\n" + rest)

    def test_runs_of_another_machine_do_not_count(self):
        self.run_it()
        for name in ("processor", "kernel"):
            before = self.calls()
            self.change_header(lambda header, name=name: self.assertNotEqual(
                header["settings"]["machine"].pop(name), ""))
            self.assertIn("measured anew: other machine", self.run_it())
            self.assertEqual(self.calls(), before + POINTS)

    def test_the_machine_is_that_of_the_runs(self):
        self.run_it()
        self.change_header(lambda header: header["described"].update(commit="before"))
        text = self.run_it()
        self.assertIn(f"of which {POINTS} are there already", text)
        content = json.loads((self.out / "allocation.json").read_text())
        self.assertEqual(content["machine"]["commit"], "before")

    def test_programs_that_change_meanwhile(self):
        self.program.write_text(PROGRAM + 'echo "# changed" >>"$0"\n')
        self.assertIn("a program or a library was changed during the runs", self.run_it(status=1))

    def test_by_one_process_at_a_time(self):
        process = self.start_and_wait()
        self.assertIn("allocation.runs.jsonl: another process measures", self.run_it(status=1))
        self.kill(process)


class Failures(WithPrograms):
    def test_of_programs(self):
        for broken, message in (("status", "exit status 3"), ("silent", "printed 0 lines"),
                                ("checksum", "checksum 2, not 1"), ("text", "no key=value pairs"),
                                ("metric", "prints no ops_per_second"),
                                ("number", "prints ops_per_second=nan, which is no number")):
            with self.subTest(broken):
                (self.bin / "broken").write_text(broken)
                text = self.run_it(status=1)
                self.assertIn("FAILED: allocation, malloc_peak, gleaner, threads 1, policy ps: ", text)
                self.assertIn(message, text)
                self.assertEqual(len(self.records()), POINTS - 2)  # the others
        (self.bin / "broken").unlink()
        self.run_it()  # what failed is not kept
        self.assertEqual(len(self.records()), POINTS)

    def test_a_program_that_is_not_there(self):
        self.program.unlink()
        self.assertIn("malloc_peak --count 5000000 --threads 1 --wake-markers: No such file",
                      self.run_it(status=1))

    def limited(self, size):
        """As with a full disk: files cannot grow beyond `size`."""
        limit = (size, resource.RLIM_INFINITY)
        return self.run_it(status=1,
                           preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))

    def test_a_full_disk(self):
        self.assertIn("allocation.runs.jsonl: not all of a line could be written", self.limited(50))
        self.assertIn("allocation.runs.jsonl: ", self.limited(6000))
        self.assertGreater(self.calls(), 0)
        self.run_it()
        self.assertEqual(len(self.records()), POINTS)
        self.assertIn("allocation.csv: File too large",
                      self.limited((self.out / "allocation.csv").stat().st_size - 1))

    def test_no_file_at_all(self):
        self.out.mkdir()
        self.journal().symlink_to("/dev/full")
        self.assertIn("allocation.runs.jsonl: not a regular file", self.run_it(status=1))

    def test_the_other_experiments_go_on(self):
        (self.out / "allocation.json").mkdir(parents=True)
        (self.out / "marking.runs.jsonl").mkdir()
        program = self.bin / "gleaner_bench_resident"
        program.write_text("#!/bin/sh\necho allocator,ns_per_operation\necho x,42\n")
        program.chmod(0o755)
        text = self.run_it("marking", "allocation", "resident", status=1)
        self.assertIn(f"FAILED: marking: {self.out}/marking.runs.jsonl: Is a directory", text)
        self.assertIn(f"FAILED: allocation: {self.out}/allocation.json: Is a directory", text)
        self.assertIn("| malloc_peak | gleaner, threads 2, policy lps:4 ", text)
        self.assertIn(f"{self.out}/resident.csv", text)

    def test_a_path_that_cannot_be_written(self):
        self.out.write_text("a file")
        self.assertRegex(self.run_it(status=1), "FAILED: .*/out.*(File exists|Not a directory)")

    def test_arguments(self):
        for arguments, message in (
                ([], "which experiment"), (["nothing"], "there is no experiment 'nothing'"),
                (["sweep"], "sweep needs --program"), (["allocation", "--runs", "0"], "at least 1"),
                (["allocation", "--seed", "-1"], "--seed must be at least 0"),
                (["allocation", "--markers", "2"], "--markers belongs to the experiment sweep"),
                (["sweep", "--program", "emacs"], "there is no program 'emacs'"),
                (["sweep", "--program", "cky", "--policy", "lps:0"], "'lps:0' is not al, ps"),
                (["sweep", "--program", "cky", "--balance", "yes"], "'yes' is not on or off"),
                (["sweep", "--program", "cky", "--markers", "0"], "'0' is not a number"),
                (["allocation", "--ours", "/nowhere"], "there is no libgc.so.1 in /nowhere")):
            with self.subTest(arguments):
                result = subprocess.run(self.command(*arguments), capture_output=True, text=True)
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr)


class Real(unittest.TestCase):
    def test_tiny_runs(self):
        if PLACES.bin is None:
            self.skipTest("no --bin")
        with tempfile.TemporaryDirectory() as out:
            result = subprocess.run(
                [sys.executable, "-B", HERE / "experiment.py", "figures", "--bin", PLACES.bin,
                 "--ours", PLACES.ours, "--theirs", PLACES.ours, "--smoke", "--quick", "--out", out,
                 "--seed", str(SEED),
                 "allocation", "policies"], capture_output=True, text=True, timeout=100)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            for name in ("allocation", "policies"):
                for suffix in ("csv", "json", "runs.jsonl"):
                    self.assertTrue(os.path.exists(os.path.join(out, f"{name}.{suffix}")), name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--bin")
    parser.add_argument("--ours")
    _, rest = parser.parse_known_args(namespace=PLACES)
    print(f"SEED={SEED}", flush=True)
    # A shell lets programs in the background ignore it, and so would all that are started here.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(argv=[sys.argv[0], *rest])
