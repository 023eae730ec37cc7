#!/usr/bin/env python3
"""Seeds violations into a small tree and sees check_layers.py, standard_names.py and waits.py find
exactly them."""

import pathlib
import tempfile
import unittest

import check_layers
import standard_names
import waits

CLEAN = {
    "platform/os/memory.h": "#include <cstddef>\n",
    "platform/os/memory.cc": '#include "platform/os/memory.h"\n#include <sys/mman.h>\n#include <signal.h>\n',
    "alloc/page.h": '#include "platform/os/memory.h"\n// getenv is read elsewhere.\n',
    "gc/mark/marker.cc": '#include "alloc/page.h"\nconst char* kText = "environ";\n',
    "runtime/process/options.cc": '#include "gc.h"\n#include "gc/gc_mark.h"\nchar* v = getenv("X");\n',
    "tools/gleaner.cc": '#include "runtime/process/options.h"\n#include <CLI/CLI.hpp>\n',
    "runtime/process/options.h": "",
    "include/gleaner/gc.h": "#include <signal.h>\n",
    "include/gleaner/gc/gc_mark.h": "",
    "cord/node.h": '#include "gc/gc_mark.h"\n',
    "cord/node.cc": '#include "cord/node.h"\n#include "gc.h"\n',
    "tests/fake.h": "",
}


