"""Real programs whose standard output is their result, and what they work on."""

import os

from .malloc_running import run

PYTHON_SCRIPT = """
import json, re, collections
words = collections.Counter()
for i in range(30000):
    text = json.dumps({"key%d" % i: [i, str(i) * 3, {"n": i % 7}]})
    words.update(re.findall(r"[a-z]+|[0-9]{2,4}", text))
    if i % 1000 == 0:
        data = [json.loads(text) for _ in range(200)]
print(len(words), sum(words.values()), sorted(words.items())[:5])
"""

LUA_SCRIPT = """
local names = {}
for round = 1, 20 do
  local t = {}
  for i = 1, 20000 do
    t[i] = {id = i, name = "item" .. i .. "/" .. round, parts = {i, i + 1}}
  end
  for i = 1, 20000, 7 do names[#names + 1] = t[i].name:upper():sub(1, 6) end
end
print(#names, names[100], names[#names])
"""

SQL_SCRIPT = """
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT, c REAL);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO t SELECT i, 'text' || (i * 7919 % 10007), i / 3.0 FROM n;
CREATE INDEX tb ON t(b);
SELECT count(*), count(DISTINCT b), sum(length(b)) FROM t;
SELECT b, count(*), group_concat(a) FROM t GROUP BY b ORDER BY 2 DESC, 1 LIMIT 5;
UPDATE t SET b = b || upper(b) WHERE a % 3 = 0;
SELECT sum(length(b)), max(b) FROM t;
"""


class Inputs:
    """What the programs work on, made once in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        path = self.path(name)
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(text)
        return path

    def python(self):
        return self.file("work.py", PYTHON_SCRIPT)

    def lua(self):
        return self.file("work.lua", LUA_SCRIPT)

    def sql(self):
        return self.file("work.sql", SQL_SCRIPT)

    def c_program(self):
        functions = "".join(
            f"static int f{i}(int x) {{ int s = {i}; for (int j = 0; j < x; j++) "
            f"s = s * 31 + (x ^ j) % ({i} + 3); switch (s & 7) {{ case 0: return s + 1; "
            f"case 1: return s - x; case 2: return s ^ {i}; default: return s; }} }}\n"
            for i in range(600))
        return self.file("work.c", "int printf(const char *, ...);\n" + functions +
                         "int main(void) { int s = 0;\n" +
                         "".join(f"s += f{i}(s & 15);\n" for i in range(600)) +
                         'printf("%d\\n", s); return 0; }\n')

    def cmake_project(self):
        folder = self.path("project")
        if not os.path.isdir(folder):
            os.mkdir(folder)
            lines = ["cmake_minimum_required(VERSION 3.20)", "project(work NONE)",
                     "foreach(i RANGE 1 3000)", '  string(APPEND all "item${i};")',
                     '  set_property(GLOBAL APPEND PROPERTY list "value${i}")', "endforeach()",
                     'list(LENGTH all n)', 'string(REGEX REPLACE "item([0-9]+)" "\\\\1x" b "${all}")',
                     "list(SORT b)"]
            with open(os.path.join(folder, "CMakeLists.txt"), "w") as file:
                file.write("\n".join(lines) + "\n")
        return folder

    def repository(self):
        folder = self.path("repository")
        if os.path.isdir(folder):
            return folder
        os.mkdir(folder)
        identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
                    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
                    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
                    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z"}
        git = ["git", "-C", folder]
        run(["git", "init", "-q", folder])
        for commit in range(60):
            for name in range(12):
                with open(os.path.join(folder, f"file{name}.txt"), "w") as file:
                    file.writelines(f"line {line} {(line * 37 + name) % 91 if line % 17 else commit}\n"
                                    for line in range(700))
            run([*git, "add", "."])
            run([*git, "commit", "-q", "-m", f"commit {commit}"], **identity)
        return folder

    def picture(self):
        path = self.path("noise.v")
        if not os.path.exists(path):
            run(["vips", "gaussnoise", path, "2000", "1500"])
        return path

    def film(self):
        path = self.path("film.y4m")
        if not os.path.exists(path):
            width, height = 320, 240
            with open(path, "wb") as file:
                file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\n" % (width, height))
                for frame in range(50):
                    file.write(b"FRAME\n")
                    file.write(bytes((x * y // 7 + frame * 5) & 255
                                     for y in range(height) for x in range(width)))
                    file.write(bytes([128 + frame % 50]) * (width * height // 2))
        return path

    def compiler(self):
        """The compiler proper, without the driver that starts it."""
        return run(["gcc", "-print-prog-name=cc1"]).output.strip()


def commands(inputs):
    """Name to (argv, environment): programs whose standard output is their result."""
    all_commands = {
        "cc1": lambda: ([inputs.compiler(), "-quiet", "-O2", "-o", "-", inputs.c_program()], {}),
        "python": lambda: (["/usr/bin/python3", inputs.python()],
                           {"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "1"}),
        "git": lambda: (["git", "-C", inputs.repository(), "log", "-p", "--stat"],
                        {"GIT_PAGER": "cat"}),
        "cmake": lambda: (["cmake", "-S", inputs.cmake_project(), "-B", inputs.path("project/build"),
                           "-Wno-dev"], {}),
        "vips": lambda: (["vips", "gaussblur", inputs.picture(), inputs.path("blurred.v"), "6"],
                         {"VIPS_CONCURRENCY": "2"}),
        "x264": lambda: (["x264", "--quiet", "--no-progress", "--threads", "2", "-o", os.devnull,
                          inputs.film()], {}),
        "lua": lambda: (["lua5.4", inputs.lua()], {}),
        "sqlite3": lambda: (["sqlite3", "-batch", ":memory:", f".read {inputs.sql()}"], {}),
    }
    return all_commands
