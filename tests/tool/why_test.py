#!/usr/bin/env python3
"""gleaner snapshot and gleaner why on snapshots of a program that keeps objects in known ways.

usage: why_test.py GLEANER DROPIN CLIENT
"""

import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from command import SEED, CommandTest, clean, content, damaged, put
from snapshot_bytes import blocks, checksummed

GLEANER, DROPIN, CLIENT = (os.path.abspath(path) for path in sys.argv[1:4])
FOLDER = tempfile.TemporaryDirectory()
TABLE, ENTRIES, DOCUMENTS = 128, 500, 500


def gleaner(*arguments):
    return subprocess.run([GLEANER, *arguments], capture_output=True, text=True, timeout=100,
                          env=clean())


class Case:
    """A snapshot of a case of the client, taken once, and what the client said of its objects."""
    taken = {}

    def __new__(cls, name):
        if name not in cls.taken:
            cls.taken[name] = super().__new__(cls)
            cls.taken[name].take(name)
        return cls.taken[name]

    def take(self, name, client=CLIENT, file=None):
        self.file = file or os.path.join(FOLDER.name, f"{name}.snapshot")
        result = subprocess.run([client, name, self.file], capture_output=True, text=True,
                                timeout=100, env=clean(DROPIN))
        assert result.returncode == 0, result.stderr
        self.address = dict(line.split() for line in result.stdout.splitlines())


class ToolTest(CommandTest):
    def run_tool(self, *arguments, status=0):
        return self.execute(GLEANER, *arguments, status=status)

    def why(self, case, *arguments, status=0):
        return self.run_tool("why", case.file, *arguments, status=status)

    def why_json(self, case, *arguments):
        result = self.why(case, *arguments, "--json")
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def snapshot_json(self, *files):
        return json.loads(self.run_tool("snapshot", *files, "--top", "1000", "--json").stdout)