class CheckLayers(unittest.TestCase):
    def found(self, extra, check=check_layers):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**CLEAN, **extra}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(check.violations(root))

    def expect_one(self, name, text, line, part):
        found = self.found({name: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{name}:{line}: "), found)
        self.assertIn(part, found[0])

    def test_clean_tree(self):
        self.assertEqual(self.found({}), [])

    def test_standard_names(self):
        text = """#include <vector>
            std::string s = "std::map";  // std::set
            int n = std::size(v), m = std::min(n, 2);
            int k = std::min(m, 3);
            """
        self.assertEqual(self.found({"gc/bad.cc": text}, standard_names),
                         ["gc/bad.cc:2: std::string without <string>",
                          "gc/bad.cc:3: std::min without <algorithm>"])
        # By another header; C's headers by either name.
        good = {"gc/more.h": "#include <string.h>\n#include <string>\n#include <algorithm>\n",
                "gc/good.cc": '#include "gc/more.h"\n' + text + "std::memcpy(); for (int i : {1, 2}) {}"}
        self.assertEqual(self.found(good, standard_names), [])
        self.assertEqual(self.found({"tests/bad.h": "for (int i : {1, 2}) {}"}, standard_names),
                         ["tests/bad.h:1: a range in braces without <initializer_list>"])

    def test_waits(self):
        text = """int main() {  // usleep(1), sleep
            usleep(1);
            while (!done && is_fine()) usleep(1);
            for (const int n = begin(); end() < n;) sleep_ms(1);
            while (1) usleep(1);
            for (;;) sleep_for(1);
            for (int i = 0; i < 20; ++i) SleepNs(1'000);
            puts("NowNs()"), SYS_clock_gettime;
            return NowNs() < std::chrono::steady_clock::now();
            }"""
        lines = [2, 5, 6, 7, 9]
        found = self.found({"tests/a.cc": text, waits.LIST: ""}, waits)
        self.assertEqual([line.split(": ")[0] for line in found],
                         ["tests/a.cc", *(f"tests/a.cc:{line}" for line in lines)])
        self.assertIn("has 6 fixed sleeps and looks at a clock, and 0 in", found[0])
        self.assertEqual(self.found({"tests/a.cc": text, waits.LIST: "tests/a.cc: 6: A reason.\n"},
                                    waits), [])
        # Fewer than listed, in each language.
        for name, line in (("tests/b.h", "int n;"), ("tests/b.py", "'time.sleep(1)'  # time.time()"),
                           ("tests/b.sh", "# sleep 1\nwait")):
            found = self.found({name: line, waits.LIST: f"{name}: 1: A reason."}, waits)
            self.assertEqual(len(found), 1, found)
            self.assertIn("has 0 fixed sleeps and looks at a clock, and 1 in", found[0])
        for name, line in (("tests/c.c", "x = time(NULL);"), ("tests/c.sh", "wait\n  sleep 0.1"),
                           ("tests/c.py", "time.sleep(1)"), ("tests/c.py", "time.monotonic()")):
            self.assertEqual(len(self.found({name: line}, waits)), 2, line)
        # Files that are gone, and lines without a reason.
        self.assertEqual(self.found({waits.LIST: "tests/d.c: 1: A reason."}, waits),
                         [f"{waits.LIST}: tests/d.c is not there"])
        found = self.found({"tests/d.c": "", waits.LIST: "tests/d.c: 0: "}, waits)
        self.assertEqual(len(found), 1, found)
        self.assertIn(f"{waits.LIST}:1: is not", found[0])

    def test_include_of_a_layer_above(self):
        self.expect_one("platform/bad.cc", '\n#include "alloc/page.h"\n', 2, "alloc/ is above platform/")
        self.expect_one("gc/bad.h", '#include "runtime/process/options.h"\n', 1, "runtime/ is above gc/")
        self.expect_one("runtime/api/bad.cc", '#  include "tools/gleaner.cc"\n', 1, "tools/ is above")

    def test_include_of_a_room_above(self):
        header = {"platform/threads/thread.h": "", "alloc/arenas/arena.h": "", "alloc/fits/fit.h": "",
                  "tools/report/report.h": "", "gc/cycle/cycle.h": "", "malloc/system/file.h": "",
                  "tools/predict/system/clock.h": ""}
        for name, target, part in (
                ("platform/os/bad.cc", "platform/threads/thread.h", "in platform/ the room threads is above os"),
                ("alloc/bad.h", "alloc/arenas/arena.h", "in alloc/ the room arenas is above ."),
                ("alloc/fits/bad.cc", "alloc/page.h", "in alloc/ the room . is above fits"),
                ("tools/run/bad.cc", "tools/report/report.h", "in tools/ the room report is above run"),
                ("tools/system/bad.cc", "tools/predict/system/clock.h", "in tools/ the room predict is above system"),
                ("platform/attic/bad.cc", "platform/os/memory.h", "platform/attic is not in the order")):
            found = self.found({**header, name: f'\n#include "{target}"\n'})
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f'{name}:2: includes "{target}": '), found)
            self.assertIn(part, found[0])
        # A room below, and a system/ of the room.
        for name, target in (("platform/threads/good.cc", "platform/os/memory.h"),
                             ("tools/predict/good.cc", "tools/predict/system/clock.h"),
                             ("malloc/good.cc", "malloc/system/file.h")):
            self.assertEqual(self.found({**header, name: f'#include "{target}"\n'}), [], name)

    def test_every_layer_has_rooms(self):
        self.assertEqual(list(check_layers.ROOMS), check_layers.LAYERS)

    def test_page_protection_is_optional(self):
        name = "platform/mprotect/tracker.h"
        include = f'#include "{name}"\n'
        for user in ("platform/tracking/bad.cc", "platform/threads/bad.cc", "gc/mark/bad.cc", "malloc/bad.cc"):
            found = self.found({name: "", user: include})
            self.assertEqual(len(found), 1, found)
            self.assertIn("only platform/tracking/write_tracking.h and runtime/ may", found[0])
        for user in ("platform/tracking/write_tracking.h", "platform/mprotect/more.cc", "runtime/api/user.cc"):
            self.assertEqual(self.found({name: "", user: include}), [], user)

    def test_circles(self):
        def ring(*names):
            """Each file includes the next one, the last one the first one."""
            return {name: f'#include "{after.replace(".cc", ".h")}"\n' for name, after in
                    zip(names, names[1:] + names[:1])}

        limit = check_layers.MAX_CIRCLE
        self.assertEqual(limit, 3)
        self.assertEqual(self.found(ring(*(f"gc/mark/f{i}.h" for i in range(limit)))), [])
        found = self.found(ring(*(f"gc/mark/f{i}.h" for i in range(limit + 1))))
        self.assertEqual(found, ["gc/mark/f0: is in a circle of 4 files, more than 3: "
                                 "gc/mark/f0 gc/mark/f1 gc/mark/f2 gc/mark/f3"])
        # By a source: it counts for its header.
        files = ring("gc/cycle/a.h", "gc/cycle/b.cc", "gc/cycle/c.h", "gc/cycle/d.h")
        found = self.found({**files, "gc/cycle/b.h": ""})
        self.assertEqual(len(found), 1, found)
        self.assertIn("circle of 4 files", found[0])

    def test_public_header_below_runtime(self):
        self.expect_one("gc/bad.cc", '#include "gc/gc_mark.h"\n', 1, "public headers")

    def test_library_beside_the_layers(self):
        for header in ("platform/os/memory.h", "runtime/process/options.h", "cord/node.h"):
            self.expect_one("cplusplus/bad.cc", f'#include "{header}"\n', 1, "public headers alone")
        self.expect_one("gc/bad.cc", '#include "cord/node.h"\n', 1, "in no layer")

    def test_path_that_is_not_from_the_root(self):
        self.expect_one("alloc/bad.cc", '#include "page.h"\n', 1, "not a path from the root")
        self.expect_one("alloc/bad.cc", '#include "tests/fake.h"\n', 1, "in no layer")

    def test_operating_system_header(self):
        for header in ("sys/mman.h", "signal.h", "csignal", "hwloc.h", "linux/futex.h"):
            self.expect_one("alloc/bad.cc", f"#include <{header}>\n", 1, "only platform/, observe/")
        self.expect_one("platform/bad.h", "#include <sys/types.h>\n", 1, "only platform/, observe/")
        self.expect_one("tools/system/bad.h", "#include <sys/types.h>\n", 1, "system/*.cc")
        self.assertEqual(self.found({"tools/system/good.cc": "#include <sys/types.h>\n"}), [])

    def test_malloc_is_above_runtime(self):
        self.expect_one("runtime/bad.cc", '#include "malloc/cache.h"\n', 1, "not a path from the root")
        self.assertEqual(self.found({"malloc/cache.h": '#include "runtime/process/options.h"\n'}), [])

    def test_environment(self):
        self.expect_one("gc/bad.cc", '/* two\nlines */ auto v = getenv("X");\n', 2, "environment")
        self.expect_one("runtime/bad.cc", "\nextern char** environ;\n", 2, "environment")


if __name__ == "__main__":
    unittest.main()
