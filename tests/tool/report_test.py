#!/usr/bin/env python3
"""gleaner report: what is on the page, in a browser and by the trace's own figures; what damage,
limits and hostile names do to it.

usage: report_test.py GLEANER DROPIN CLIENT [PICTURES]

With PICTURES, screenshots of a page go into that folder, to be looked at.
"""

import json
import os
import random
import re
import resource
import select
import signal
import stat
import struct
import subprocess
import sys
import time
import unittest

import browser
from command import SEED, CommandTest, ReportPage, clean, content, damaged, put
from trace_writer import NUMBERS, TraceWriter

GLEANER, DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
PICTURES = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 else None
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INCOMPLETE = 2
COMMAND_FAILED = 125
MAX_BYTES = 5_000_000
MS = 1_000_000
SECOND = 1000 * MS


class ReportTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.trace, self.page = self.path("run.trace"), self.path("run.html")

    def tool(self, *arguments, **options):
        return self.execute(GLEANER, *arguments, **options)

    def client(self, *arguments, **variables):
        self.execute(CLIENT, *arguments, env=clean(DROPIN, GLEANER_TRACE=self.trace, **variables))

    def report(self, *arguments, status=0):
        result = self.tool("report", self.trace, "-o", self.page, *arguments, status=status)
        self.read_page()
        return result

    def read_page(self):
        page = ReportPage(self.page)
        self.text, self.notes, self.blocks, self.figures = (page.text, page.notes, page.blocks,
                                                            page.figures)

    def advice(self):
        return [each["rule"] for each in self.blocks("advice")]

    def trace_events(self):
        return json.loads(self.tool("trace", self.trace, "-o", "-").stdout)["traceEvents"]


def milliseconds(text):
    number, unit = re.match(r"([\d.,]+) ?(ns|µs|ms|s)?", text).groups()
    return float(number.replace(",", "")) * {"ns": 1e-6, "µs": 1e-3, "ms": 1, "s": 1000,
                                             None: 0}[unit]