class Paths(ToolTest):
    def test_a_global_map_keeps_its_values(self):
        case = Case("map")
        answer = self.why_json(case, case.address["document"])
        self.assertEqual(answer["address"], case.address["document"])
        self.assertRegex(answer["type"], "^Document$")
        (path,) = answer["paths"]
        self.assertRegex(path["root"], r"^static variable g_map \(\S+\), "
                                       r"declared at snapshot_client.cc:\d+, at 0x")
        self.assertEqual(path["certainty"], "probable")
        table, *entries, document = path["objects"]
        self.assertEqual(table["address"], case.address["table"])
        self.assertEqual(table["bytes"], TABLE)
        self.assertEqual([each["referred_at"] for each in entries], [3 * 8, 0, 0])
        self.assertEqual(entries[-1]["address"], case.address["entry"])
        self.assertEqual(document["referred_at"], 8)
        self.assertTrue(all(each["only_reference"] for each in path["objects"]))

    def test_text_says_the_same(self):
        case = Case("map")
        text = self.why(case, case.address["document"]).stdout
        self.assertIn("g_map", text)
        self.assertIn("word at +24", text)
        self.assertIn(f"-> {case.address['entry']}", text)
        self.assertIn("Probable:", text)
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)

    def test_an_address_may_lie_inside(self):
        case = Case("map")
        inside = hex(int(case.address["document"], 16) + 9)
        self.assertEqual(self.why_json(case, inside)["address"], case.address["document"])
        self.assertIn(f"{inside} is 9 bytes behind the beginning of",
                      self.why(case, inside).stdout)

    def test_the_largest_is_the_table(self):
        case = Case("map")
        answer = self.why_json(case, "--largest")
        self.assertEqual(answer["address"], case.address["table"])
        self.assertGreaterEqual(answer["retained_objects"], 1 + ENTRIES + 2 * DOCUMENTS)
        self.assertGreaterEqual(answer["retained_bytes"], TABLE + ENTRIES * 16 + DOCUMENTS * 1000)

    def test_all_of_a_type_are_grouped(self):
        case = Case("map")
        answer = self.why_json(case, "--type", "Document", "--top", "100")
        self.assertEqual(answer["objects"], DOCUMENTS)
        self.assertEqual(sum(group["objects"] for group in answer["groups"]), DOCUMENTS)
        # The words of the table have offsets of their own.
        self.assertEqual(len(answer["groups"]), 16)
        text = self.why(case, "--type", "Document", "--top", "2").stdout
        self.assertIn("500 objects", text)
        self.assertEqual(text.count("one of them is"), 2)
        self.assertIn("no objects of a kind or class",
                      self.why(case, "--type", "Nonesuch", status=1).stderr)

    def test_a_variable_of_a_function_of_a_thread(self):
        case = Case("stack")
        answer = self.why_json(case, case.address["held"])
        (path,) = answer["paths"]
        self.assertRegex(path["root"], r"^stack of thread \d+ \(holder\), in HoldOnStack\(\) "
                                       r"\(snapshot_client.cc:\d+\), at 0x")
        self.assertEqual(path["certainty"], "doubtful")
        self.assertIsNone(answer["sure_path"])
        self.assertIn("lies on a stack", self.why(case, case.address["held"]).stdout)

    @unittest.skipUnless(os.uname().machine == "x86_64", "the register's name")
    def test_a_register_that_a_callee_has_saved(self):
        case = Case("register")
        (path,) = self.why_json(case, case.address["held"])["paths"]
        self.assertRegex(path["root"], r"^(stack|registers) of the main thread \d+, in TakeRegister\(")

    def test_words_of_an_alternate_stack_are_as_doubtful_as_others(self):
        case = Case("alternate")
        answer = self.why_json(case, case.address["held"], "--paths", "3")
        self.assertRegex(answer["paths"][0]["root"], r"^alternate stack of thread \d+ ")
        for path in answer["paths"]:
            self.assertEqual(path["certainty"], "doubtful", path)
        self.assertIsNone(answer["sure_path"])

    def test_a_number_that_looks_like_an_address(self):
        case = Case("number")
        answer = self.why_json(case, case.address["number"])
        (path,) = answer["paths"]
        self.assertIn("g_number", path["root"])
        self.assertEqual(path["certainty"], "doubtful")
        self.assertTrue(path["objects"][0]["interior"])
        self.assertIsNone(answer["sure_path"])
        text = re.sub(r"\s+", " ", self.why(case, case.address["number"]).stdout)
        self.assertIn("may be a number that looks like an address. No other word refers to", text)
        self.assertIn("without words that may be no pointers it would be free", text)

    def test_a_sure_path_is_named_beside_a_doubtful_one(self):
        case = Case("both")
        answer = self.why_json(case, case.address["both"])
        self.assertIn("g_number", answer["paths"][0]["root"])
        self.assertEqual(answer["paths"][0]["certainty"], "doubtful")
        self.assertIn("g_other", answer["sure_path"]["root"])
        self.assertRegex(answer["sure_path"]["root"], r"\) \+ 16, ")
        self.assertEqual(len(answer["sure_path"]["objects"]), 3)
        self.assertIn("would be kept without such words", self.why(case, case.address["both"]).stdout)
        several = self.why_json(case, case.address["both"], "--paths", "3")["paths"]
        self.assertGreaterEqual(len(several), 2)
        roots = [path["root"] for path in several]
        self.assertEqual(len(roots), len(set(roots)))

    def test_objects_that_no_word_keeps(self):
        case = Case("wordless")
        for name, group in (("uncollectable", "uncollectable objects"),
                            ("finalized", "objects that wait for their finalizer")):
            (path,) = self.why_json(case, case.address[name])["paths"]
            self.assertEqual(path["root_group"], group)
            self.assertEqual(path["certainty"], "known")
            self.assertIn("no root: ", self.why(case, case.address[name]).stdout)

    def test_a_long_path_is_shortened_for_people_alone(self):
        case = Case("list")
        self.assertEqual(len(self.why_json(case, case.address["last"])["paths"][0]["objects"]), 10000)
        text = self.why(case, case.address["last"]).stdout
        self.assertLess(len(text.splitlines()), 20)
        self.assertRegex(text, r"9,99\d more like it")


    def test_rows_of_objects_that_are_repeated_are_shortened(self):
        case = Case("pairs")
        text = self.why(case, case.address["pair"]).stdout
        self.assertLess(len(text.splitlines()), 30, text)
        self.assertRegex(text, r"the last 2 in the same way 99\d more times")
        self.assertEqual(len(self.why_json(case, case.address["pair"])["paths"][0]["objects"]), 2000)
        groups = self.why_json(case, "--type", "NORMAL", "--top", "1000")["groups"]
        self.assertLess(len(groups), 230)
        self.assertLess(len(groups[0]["example"]["objects"]), 10)

    def test_of_a_long_path_both_ends_are_shown(self):
        case = Case("pairs")
        text = self.why(case, case.address["different"]).stdout
        self.assertLess(len(text.splitlines()), 100, text)
        self.assertIn("... 160 more objects ...", text)

    def test_a_word_that_is_known_is_no_number(self):
        case = Case("known")
        answer = self.why_json(case, case.address["object"], "--paths", "3")
        self.assertIn("g_number", answer["paths"][0]["root"])
        self.assertIn("g_other", answer["sure_path"]["root"])
        last = answer["sure_path"]["objects"][-1]
        self.assertTrue(last["interior"] and last["known"])

    def test_frames_beyond_what_the_snapshot_has_are_not_named(self):
        case = Case("deep")
        (path,) = self.why_json(case, case.address["held"])["paths"]
        self.assertRegex(path["root"], r"^stack of the main thread \d+, at 0x")

    def test_data_of_a_finalizer(self):
        case = Case("hostile")
        (path,) = self.why_json(case, case.address["data"])["paths"]
        self.assertEqual(path["root_group"], "data of the finalizer OnDeath(void*, void*)")
        self.assertIn(f" of {case.address['owner']}, at 0x", path["root"])

    def test_names_that_are_meant_for_the_terminal(self):
        case = Case("hostile")
        result = self.why(case, case.address["held"])
        self.assertIn("(a\\033[31m\\012b)", result.stdout)
        self.assertNotIn("\033", result.stdout + self.run_tool("snapshot", case.file).stdout)
        self.assertIn("(a\033[31m\nb)", self.why_json(case, case.address["held"])["paths"][0]["root"])

    def test_the_command_is_the_programs(self):
        case = object.__new__(Case)
        case.take("map", file=os.path.join(FOLDER.name, "two\nlines\\"))
        self.assertEqual(self.snapshot_json(case.file)["description"]["command"],
                         f"{CLIENT} map {case.file}")


    def test_a_word_that_points_to_an_object_is_not_taken_for_the_one_before(self):
        case = Case("neighbours")
        both = case.file + ".2"
        for name, place in (("first", r"\) \+ 8, "), ("second", r"client\), ")):
            text = self.run_tool("why", both, case.address[name], "--json").stdout
            (path,) = json.loads(text)["paths"]
            self.assertIn("g_other", path["root"])
            self.assertEqual(path["certainty"], "probable")
            self.assertRegex(path["root"], place)
        self.assertEqual(self.snapshot_json(both)["shared_objects"], 0)
        # Without a word of its own it is kept by that of the other one.
        text = re.sub(r"\s+", " ", self.why(case, case.address["first"]).stdout)
        self.assertIn(f"one past the end of -> {case.address['first']} ", text)
        self.assertIn("is meant for the object that begins there", text)
        self.assertIn("it would be free", text)


