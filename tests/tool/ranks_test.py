#!/usr/bin/env python3
"""gleaner ranks: on traces whose figures are known, and on damaged ones.

usage: ranks_test.py GLEANER
"""

import json
import os
import random
import struct
import subprocess
import sys
import unittest

from command import SEED, CommandTest, ReportPage, damaged, put

GLEANER = os.path.abspath(sys.argv[1])
PAUSE, COLLECTION, STALL, END, PROGRAM = 3, 4, 7, 16, 32  # observe/trace_events.def
ASSIST, PAUSED = 2, 4
MS = 1_000_000


def record(event, begin, *arguments, thread=1):
    return struct.pack(f"<{2 + len(arguments)}Q", event | (2 + len(arguments)) << 8 | thread << 32,
                       begin, *arguments)


def call(name, begin, end, thread=1):
    words = struct.unpack("<3Q", name.encode().ljust(24, b"\0"))
    return record(PROGRAM, begin, end - begin, *words, thread=thread)


def pause(begin, end):
    return record(PAUSE, begin, end - begin, 1) + record(COLLECTION, end, *range(14))


def trace(rank, *records, host="here", began=0, wall=0, end=True):
    text = (f"process=100\nrank={rank}\nhost={host}\nbegan_ns={began}\n"
            f"began_wall_ns={wall}\n").encode()
    text += b"\n" * (-len(text) % 8)
    head = struct.pack("<4Q", 0x314352544E4C47, 1, 0, len(text))
    return head + text + b"".join(records) + (record(END, 0, 0, 0) if end else b"")


