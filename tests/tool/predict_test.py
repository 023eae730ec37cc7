#!/usr/bin/env python3
"""gleaner predict and gleaner calibrate.

usage: predict_test.py GLEANER DROPIN CLIENT [CLASS...]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from command import CommandTest, ReportPage, clean, content, put

GLEANER, DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
SNAPSHOT = os.path.join(FOLDER.name, "map.snapshot")
TRACE = os.path.join(FOLDER.name, "map.trace")
PARTS = ("work", "added_misses", "waiting", "contention", "idle", "waking")
MACHINES = ("enterprise10000", "flat", "origin2000", "two-socket")


def environment(library=None, **more):
    return clean(library, HOME=FOLDER.name, **more)


def setUpModule():
    result = subprocess.run([CLIENT, "map", SNAPSHOT], capture_output=True, text=True,
                            timeout=100,
                            env=environment(DROPIN, GLEANER_TRACE=TRACE))
    assert result.returncode == 0, result.stderr


class ToolTest(CommandTest):
    def run_tool(self, *arguments, status=0, **more):
        return self.execute(GLEANER, *arguments, status=status, env=environment(**more))

    def predict(self, *arguments, machine="flat", snapshot=SNAPSHOT):
        return json.loads(self.run_tool("predict", snapshot, "--machine", machine, "--json",
                                        *arguments).stdout)

    def file(self, name, text):
        return put(os.path.join(FOLDER.name, name), text)


class Prediction(ToolTest):
    def test_parts_of_the_processors_time_add_up(self):
        for machine in MACHINES:
            for marking in self.predict(machine=machine)["markings"]:
                self.assertAlmostEqual(sum(marking[part] for part in PARTS), 1, delta=0.02)
                for part in PARTS:
                    self.assertGreaterEqual(marking[part], 0)

    def test_markers(self):
        for text, numbers in (("1-64", [1, 2, 4, 8, 16, 32, 64]), ("3", [1, 3]),
                              ("3-20,5", [1, 3, 4, 5, 8, 16, 20]), ("1024", [1, 1024])):
            document = self.predict("--markers", text)
            self.assertEqual([marking["markers"] for marking in document["markings"]], numbers)
            self.assertEqual(document["markings"][0]["speed_up"], 1)
            self.assertIn(document["best_markers"], numbers)
        for text in ("0", "1025", "8-4", "x", "1-", "1,", "-3", "1 2"):
            result = self.run_tool("predict", SNAPSHOT, "--machine", "flat", f"--markers={text}",
                                   status=1)
            self.assertIn("numbers from 1 to 1024 are expected", result.stderr)

    def test_what_was_measured_is_told(self):
        measured = self.predict("--markers", "1")["measured"]
        self.assertGreaterEqual(measured["markers"], 1)
        self.assertGreater(measured["mark_ns"], 0)
        # All its markers marked for a part of that time.
        self.assertGreater(measured["busy_ns"], 0)
        self.assertLessEqual(measured["busy_ns"], measured["markers"] * measured["mark_ns"] * 1.01)

    def test_the_collector_chooses_no_worse_than_by_a_twentieth(self):
        for machine in ("flat", "two-socket"):
            document = self.predict("--markers", "1-64", machine=machine)
            best = min(marking["mark_ns"] for marking in document["markings"])
            # And two wake-ups: so small a heap is marked in some of them.
            self.assertLessEqual(document["adaptive"]["mark_ns"], 1.05 * best + 10_000, machine)
        self.assertNotIn("adaptive", self.predict("--markers", "1"))

    def test_the_same_twice(self):
        arguments = ("predict", SNAPSHOT, "--machine", "two-socket", "--markers", "1-256")
        self.assertEqual(self.run_tool(*arguments).stdout, self.run_tool(*arguments).stdout)

    def test_its_figures_are_those_of_the_snapshot(self):
        document = self.predict("--markers", "1")
        totals = json.loads(self.run_tool("snapshot", "--json", SNAPSHOT).stdout)
        self.assertLessEqual(document["objects"], totals["objects"])
        self.assertGreater(document["objects"], totals["objects"] / 2)
        self.assertEqual(document["references"], totals["references"])

    def test_text(self):
        text = self.run_tool("predict", SNAPSHOT, "--machine", "flat").stdout
        self.assertIn("on flat memory (64 processors, memory without waiting)", text)
        self.assertRegex(text, r"(?m)^ +1 +\S+\s\S+ +\d+ % +1\.00   #+")
        self.assertRegex(text, r"(?m)^ +64 ")
        self.assertRegex(text, r"(?m)^ +auto ")
        self.assertRegex(text, r"(?m)^ +was +\S+\s\S+ +\(\d+ markers?, when the snapshot was taken\)")
        self.assertIn("GC_MARKERS=", text)

    def prediction(self, page):
        return ReportPage(page).sections["prediction"]

    def test_the_panel_of_a_report(self):
        page = os.path.join(FOLDER.name, "page.html")
        self.run_tool("report", TRACE, "-o", page, "--snapshot", SNAPSHOT, "--machine", "flat")
        panel = self.prediction(page)
        self.assertTrue(panel[0]["text"].startswith("Predicted for the snapshot's"), panel)
        predicted = self.predict("--markers", "1-64")
        self.assertEqual([row["label"] for row in panel[1]["bars"]["rows"]],
                         [str(each["markers"]) for each in predicted["markings"]])
        self.assertEqual([row["cells"][1] for row in panel[1]["bars"]["rows"]],
                         [f"{each['speed_up']:.2f}" for each in predicted["markings"]])
        self.assertEqual([block["text"] for block in panel[2:]], predicted["advice"])
        self.assertIn("GC_MARKERS=", json.dumps(panel))
        self.run_tool("report", TRACE, "-o", page)
        self.assertIn("No heap snapshot was given", json.dumps(self.prediction(page)))
        for arguments, words in ((("--snapshot", TRACE), ": no heap snapshot"),
                                 (("--snapshot", SNAPSHOT, "--machine", "x"), "no machine x")):
            result = self.run_tool("report", TRACE, "-o", page, *arguments, status=1)
            self.assertIn(words, result.stderr)
        result = self.run_tool("report", TRACE, "-o", SNAPSHOT, "--snapshot", SNAPSHOT, status=1)
        self.assertIn("that is what the page is made of", result.stderr)

    def test_snapshots_that_are_none(self):
        whole = content(SNAPSHOT, "rb")
        for name, data in (("empty", b""), ("half", whole[:len(whole) // 2]),
                              ("text", b"no snapshot at all"),
                              ("damaged", whole[:3000] + b"\xff" + whole[3001:])):
            path = os.path.join(FOLDER.name, name)
            put(path, data)
            result = self.run_tool("predict", path, "--machine", "flat", status=1)
            self.assertEqual(result.stdout, "")
            self.assertTrue(result.stderr.startswith("gleaner predict: "), result.stderr)
            self.assertIn(path, result.stderr)
        self.run_tool("predict", os.path.join(FOLDER.name, "none"), "--machine", "flat", status=1)


class Machines(ToolTest):
    def test_unknown_ones_are_told_with_those_that_exist(self):
        result = self.run_tool("predict", SNAPSHOT, "--machine", "cray", status=1)
        self.assertIn("there is no machine cray; there are " + ", ".join(MACHINES), result.stderr)
        result = self.run_tool("predict", SNAPSHOT, "--machine", "./cray", status=1)
        self.assertIn("./cray: it cannot be read", result.stderr)

    def test_wrong_lines_are_told_by_their_number(self):
        folder = os.path.join(os.path.dirname(GLEANER), "../share/gleaner/machines")
        right = content(os.path.join(folder, "flat.machine"))
        self.assertEqual(self.predict(machine=self.file("right.machine", right)),
                         self.predict(machine=self.file("old.machine", right + "relax_ns 0\n"
                                                        "yield_ns 9\nwake_ns 1e6\n")))
        for line, words in (("speed_ns 3", "speed_ns: there is no such name"),
                            ("word_ns", "word_ns: one number is expected"),
                            ("word_ns -1", "word_ns: numbers from 0 on are expected"),
                            ("word_ns nan", "word_ns: numbers from 0 on are expected"),
                            ("word_ns 1e99", "word_ns: numbers from 0 on are expected"),
                            ("wake_call_ns 1e7", "wake_call_ns: at most 1e6 is expected"),
                            ("concentration 2", "concentration: at most 1 is expected"),
                            ("memory 1 1e7 1 1", "four times are expected"),
                            ("processors 0", "a number from 1 to 4096"),
                            ("cache 32768 63 8 0 0 0 0 0", "a power of two"),
                            ("cache 100 64 8 0 0 0 0 0", "eight numbers are expected"),
                            ("tlb 0 4096 1 1 1 1", "six numbers are expected"),
                            ("memory 1", "four times are expected")):
            path = self.file("wrong.machine", right + line + "\n")
            result = self.run_tool("predict", SNAPSHOT, "--machine", path, status=1)
            number = right.count("\n") + 1
            self.assertIn(f"{path}:{number}: ", result.stderr)
            self.assertIn(words, result.stderr)
        path = self.file("near.machine", right + "one_way_ns 5\n")
        result = self.run_tool("predict", SNAPSHOT, "--machine", path, status=1)
        self.assertIn("one_way_remote_ns is less than one_way_ns", result.stderr)
        free = "".join(f"{key}_ns 0\n" for key in ("atomic", "load", "transfer", "wake_call", "start",
                                                    "range", "reference", "chain"))
        document = self.predict(machine=self.file("free.machine", right + free))
        self.assertGreater(document["markings"][-1]["mark_ns"], 0)
        path = self.file("short.machine", "processors 2\n")
        result = self.run_tool("predict", SNAPSHOT, "--machine", path, status=1)
        self.assertIn("it says nothing about cache", result.stderr)


class Calibration(ToolTest):  # measures for some 20 s each time
    def test_this_machine_is_measured_once(self):
        result = self.run_tool("predict", SNAPSHOT, "--markers", "1,2")
        kept = os.path.join(FOLDER.name, ".cache/gleaner/this.machine")
        self.assertIn(f"kept in {kept}", result.stderr)
        measured = content(kept)
        again = self.run_tool("predict", SNAPSHOT, "--markers", "1,2").stderr
        self.assertNotIn("measuring", again)
        self.assertEqual("was busy when it was measured" in again, "\ndoubtful 1\n" in measured)
        doubtful = re.sub("doubtful .*", "doubtful 1", measured)
        self.file(".cache/gleaner/this.machine", doubtful)
        again = self.run_tool("predict", SNAPSHOT, "--markers", "1,2").stderr
        self.assertIn("was busy when it was measured", again)
        # Of another processor: measured again, into the folder that XDG_CACHE_HOME names.
        folder = os.path.join(FOLDER.name, "cache")
        os.makedirs(os.path.join(folder, "gleaner"))
        other = os.path.join(folder, "gleaner/this.machine")
        self.file("cache/gleaner/this.machine", measured.replace("description ", "description x"))
        result = self.run_tool("calibrate", XDG_CACHE_HOME=folder)
        self.assertIn(other, result.stderr)
        self.assertNotIn("description x", content(other))

    def test_a_description_that_cannot_be_written(self):
        result = self.run_tool("calibrate", "-o", "/proc/none", status=1)
        self.assertIn("gleaner calibrate: /proc/none: ", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