class Figures(ToolTest):
    def test_roots_kinds_and_largest(self):
        case = Case("map")
        summary = self.snapshot_json(case.file)
        root = next(row for row in summary["roots"] if "g_map" in row["root"])
        self.assertEqual(root, summary["roots"][0])
        self.assertGreaterEqual(root["objects"], 1 + ENTRIES + 2 * DOCUMENTS)
        self.assertEqual(summary["largest"][0]["address"], case.address["table"])
        self.assertEqual(summary["largest"][0]["root"], root["root"])
        for each in summary["largest"]:
            (path,) = self.why_json(case, each["address"])["paths"]
            self.assertEqual(each["root"], path["root_group"])
        documents = [row for row in summary["kinds"] if row["type"] == "Document"]
        self.assertEqual([row["objects"] for row in documents], [DOCUMENTS])
        self.assertTrue(all(row["objects"] > 0 for row in summary["roots"]))
        self.assertEqual(sum(row["objects"] for row in summary["kinds"]), summary["objects"])
        self.assertEqual(sum(row["bytes"] for row in summary["kinds"]), summary["bytes"])
        self.assertEqual(sum(row["bytes"] for row in summary["roots"]) + summary["shared_bytes"],
                         summary["reached_bytes"])

    def test_growth(self):
        case = Case("growth")
        grown = self.snapshot_json(case.file, case.file + ".2")["grown"]
        self.assertIn("g_map", grown["roots"][0]["root"])
        self.assertEqual(grown["roots"][0]["grown_objects"], ENTRIES + 2 * DOCUMENTS)
        documents = [row for row in grown["kinds"] if row["type"] == "Document"]
        self.assertEqual([row["grown_objects"] for row in documents], [DOCUMENTS])
        back = self.snapshot_json(case.file + ".2", case.file)["grown"]
        self.assertEqual(back["roots"][-1]["grown_objects"], -(ENTRIES + 2 * DOCUMENTS))
        same = self.run_tool("snapshot", case.file, case.file).stdout
        self.assertEqual(same.count("nothing has changed"), 2)

    def test_text_fits_a_terminal(self):
        case = Case("growth")
        for files in ((case.file,), (case.file, case.file + ".2")):
            text = self.run_tool("snapshot", *files).stdout
            self.assertIn("g_map", text)
            self.assertRegex(text, r"(?m) <- static\s+variable g_map\s")
            lines = [line for line in text.splitlines() if case.file not in line]
            self.assertTrue(all(len(line) <= 80 for line in lines), text)