class Contents(ReportTest):
    def test_figures_are_the_trace_s(self):
        self.client("threads")
        self.report()
        events = self.trace_events()
        collections = [event["args"] for event in events if event["name"] == "collection"]
        stalls = [event["dur"] for event in events if event["name"].startswith("stall")]
        heaps = [event["args"] for event in events if event["name"] == "heap"]
        figures = self.figures()
        self.assertGreater(len(collections), 3)
        self.assertEqual(figures["Collections"], f"{len(collections):,}")
        pauses = [each["pause_ns"] / MS for each in collections]
        for name, expected in (("Longest pause", max(pauses)), ("Paused", sum(pauses)),
                               ("Longest stall", max(stalls) / 1000)):
            self.assertAlmostEqual(milliseconds(figures[name]), expected,
                                   delta=0.006 * expected, msg=name)
        resident = max(each["resident_bytes"] for each in heaps) / 1e6
        self.assertAlmostEqual(float(figures["Most resident"].split()[0]), resident,
                               delta=0.006 * resident)
        self.assertEqual(figures["Threads of the program"], "5")
        tables = {table["caption"]: table for table in self.blocks("bars")}
        slots = tables["Pages by size of slot, at the last sample"]
        self.assertIn("16 B", [row["label"] for row in slots["rows"]])
        self.assertIn("Looking for work", tables["Time of each marker while any marked"]["headings"])
        self.assertIn("Pages of small objects by the heap that owns them, at the last sample", tables)
        for table in tables.values():
            self.assertTrue(table["rows"], table)
            for row in table["rows"]:
                self.assertEqual(len(row["cells"]) + 1, len(table["headings"]), row)

    def test_a_program_is_run(self):
        result = self.tool("report", "-o", self.page, "--", CLIENT, "threads")
        self.assertIn("collections ", result.stdout)
        self.read_page()
        self.assertGreater(int(self.figures()["Collections"]), 0)
        self.tool("report", "--", CLIENT)
        self.assertEqual(self.files(), ["report.html", "run.html"])
        result = self.tool("report", "-o", self.page, "--", CLIENT, "kill", status=-9)
        self.assertTrue("The end of the trace is missing" in content(self.page))

    def test_a_program_that_cannot_be_run_or_is_not_traced(self):
        for arguments, reason, status in (
                (["/no/such"], "no such program", 127), (["/bin/true"], "has written no trace", 125),
                ([], "which program?", 125)):
            result = self.tool("report", "-o", self.page, "--", *arguments, status=status)
            self.assertIn(reason, result.stderr)
            self.assertEqual(self.files(), [])
        result = self.tool("report", "-o", "/no/folder/x", "--", CLIENT, status=COMMAND_FAILED)
        self.assertIn("/no/folder/x: No such file", result.stderr)
        self.assertEqual(result.stdout, "", "the program has not been run")

    def test_nothing_stands_out(self):
        writer = TraceWriter()
        writer.add_thread(1, "main")
        writer.add_tracking(1, 10 * MS)
        for i in range(10):
            writer.add_collection(i + 1, (i + 1) * SECOND, MS // 2)
        writer.end(11 * SECOND)
        writer.write(self.trace)
        self.report()
        self.assertEqual(self.advice(), [])
        self.assertIn("Nothing stands out.", self.blocks("text"))

    def test_no_tracker_and_no_collection(self):
        writer = TraceWriter()
        writer.add_thread(1, "main")
        writer.add_tracking(0, 10 * MS, "refused")
        writer.end(SECOND)
        writer.write(self.trace)
        self.report()
        self.assertEqual(self.advice(), [])

    def test_threads_that_live_short(self):
        """Each of 1,000 threads waits half of its life of 10 ms: that is half of all their time."""
        writer = TraceWriter()
        for i in range(1000):
            writer.add("thread", i + 1, i * 10 * MS, 100 + i, 0, 0, 0)
            writer.add("stall", i + 1, (i * 10 + 2) * MS, 5 * MS, 2)
            writer.add("thread end", i + 1, (i + 1) * 10 * MS)
        writer.end(10 * SECOND)
        writer.write(self.trace)
        self.report()
        self.assertEqual(self.advice(), ["throttled"])
        self.assertIn("which is 50 % of the time", self.blocks("advice")[0]["evidence"])

    def inspected(self, cause):
        """Of ten collections the last stops the program for half a second."""
        writer = TraceWriter()
        writer.add_thread(1, "main")
        writer.add_tracking(1, 10 * MS)
        for i in range(9):
            writer.add_collection(i + 1, (i + 1) * SECOND // 4, MS // 2)
        writer.add_collection(10, 3 * SECOND, SECOND // 2, cause=cause)
        writer.end(3 * SECOND)
        writer.write(self.trace)
        self.report()
        return self.figures()

    def test_a_snapshot_is_no_part_of_its_run(self):
        inspection = self.inspected(3)
        name = "Stopped for snapshots and reports of leaks"
        self.assertEqual(inspection.pop(name), "500 ms, in no other figure")
        self.assertEqual((inspection["Longest pause"], inspection["Collections"]), ("500 µs", "9"))
        self.assertEqual(self.advice(), [])
        explicit = self.inspected(1)
        self.assertEqual((explicit["Longest pause"], explicit["Collections"]), ("500 ms", "10"))
        self.assertNotIn(name, explicit)
        self.assertIn("pauses-above-goal", self.advice())

    def test_a_real_snapshot_is_none_either(self):
        self.client("work", GLEANER_MODE="stop", GLEANER_SNAPSHOT=self.path("snapshot"))
        self.report("--snapshot", self.path("snapshot"), "--machine", "flat")
        counted = [each["args"]["cause"] for each in self.trace_events()
                   if each["name"] == "collection"]
        self.assertEqual(self.figures()["Collections"], str(len(counted) - 1))
        self.assertEqual(counted.count("inspection"), 1)
        self.assertEqual(self.notes, [])

    def test_most_resident_is_not_less_than_live(self):
        writer = TraceWriter()
        writer.add_thread(1, "main")
        writer.add("heap", 1, 0, 1_000_000, 0, 0, 0)
        writer.add("collection", 1, MS, 1, 1, 0, 0, MS // 2, 0, 50_000_000, 10, 0, 60_000_000, 0, 1,
                   0, 0)
        writer.end(2 * MS)
        writer.write(self.trace)
        self.report()
        self.assertEqual(self.figures()["Most resident"], "60.0 MB")

    def test_parts_of_other_processes(self):
        snapshot, profile = self.path("snapshot"), self.path("profile")
        self.client("work", GLEANER_SNAPSHOT=snapshot, GLEANER_PROFILE=profile)
        parts = ["--snapshot", snapshot, "--profile", profile, "--machine", "flat"]
        self.assertEqual(self.report(*parts).stderr, "")
        self.client("work")
        result = self.report(*parts)
        for path in (snapshot, profile):
            for text in (result.stderr, " ".join(self.notes)):
                self.assertIn(f"{path} is not of the traced process", text)

    def test_threads_that_wait_for_processors(self):
        """What looks like a heap that is too small is a machine that is too small."""
        for waited, expected in ((0, ["allocation-stalls"]), (5 * SECOND, ["no-processor"])):
            writer = TraceWriter()
            writer.add_thread(1, "main")
            writer.add("stall", 1, SECOND, 6 * SECOND, 0)
            writer.add("waited", 1, 10 * SECOND, waited)
            writer.end(10 * SECOND)
            writer.write(self.trace)
            self.report()
            self.assertEqual(self.advice(), expected)

    def test_threads_end_in_a_trace(self):
        self.client("threads")
        data = content(self.trace, "rb")
        threads, ended, at = set(), set(), 32 + struct.unpack_from("<Q", data, 24)[0]
        while at < len(data):
            header, = struct.unpack_from("<Q", data, at)
            if header & 0xff in (NUMBERS["thread"], NUMBERS["thread end"]):
                (threads if header & 0xff == NUMBERS["thread"] else ended).add(header >> 32)
            at += 8 * (header >> 8 & 0xff)
        self.assertGreaterEqual(len(ended), 4)
        self.assertLess(ended, threads)

    def test_advice_names_sections_that_exist(self):
        source = content(os.path.join(SOURCE, "tools/report/report_advice.cc"))
        links = re.findall(r'"(docs/[\w/]+\.md)#([\w-]+)"', source)
        rules = re.findall(r'^    \{"([a-z-]+)", "', source, re.MULTILINE)
        self.assertEqual(len(links), len(rules))
        self.assertGreater(len(links), 10)
        for document, section in links:
            headings = re.findall(r"^#+ (.+)$", content(os.path.join(SOURCE, document)),
                                  re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
                     for heading in headings]
            self.assertIn(section, slugs, document)
        advice = re.search(r"^### Advice$(.*?)^#", content(os.path.join(SOURCE, "docs/reference/commands.md")),
                           re.MULTILINE | re.DOTALL)[1]
        documented = re.findall(r"^\| `([a-z-]+)` \|", advice, re.MULTILINE)
        self.assertEqual(documented, rules)

    def test_a_heap_profile(self):
        profile = self.path("profile")
        self.client("work", GLEANER_PROFILE=profile)
        self.report("--profile", profile)
        self.assertIn(f"google-pprof --web {CLIENT} {profile}", self.blocks("text"))
        self.assertEqual(self.notes, [])
        put(profile, "heap profile: 0: 0 [0: 0] @ heap_v2/1\n")
        self.report("--profile", profile)
        put(self.path("empty"), "")
        for path, reason in ((self.path("none"), "No such file"), (CLIENT, "no heap profile"),
                             (self.path("empty"), "empty")):
            result = self.report("--profile", path, status=1)
            self.assertIn(f"{path}: {reason}", result.stderr)


class Accidents(ReportTest):
    def test_a_trace_that_is_cut_or_damaged(self):
        self.client("work")
        data = content(self.trace, "rb")
        draw = random.Random(SEED)
        for _ in range(25):
            copy = damaged(data, draw, 400)
            put(self.trace, copy)
            result = subprocess.run([GLEANER, "report", self.trace, "-o", self.page],
                                    capture_output=True, text=True, timeout=100)
            self.assertIn(result.returncode, (0, 1, INCOMPLETE), f"seed {SEED}")
            if len(copy) < len(data):
                self.assertEqual(result.returncode, INCOMPLETE, f"seed {SEED}, cut at {len(copy)}")
            if result.returncode != 1:
                self.read_page()
                self.assertTrue(self.text.endswith("</html>\n"))
                if result.returncode == INCOMPLETE:
                    self.assertRegex(self.notes[0],
                                     "^The (end of the trace is missing|trace is damaged)")
                    self.assertIn(self.trace, result.stderr)

    def test_what_is_no_trace(self):
        for path, reason in ((self.path("none"), "No such file"), (CLIENT, "no collector trace"),
                             (self.folder, "Is a directory")):
            result = self.tool("report", path, "-o", self.page, status=1)
            self.assertIn(f"gleaner report: {path}: {reason}", result.stderr)
        self.assertEqual(self.files(), [], "no half page is left")

    def test_outputs_that_are_no_files(self):
        self.client("work")
        self.report()
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        with subprocess.Popen([GLEANER, "report", self.trace, "-o", fifo]) as process:
            with open(fifo, encoding="utf-8") as reader:
                self.assertEqual(reader.read(), self.text)
            self.assertEqual(process.wait(), 0)
        self.assertTrue(stat.S_ISFIFO(os.stat(fifo).st_mode), "it is still there")
        for output in ("-", "/dev/stdout"):
            read_end, write_end = os.pipe()
            os.set_blocking(write_end, False)
            with open(read_end, encoding="utf-8") as reader:
                with subprocess.Popen([GLEANER, "report", self.trace, "-o", output],
                                      stdout=write_end) as process:
                    while process.poll() is None and select.select([], [write_end], [], 0)[1]:
                        time.sleep(0.001)  # until it is full
                    os.close(write_end)
                    self.assertEqual(reader.read(), self.text)
                    self.assertEqual(process.wait(), 0)

    def test_closed_descriptors(self):
        self.client("work")

        def close_all():
            for descriptor in range(3):
                os.close(descriptor)

        for arguments in (["-o", self.page], ["-o", "-"]):
            status = subprocess.run([GLEANER, "report", self.path("none"), *arguments],
                                    preexec_fn=close_all).returncode
            self.assertEqual(status, 1)
            self.assertEqual(self.files(), ["run.trace"])
        status = subprocess.run([GLEANER, "report", self.trace, "-o", self.page],
                                preexec_fn=close_all).returncode
        self.assertEqual(status, 0)
        status = subprocess.run([GLEANER, "report", self.trace, "-o", "-"],
                                preexec_fn=close_all).returncode
        self.assertEqual(status, 1)

    def test_a_signal_leaves_no_file(self):
        """It comes while the machine is measured for the prediction, long before the page."""
        try:
            os.close(os.open(self.folder, os.O_TMPFILE | os.O_RDWR))
        except OSError:
            self.skipTest("the file system has no files without names")
        self.client("work", GLEANER_SNAPSHOT=self.path("snapshot"))
        before = self.files()
        environment = dict(os.environ, XDG_CACHE_HOME=self.path("none"))
        for number in (signal.SIGTERM, signal.SIGKILL):
            with subprocess.Popen([GLEANER, "report", self.trace, "--snapshot",
                                   self.path("snapshot"), "-o", self.page], env=environment,
                                  stderr=subprocess.PIPE, text=True) as process:
                self.assertIn("measuring this machine", process.stderr.readline())
                process.send_signal(number)
                process.stderr.read()
                self.assertEqual(process.wait(), -number)
            self.assertEqual(self.files(), before)

    def test_names_are_no_commands_to_the_terminal(self):
        name = self.path("\x1b[31mred")
        for arguments in (["trace", name], ["report", name], ["replay", name], ["ranks", name],
                          ["run", name], ["record", name], ["snapshot", name], ["why", name, "0"],
                          ["predict", name], ["topology", name], ["top", name]):
            put(name, "junk")
            result = subprocess.run([GLEANER, *arguments], capture_output=True, text=True,
                                    timeout=100, cwd=self.folder)
            self.assertNotEqual(result.returncode, 0)
            self.assertNotIn("\x1b", result.stderr, arguments)
            self.assertIn("\\033[31mred", result.stderr)
            self.assertLess(len(result.stderr), 400, arguments)

    def test_an_output_that_cannot_be_written(self):
        self.client("work")
        for output, reason in (("/dev/full", "No space left"), ("/no/folder/x", "No such file"),
                               (self.folder, "Is a directory"),
                               (self.trace, "that is what the page is made of")):
            result = self.tool("report", self.trace, "-o", output, status=1)
            self.assertIn(f"{output}: {reason}", result.stderr)
        put(self.page, "before")

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

        result = self.tool("report", self.trace, "-o", self.page, status=1,
                           preexec_fn=small_files)
        self.assertIn("File too large", result.stderr)
        self.assertEqual(self.files(), ["run.html", "run.trace"])
        self.assertEqual(content(self.page), "before")


@unittest.skipIf(browser.PROGRAM is None, "chromium is not installed")
class Page(ReportTest):
    def hostile_trace(self):
        writer = TraceWriter(command="</script><script>alert(1)</script> <img src=x onerror=a()>",
                             host="\"'><svg onload=alert(1)>")
        writer.add_thread(1, "</script><b>x")
        writer.add_thread(2, "\u202e\x07", role=1)
        writer.add_tracking(0, 10 * MS, "<script>console.log(1)</script>")
        for i in range(20):
            writer.add_collection(i + 1, (i + 1) * 50 * MS, 20 * MS)
        writer.write(self.trace)

    def long_trace(self):
        """Ten minutes with 10,000 collections."""
        draw = random.Random(SEED)
        writer = TraceWriter("long")
        for thread in range(1, 9):
            writer.add_thread(thread, f"worker {thread}")
        writer.add_tracking(1, 10 * MS)
        for i in range(10_000):
            end = (i + 1) * 60 * MS
            writer.add_collection(i + 1, end, int(draw.lognormvariate(14, 1)), draw.randrange(4),
                                  draw.randrange(40_000_000, 60_000_000))
            for thread in range(2, 9):
                writer.add("stall", thread, end - 40 * MS, draw.randrange(MS), draw.randrange(4))
            for k in range(5):
                writer.add("heap", 1, end - k * 10 * MS, draw.randrange(90_000_000, 110_000_000),
                           draw.randrange(50_000_000), 2_000_000, 120_000_000)
        for size in range(16, 512, 16):
            writer.add("size class", 1, 599 * SECOND, size, draw.randrange(1, 500), 0, 1000)
        writer.end(600 * SECOND)
        writer.write(self.trace)

    def test_a_real_run_in_every_form(self):
        self.client("threads", GC_MARKERS="2")
        self.report()
        with browser.Browser() as page:
            for name, width, dark in (("desktop", 1200, False), ("dark", 1200, True),
                                      ("phone", 360, False)):
                page.load(self.page, width=width, dark=dark)
                self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width,
                                     f"{name}: the page scrolls sideways")
                ink = page.evaluate("getComputedStyle(document.body).color")
                self.assertEqual(ink == "rgb(232, 234, 237)", dark, ink)
                self.assertEqual(page.evaluate("document.querySelectorAll('.chart canvas').length"),
                                 6)
                self.assertGreaterEqual(self.least_contrast(page), 3, name)
                if PICTURES:
                    page.picture(os.path.join(PICTURES, f"{name}.png"))
                self.assertEqual(page.evaluate("""[...document.querySelectorAll(".dygraph-axis-label")]
                    .filter((label) => label.getBoundingClientRect().left < 0)
                    .map((label) => label.textContent)"""), [], f"{name}: cut labels")
                self.check_bars(page)
            shown = page.evaluate("document.querySelector('main').innerText")
            self.assertIn(self.figures()["Longest pause"], shown.replace("\u00a0", " "))
            self.by_keyboard(page)
            self.assertEqual(page.messages, [])
            self.assertEqual({url for url in page.requests if not url.startswith("data:")},
                             {f"file://{self.page}"})

    def check_bars(self, page):
        """Each part of a bar is as long as the content says, but that what is there is seen."""
        drawn = page.evaluate("""[...document.querySelectorAll("table.bars")].map((table) =>
            [...table.querySelectorAll("td.bar")].map((bar) => [...bar.querySelectorAll("span")]
                .map((part) => part.getBoundingClientRect().width
                    / bar.firstChild.getBoundingClientRect().width)))""")
        tables = self.blocks("bars")
        self.assertEqual(len(drawn), len(tables))
        for table, rows in zip(tables, drawn):
            self.assertEqual(len(rows), len(table["rows"]))
            for row, parts in zip(table["rows"], rows):
                lengths = [length / table["full"] for length, _ in row["parts"] if length > 0]
                self.assertEqual(len(parts), len(lengths))
                for part, length in zip(parts, lengths):
                    self.assertAlmostEqual(part, length, delta=0.2, msg=table["caption"])

    @staticmethod
    def least_contrast(page):
        """Of what is drawn against the page."""
        return page.evaluate("""(() => {
            const style = getComputedStyle(document.documentElement);
            const light = (name) => {
                const parts = style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/g)
                    .map((part) => parseInt(part, 16) / 255)
                    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2] + 0.05;
            };
            return Math.min(...["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--rest"]
                .map((name) => light(name) / light("--page")).map((r) => r < 1 ? 1 / r : r));
        })()""")

    def by_keyboard(self, page):
        page.evaluate("document.body.focus()")
        page.press("Tab")
        self.assertEqual(page.evaluate("document.activeElement.className"), "skip")
        reached = set()
        for _ in range(90):
            page.press("Tab")
            reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        self.assertLessEqual({"A", "SUMMARY", "INPUT", "pauses-chart", "utilisation-chart",
                              "heap-chart"}, reached)
        page.evaluate("document.getElementById('pauses-chart').focus()")
        page.press("ArrowRight")
        self.assertRegex(page.evaluate("document.getElementById('pauses-chart-values').innerText"),
                         r"^At .* ms")
        for modifier in ("ctrlKey", "metaKey", "altKey"):
            self.assertTrue(page.evaluate("""document.getElementById('pauses-chart').dispatchEvent(
                new KeyboardEvent('keydown', {key: '0', %s: true, cancelable: true}))""" % modifier),
                            "it is the browser's")
        self.names_and_roles(page)

    def names_and_roles(self, page):
        """What is reached by keyboard, and what is a picture, says what it is."""
        self.assertGreater(page.evaluate("document.querySelectorAll('[tabindex=\"0\"]').length"), 1)
        self.assertEqual(page.evaluate("""[...document.querySelectorAll('svg, [tabindex]')]
            .filter((each) => each.id !== 'main' && !(each.getAttribute('aria-label')
                && each.getAttribute('role'))).length"""), 0)

    def test_the_page_of_several_ranks(self):
        traces = [self.path(f"{rank}.trace") for rank in range(2)]
        for rank, path in enumerate(traces):
            writer = TraceWriter(rank=rank)
            writer.add_thread(1, "main")
            writer.add_collection(1, SECOND, MS)
            writer.end(2 * SECOND)
            writer.write(path)
        self.tool("report", *traces, "-o", self.page)
        self.read_page()
        with browser.Browser() as page:
            page.load(self.page, width=360)
            self.assertEqual(page.messages, [])
            self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
            self.assertEqual(page.evaluate("document.querySelectorAll('svg.strips path').length"), 4)
            self.names_and_roles(page)
            self.check_bars(page)

    def test_a_long_trace_makes_a_small_page(self):
        self.long_trace()
        began = time.monotonic()
        self.report()
        took = time.monotonic() - began
        self.assertLess(len(self.text.encode()), MAX_BYTES)
        self.assertEqual(self.figures()["Collections"], "10,000")
        longest = max(event["args"]["pause_ns"] for event in self.trace_events()
                      if event["name"] == "collection") / MS
        with browser.Browser() as page:
            ready = page.load(self.page)
            print(f"page of {len(self.text) >> 10} KiB in {took:.2f} s, usable in {ready:.2f} s")
            self.assertEqual(page.messages, [])
        drawn = max(value for series in self.blocks("chart")[0]["series"] for value in series["v"])
        self.assertAlmostEqual(drawn, longest, delta=longest * 1e-5, msg="the extreme is kept")

    def test_hostile_names(self):
        self.hostile_trace()
        self.report(status=INCOMPLETE)
        self.assertIn("no-tracker", self.advice())
        with browser.Browser() as page:
            page.load(self.page)
            self.assertEqual(page.messages, [])
            self.assertEqual(page.evaluate("document.querySelectorAll('script').length"), 2)
            self.assertEqual(page.evaluate("document.querySelectorAll('img, b, [onload]').length"),
                             0)
            shown = page.evaluate("document.querySelector('header').innerText")
            self.assertIn("</script><script>alert(1)</script>", shown)
            self.assertIn("The end of the trace is missing", shown)


if __name__ == "__main__":
    print(f"seed {SEED}")
    unittest.main(argv=sys.argv[:1])