class RanksTest(CommandTest):
    def write(self, *traces):
        return [put(self.path(f"{i}.trace"), trace) for i, trace in enumerate(traces)]

    def ranks(self, *paths, status=0):
        result = self.execute(GLEANER, "ranks", "--json", *paths, status=status)
        self.message = result.stderr
        return json.loads(result.stdout) if result.stdout else None

    def figures(self, run, key):
        return [rank[key] for rank in run["ranks"]]

    def test_the_collector_of_the_last_one_is_charged(self):
        # The others come at 10 and 14 ms; rank 1 at 20, after a pause of 5 and a stall of 3 that
        # overlap by 2.
        run = self.ranks(*self.write(
            trace("0", call("MPI_Barrier", 10 * MS, 21 * MS)),
            trace("1", pause(2 * MS, 7 * MS), record(STALL, 5 * MS, 3 * MS, ASSIST),
                  record(STALL, 2 * MS, 5 * MS, PAUSED), record(STALL, 9 * MS, 9 * MS, ASSIST, thread=2),
                  call("MPI_Barrier", 20 * MS, 21 * MS)),
            trace("2", call("MPI_Barrier", 14 * MS, 21 * MS))))
        self.assertEqual((run["exchanges"], run["held_up_by_collector"]), (1, 1))
        self.assertEqual(self.figures(run, "last"), [0, 1, 0])
        self.assertEqual(self.figures(run, "held_up_ns"), [0, 6 * MS, 0])
        self.assertEqual(self.figures(run, "by_collector_ns"), [0, 6 * MS, 0])
        self.assertEqual(self.figures(run, "waited_ns"), [10 * MS, 0, 6 * MS])
        self.assertEqual(self.figures(run, "pause_ns"), [0, 5 * MS, 0])
        self.assertEqual(self.figures(run, "collections"), [0, 1, 0])

    def test_a_pause_counts_between_the_exchanges_alone(self):
        # A millisecond of the pause lies in the exchange before, when nobody waits for the rank.
        run = self.ranks(*self.write(
            trace("0", call("MPI_Allreduce", 10 * MS, 20 * MS), call("MPI_Allreduce", 21 * MS, 30 * MS)),
            trace("1", call("MPI_Allreduce", 12 * MS, 20 * MS), pause(19 * MS, 23 * MS),
                  call("MPI_Allreduce", 29 * MS, 30 * MS))))
        self.assertEqual(self.figures(run, "held_up_ns"), [0, 10 * MS])
        self.assertEqual(self.figures(run, "by_collector_ns"), [0, 3 * MS])
        self.assertEqual(run["held_up_by_collector"], 1)

    def test_calls_that_hold_nobody_up_are_no_exchanges(self):
        run = self.ranks(*self.write(*(
            trace(str(i), call("MPI_Send", MS, 2 * MS), call("part MPI_Barrier", MS, 2 * MS),
                  call("MPI_Bcast", MS, 2 * MS), call("exchange", MS, 2 * MS)) for i in range(2))))
        self.assertEqual(run["exchanges"], 0)

    def test_hosts_have_clocks_of_their_own(self):
        # On the wall clock rank 1 comes 4 ms after rank 0.
        run = self.ranks(*self.write(
            trace("0", call("MPI_Barrier", 5 * MS, 20 * MS), host="a", began=0, wall=1000 * MS),
            trace("1", call("MPI_Barrier", 909 * MS, 920 * MS), host="b", began=900 * MS,
                  wall=1000 * MS)))
        self.assertEqual(self.figures(run, "held_up_ns"), [0, 4 * MS])

    def test_ranks_are_in_order(self):
        run = self.ranks(*self.write(*(trace(f"{rank:02}") for rank in reversed(range(11)))))
        self.assertEqual(self.figures(run, "rank"), list(range(11)))
        self.assertEqual(self.message, "")

    def test_ranks_that_are_missing(self):
        paths = self.write(*(trace(rank) for rank in ("7", "1", "4")))
        self.ranks(*paths, status=2)
        self.assertIn("no trace of rank 0, 2-3, 5-6\n", self.message)
        self.assertIn("There is no trace of rank 0, 2-3, 5-6.", self.report(*paths, status=2).notes)

    def test_a_rank_twice(self):
        barrier = call("MPI_Barrier", MS, 3 * MS)
        for rank, name in (("1", "rank 1"), ("", "process 100")):
            run = self.ranks(*self.write(trace("0", barrier), trace(rank, barrier),
                                         trace(rank, barrier)), status=2)
            self.assertEqual(run["exchanges"], 0)
            self.assertRegex(self.message, rf"{name} is in .*1\.trace and in .*2\.trace")

    def test_a_rank_that_is_no_number(self):
        for rank in ('x\x1b[31m","y', "-1", "1 ", "<0>", "99999999999999999999"):
            paths = self.write(trace("0"), trace(rank))
            run = self.ranks(*paths, status=2)
            self.assertEqual(self.figures(run, "rank"), [None, 0])
            self.assertIn("1.trace: the rank is no number; it is left out", self.message)
            page = self.report(*paths, status=2)
            self.assertEqual(page.blocks("bars")[0]["rows"][0]["label"], "process 100")

    def test_traces_of_different_runs(self):
        run = self.ranks(*self.write(
            trace("0", call("MPI_Barrier", MS, 3 * MS), call("MPI_Allreduce", 4 * MS, 6 * MS)),
            trace("1", call("MPI_Barrier", MS, 3 * MS), call("MPI_Barrier", 4 * MS, 6 * MS))), status=2)
        self.assertEqual(run["exchanges"], 1)
        self.assertIn("exchange 2 is MPI_Allreduce in", self.message)

    def test_an_exchange_that_ends_before_all_have_come(self):
        # The second exchange of rank 0 ends when rank 1 has not begun it.
        early = call("MPI_Barrier", MS, 3 * MS), call("MPI_Barrier", 4 * MS, 6 * MS)
        late = call("MPI_Barrier", 2 * MS, 3 * MS), call("MPI_Barrier", 6 * MS + 1, 7 * MS)
        paths = self.write(trace("0", *early), trace("1", *late))
        run = self.ranks(*paths, status=2)
        self.assertEqual((run["exchanges"], self.figures(run, "held_up_ns")), (1, [0, MS]))
        self.assertRegex(self.message, r"exchange 2 ended in .*0\.trace before it began in .*1\.trace: "
                                       "one of them lacks an exchange, they are of different runs\n")
        self.assertIn("The traces do not match: exchange 2 ended",
                      self.report(*paths, status=2).notes[0])

    def test_wall_clocks_may_differ_a_little(self):
        for difference, status in ((99 * MS, 0), (101 * MS, 2)):
            run = self.ranks(*self.write(
                trace("0", call("MPI_Barrier", 5 * MS, 20 * MS), host="a", wall=1000 * MS),
                trace("1", call("MPI_Barrier", 20 * MS, 21 * MS), host="b",
                      wall=1000 * MS + difference)), status=status)
            self.assertEqual(run["exchanges"], 0 if status else 1)
        self.assertIn("or the clocks of their hosts differ", self.message)

    def test_times_that_cannot_be(self):
        # Before the trace began, and beyond the last one that 64 bits hold.
        last = 2**64 - 1
        paths = self.write(*(
            trace(rank, call("MPI_Barrier", MS, last), pause(2 * MS, last), pause(0, MS),
                  call("MPI_Barrier", last, 2 * last), pause(last, last), began=5 * MS)
            for rank in ("0", "1")))
        run = self.ranks(*paths)
        for rank in run["ranks"]:
            for key, value in rank.items():
                self.assertLessEqual(value, 10**15, key)
        self.report(*paths)

    def test_an_end_that_is_missing(self):
        run = self.ranks(*self.write(
            trace("0", call("MPI_Barrier", MS, 3 * MS)),
            trace("1", call("MPI_Barrier", MS, 3 * MS), end=False)), status=2)
        self.assertEqual(run["exchanges"], 1)
        self.assertIn("1.trace: the end is missing", self.message)

    def test_no_trace(self):
        good, bad = self.write(trace("0"), b"no trace at all")
        self.assertIsNone(self.ranks(good, bad, status=1))
        self.assertIn("1.trace: no collector trace", self.message)
        self.assertIsNone(self.ranks(good, good + ".absent", status=1))
        self.assertIn("0.trace.absent: No such file", self.message)

    def report(self, *paths, status=0):
        page = self.path("page.html")
        self.execute(GLEANER, "report", *paths, "-o", page, status=status)
        return ReportPage(page)

    def test_the_page_has_the_figures(self):
        page = self.report(*self.write(
            trace("0", call("MPI_Barrier", 10 * MS, 20 * MS), call("MPI_Barrier", 30 * MS, 90 * MS)),
            trace("1", call("MPI_Barrier", 12 * MS, 20 * MS), pause(29 * MS, 69 * MS),
                  call("MPI_Barrier", 80 * MS, 90 * MS))))
        self.assertEqual(page.content["heading"], "The collectors of 2 ranks")
        figures = page.figures()
        for name, figure in (("Exchanges", "2"), ("Held up by one rank", "52.0 ms"),
                             ("Of it by collectors", "40.0 ms"), ("Waited for longest", "rank 1")):
            self.assertEqual(figures[name], figure)
        waiting = page.blocks("bars")[0]
        self.assertEqual([row["cells"] for row in waiting["rows"]],
                         [["0", "0", "0", "52.0 ms"], ["2", "52.0 ms", "40.0 ms", "0"]])
        self.assertEqual(waiting["rows"][1]["parts"], [[40e6, "k1"], [12e6, "k0"]])
        advice = {each["rule"]: each["evidence"] for each in page.blocks("advice")}
        self.assertIn("At 1 of 2 exchanges all ranks waited", advice["collect-together"])
        self.assertIn("Last at 2 of 2 exchanges was rank 1", advice["slowest-rank"])
        strips = page.blocks("strips")[0]["rows"]
        self.assertEqual([(sum(row["k1"]) > 0, sum(row["rest"]) > 0) for row in strips],
                         [(False, True), (True, True)])

    def test_the_page_says_what_is_missing(self):
        hostile = trace("1", call("MPI_Allreduce", MS, 3 * MS), end=False, host="<script>")
        notes = self.report(*self.write(trace("0", call("MPI_Barrier", MS, 3 * MS)), hostile),
                            status=2).notes
        for note, text in zip(notes, ("1 of the traces are not whole",
                                      "The traces do not match: exchange 1 is",
                                      "The traces have no exchange in common")):
            self.assertTrue(note.startswith(text), notes)
        self.assertEqual(len(notes), 3)

    def test_a_profile_is_of_one_process(self):
        traces = self.write(trace("0"), trace("1"))
        result = self.execute(GLEANER, "report", *traces, "--profile", traces[0], status=1)
        self.assertIn("--profile goes with one trace", result.stderr)

    def test_traces_cut_and_damaged(self):
        chance = random.Random(SEED)
        whole = trace("1", pause(2 * MS, 7 * MS), call("MPI_Barrier", 20 * MS, 21 * MS))
        for _ in range(60):
            result = subprocess.run([GLEANER, "ranks",
                                     *self.write(trace("0"), damaged(whole, chance))],
                                    capture_output=True, timeout=60)
            self.assertIn(result.returncode, (0, 1, 2), f"seed {SEED}")


if __name__ == "__main__":
    print("seed", SEED, flush=True)
    unittest.main(argv=sys.argv[:1])
