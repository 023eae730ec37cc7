#!/usr/bin/env python3
"""Real programs give the same output and exit status with the library as without.

usage: programs.py LIBRARY [VARIABLE=VALUE...]

The variables are in the environment of the runs with the library.
"""

import os
import shutil
import subprocess
import sys
import tempfile

LIBRARY = os.path.abspath(sys.argv[1])
VARIABLES = dict(argument.split("=", 1) for argument in sys.argv[2:])

C_PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
struct node { struct node *left, *right; int value; };
static struct node *insert(struct node *n, int v) {
  if (!n) { n = calloc(1, sizeof *n); n->value = v; return n; }
  if (v < n->value) n->left = insert(n->left, v); else n->right = insert(n->right, v);
  return n;
}
static long sum(struct node *n) { return n ? n->value + sum(n->left) + sum(n->right) : 0; }
int main(void) { struct node *n = 0; for (int i = 0; i < 9999; ++i) n = insert(n, i * 7919 % 10007);
  printf("%ld\\n", sum(n)); return 0; }
"""
CXX_PROGRAM = """
#include <iostream>
#include <map>
#include <regex>
#include <string>
int main() { std::map<std::string, int> m; std::regex word("[a-z]+");
  std::string text = "the quick brown fox jumps over the lazy dog";
  for (std::sregex_iterator i(text.begin(), text.end(), word), end; i != end; ++i) ++m[i->str()];
  for (auto& [k, v] : m) std::cout << k << v << std::endl; }
"""
PYTHON_PROGRAM = """
import json, threading, re, hashlib, collections, subprocess, multiprocessing
data = {str(i): [i, i * 1.5, 'x' * (i % 50)] for i in range(20000)}
text = json.dumps(data)
print(hashlib.sha256(text.encode()).hexdigest(), len(json.loads(text)))
out = []
def work(n):
    c = collections.Counter(re.findall(r'[0-9]{2}', text[n * 1000:(n + 1) * 100000]))
    out.append((n, sorted(c.items())[:3]))
threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(out))
print(subprocess.run(['echo', 'from a child'], capture_output=True).stdout)
def square(x): return x * x
with multiprocessing.get_context('fork').Pool(3) as pool: print(sum(pool.map(square, range(1000))))
"""
SQL = """
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 50000)
  insert into t select i, 'row ' || i, i * 0.5 from n;
create index by_b on t(b);
select count(*), sum(c), min(b), max(b) from t where b like 'row 1%';
select b, a from t order by b desc limit 5;
delete from t where a % 3 = 0; vacuum; select count(*) from t; pragma integrity_check;
"""


def commands(folder):
    """Each leaves nothing that the next run would see."""
    with open(f"{folder}/tree.c", "w") as file:
        file.write(C_PROGRAM)
    with open(f"{folder}/words.cc", "w") as file:
        file.write(CXX_PROGRAM)
    yield "true", ["true"], None
    yield "sh", ["sh", "-c", "for i in 1 2 3; do echo $i | tr 1 2 | cat; done; exit 3"], None
    yield "sort", ["sort", "--parallel=4", "-S", "1M"], "".join(
        f"{i * 7919 % 100003}\n" for i in range(100000))
    yield "python3", [sys.executable, "-c", PYTHON_PROGRAM], None
    yield "perl", ["perl", "-e", "my %h; $h{$_ % 977} .= $_ for 1..200000; "
                   "print length($h{5}), q( ), scalar(keys %h), qq(\\n); fork // die; wait"], None
    yield "git", ["sh", "-c", f"rm -rf {folder}/git && mkdir {folder}/git && cd {folder}/git && "
                  "git init -q . && git config user.email a@b && git config user.name n && "
                  "for i in 1 2 3 4 5; do seq $i 2000 > f$i; git add .; "
                  "git -c gc.auto=0 commit -q -m $i --date 2020-01-01T00:00:00Z; done && "
                  "git gc -q && git fsck && git log --format=%s --stat && "
                  "git grep -c 77 HEAD -- f3"], None
    yield "gcc", ["sh", "-c", f"cd {folder} && gcc -O2 tree.c -o tree && ./tree"], None
    yield "g++", ["sh", "-c", f"cd {folder} && g++ -O1 words.cc -o words && ./words"], None
    yield "sqlite3", ["sqlite3", ":memory:"], SQL
    yield "xz", ["sh", "-c", "seq 200000 | xz -T2 -3 | xz -dc | md5sum"], None
    yield "tar", ["sh", "-c", "tar cf - -C /usr/include . 2>/dev/null | md5sum"], None


def main():
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command, text in commands(folder):
            if shutil.which(name) is None:
                failed.append(name)
                print(f"{name}: not installed")
                continue
            results = []
            for variables in ({"LD_PRELOAD": ""}, {"LD_PRELOAD": LIBRARY, **VARIABLES}):
                environment = {key: value for key, value in os.environ.items()
                               if not key.startswith(("GLEANER_", "GC_"))}
                environment.update(variables, LC_ALL="C")
                result = subprocess.run(command, input=text, capture_output=True, text=True,
                                        timeout=280, env=environment)
                results.append((result.returncode, result.stdout, result.stderr))
            if results[0] == results[1]:
                print(f"{name}: same")
            else:
                failed.append(name)
                print(f"{name}: differs\n  without: {results[0]}\n  with:    {results[1]}"[:4000])
    if failed:
        sys.exit("failed: " + " ".join(failed))


if __name__ == "__main__":
    main()