class BadInput(ToolTest):
    def test_an_address_of_no_object(self):
        case = Case("map")
        message = self.why(case, "0x10", status=1).stderr
        self.assertIn("is in no object", message)
        self.assertIn("the next one above is 0x", message)
        self.assertIn("the next one below is 0x", self.why(case, "0x7fffffffffff", status=1).stderr)
        for words in ("no", "", "0x", "12z", "fffffffffffffffff", "--", " 10", "+10", "0x-10", "0x0x1"):
            self.assertNotEqual(gleaner("why", case.file, words).returncode, 0, words)

    def test_a_heap_without_roots(self):
        case = Case("map")
        data = bytearray(content(case.file, "rb"))
        roots, unknown = 7, 99
        for at, _ in blocks(data):
            if data[at] == roots:
                data[at] = unknown
        path = os.path.join(FOLDER.name, "rootless")
        put(path, checksummed(data))
        self.assertIn("no root reaches any",
                      self.run_tool("why", path, "--largest", status=1).stderr)
        self.assertIn("No root reaches it",
                      self.run_tool("why", path, case.address["document"]).stdout)
        self.assertIn("(reached by no root)", self.run_tool("snapshot", path).stdout)

    def test_what_is_asked_for_is_one_thing(self):
        case = Case("map")
        for arguments in ((), ("0x10", "--largest"), ("--largest", "--type", "x"),
                          ("--largest", "--paths", "0")):
            result = gleaner("why", case.file, *arguments)
            self.assertNotEqual(result.returncode, 0)
            self.assertEqual(result.stdout, "")
            self.assertIn("gleaner: ", result.stderr)

    def test_files_that_are_no_snapshot(self):
        for command in (("snapshot",), ("why", "--largest")):
            for file in ("/nonexistent", "/dev/null", FOLDER.name, GLEANER):
                result = self.run_tool(*command, file, status=1)
                self.assertIn(file, result.stderr)
                self.assertEqual(result.stdout, "")

    def test_full_disk(self):
        case = Case("map")
        for command in (("snapshot", case.file), ("why", case.file, "--largest"), ("options",),
                        ("options", "--markdown"), ("topology",), ("topology", "--json"),
                        ("--help",), ("--version",), ("why", "--help"), ("symbolize",)):
            with open("/dev/full", "w") as full:
                result = subprocess.run([GLEANER, *command], stdin=subprocess.DEVNULL, stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=100, env=clean())
            self.assertEqual(result.returncode, 1)
            self.assertIn("cannot be written", result.stderr)

    def test_damaged_and_cut_files(self):
        case = Case("map")
        good = content(case.file, "rb")
        choose = random.Random(SEED)
        for number in range(40):
            path = put(self.path("damaged"), damaged(good, choose))
            result = gleaner(*choose.choice((("snapshot", path), ("why", path, "--largest"))))
            self.assertEqual(result.returncode, 1, f"{number}: {result.stdout}")
            self.assertIn(path, result.stderr)

    def test_a_program_that_has_changed(self):
        program = os.path.join(FOLDER.name, "a\033program")
        shutil.copy(CLIENT, program)
        case = object.__new__(Case)
        case.take("map", program, os.path.join(FOLDER.name, "other.snapshot"))
        os.remove(program)
        result = self.why(case, case.address["document"])
        self.assertIn("a\\033program cannot be read", result.stderr)
        self.assertRegex(result.stdout, r"static data of a\\033program \+ 0x")
        os.mkfifo(program)
        self.assertIn("program cannot be read",
                      self.why(case, case.address["document"]).stderr)
        os.remove(program)
        shutil.copy(GLEANER, program)
        result = self.why(case, case.address["document"])
        self.assertIn("is not the file that the program had loaded", result.stderr)
        self.assertNotIn("g_map", result.stdout)

    def test_a_program_without_build_id(self):
        program = os.path.join(FOLDER.name, "without")

        def copy(source):
            note, other = (struct.pack("<3I", 4, 20, kind) + b"GNU\0" for kind in (3, 99))
            with open(source, "rb") as file, open(program, "wb") as out:
                out.write(file.read().replace(note, other))

        copy(CLIENT)
        os.chmod(program, 0o700)
        case = object.__new__(Case)
        case.take("map", program, os.path.join(FOLDER.name, "other.snapshot"))
        result = self.why(case, case.address["document"])
        self.assertIn("without has no build id", result.stderr)
        self.assertIn("g_map", result.stdout)
        copy(GLEANER)  # another program, which has none either
        result = self.why(case, case.address["document"])
        self.assertIn("segments are others", result.stderr)
        self.assertNotIn("g_map", result.stdout)


if __name__ == "__main__":
    print(f"seed {SEED}", file=sys.stderr)
    unittest.main(argv=sys.argv[:1])
