"""Debian's clients of libgc and what each is run with; see run.py."""

import os
import shutil
from dataclasses import dataclass, field


@dataclass
class Client:
    """One workload of one client. In commands, {input} is the directory of its inputs, tests/compat/
    and the part of `name` before the colon, and {prepared} the one where `prepare` runs."""
    name: str
    what: str
    packages: tuple  # Debian packages that bring it.
    needs: tuple  # Programs or files; the workload is left out where one is absent.
    command: list
    prepare: list = field(default_factory=list)  # Commands that run once, before, on Debian's libgc.
    outputs: tuple = ()  # Files that the command writes into its working directory, compared too.
    status: int = 0
    environment: dict = field(default_factory=dict)
    normalise: list = field(default_factory=list)  # (pattern, replacement): what varies by nature.
    lazily_bound: bool = False  # Run with LD_BIND_NOW=1 as well.
    quick: bool = False
    # Bytes between collections in the runs of a mode, for a client that turns collection off soon.
    collect_every: str = ""

    def missing(self):
        """What it needs that is not installed."""
        return [program for program in self.needs if not
                (os.path.exists(program) if "/" in program else shutil.which(program))]


CRYSTAL_PACKAGES = ("crystal", "libpcre3-dev|libpcre2-dev", "libevent-dev")
GUILE = {"GUILE_AUTO_COMPILE": "0"}
COMPILE_SCHEME = ("(use-modules (system base compile))"
                  "(compile-file (cadr (command-line)) #:output-file (caddr (command-line)))")


def guile(version, scale):
    program = f"/usr/bin/guile-{version}"
    return Client(
        f"guile:{version}", "trees, weak tables, guardians, continuations, threads",
        (f"guile-{version}",), (program,),
        [program, "-c", '(load-compiled "{prepared}/workload.go")', str(scale)],
        prepare=[[program, "-c", COMPILE_SCHEME, "{input}/workload.scm", "{prepared}/workload.go"]],
        environment=GUILE, lazily_bound=True)


def crystal(name, what, flags, **more):
    return Client(f"crystal:{name}", what, CRYSTAL_PACKAGES, ("crystal",), ["{prepared}/workload"],
                  prepare=[["crystal", "build", *flags, "-o", "{prepared}/workload",
                            "{input}/workload.cr"]], lazily_bound=True, **more)


CLIENTS = [
    Client("guile", "the same at a tenth of the length", ("guile-3.0",), ("/usr/bin/guile-3.0",),
           guile("3.0", 1).command, prepare=guile("3.0", 1).prepare, environment=GUILE,
           lazily_bound=True, quick=True),
    guile("3.0", 10),
    guile("2.2", 10),
    Client("guile:compiler", "compiles a program of 230 lines", ("guile-3.0",),
           ("/usr/bin/guile-3.0",),
           ["/usr/bin/guile-3.0", "-c", COMPILE_SCHEME, "{input}/workload.scm", "out.go"],
           environment=GUILE, lazily_bound=True),
    Client("ecl", "structures, CLOS, bignums, weak tables, finalizers, threads", ("ecl",), ("ecl",),
           ["ecl", "--norc", "--shell", "{input}/workload.lsp"], environment={"SCALE": "6"},
           lazily_bound=True, quick=True),
    Client("nix", "nix-instantiate evaluates a package set", ("nix-bin",), ("nix-instantiate",),
           ["nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json",
            "{input}/workload.nix"], quick=True),
    Client("w3m", "formats a page of nested tables", ("w3m",), ("w3m", "python3"),
           ["w3m", "-dump", "-cols", "120", "-T", "text/html", "{prepared}/page.html"],
           prepare=[["sh", "-c", "python3 {input}/make_page.py 8000 > page.html"]], quick=True),
    Client("neko", "objects, arrays, strings, closures, threads", ("neko",), ("neko", "nekoc"),
           ["neko", "{prepared}/workload.n"],
           prepare=[["nekoc", "-o", "{prepared}", "{input}/workload.neko"]], quick=True),
    Client("maxima", "computer algebra on ECL", ("maxima-sage",), ("maxima-sage",),
           ["maxima-sage", "--very-quiet", "-b", "{input}/workload.mac"], lazily_bound=True),
    Client("macaulay2", "Groebner bases, resolutions, tasks on threads", ("macaulay2",), ("M2",),
           ["M2", "--script", "{input}/workload.m2"]),
    Client("asymptote", "draws a figure and writes EPS", ("asymptote",), ("asy",),
           ["asy", "-noV", "-o", "out", "{input}/workload.asy"], outputs=("out.eps",),
           # The time of writing.
           normalise=[(rb"^%%CreationDate: .*$", b"%%CreationDate:")]),
    crystal("program", "trees, fibers, channels, strings, finalizers", ["--release"], quick=True),
    crystal("debug", "the same, compiled without optimisation", []),
    crystal("threads", "the same with -Dpreview_mt: fibers on threads",
            ["--release", "-Dpreview_mt"]),
    Client("crystal:compiler", "compiles that program", CRYSTAL_PACKAGES, ("crystal",),
           ["crystal", "build", "--no-color", "-o", "out", "{input}/workload.cr"],
           environment={"CRYSTAL_CACHE_DIR": "cache"}, lazily_bound=True),
    Client("lilypond", "engraves a score of four staves", ("lilypond",), ("lilypond",),
           ["lilypond", "--ps", "-o", "out", "{input}/workload.ly"], outputs=("out.ps", "out.midi"),
           # The time of writing.
           normalise=[(rb"^%%CreationDate: .*$", b"%%CreationDate:")], lazily_bound=True),
    Client("poke", "arrays, structures, strings, mapped memory", ("poke",), ("poke",),
           ["poke", "--quiet", "-L", "{input}/workload.pk"]),
    Client("parser3", "hashes, tables, strings, objects", ("parser3-cgi",), ("parser3",),
           ["parser3", "{input}/workload.p"], collect_every="64k"),
    Client("objc", "libobjc_gc: trees, classes at run time, exceptions", ("gobjc", "libobjc-12-dev"),
           ("gcc", "/usr/lib/x86_64-linux-gnu/libobjc_gc.so.4"), ["{prepared}/workload"],
           prepare=[["gcc", "-O1", "-fobjc-exceptions", "-o", "{prepared}/workload",
                     "{input}/workload.m", "-lobjc_gc"]], lazily_bound=True),
    Client("stalin", "a compiled Scheme program", ("stalin",), ("stalin",), ["{prepared}/workload"],
           prepare=[["cp", "{input}/workload.sc", "."],
                    ["stalin", "-On", "-Ob", "-Om", "-d0", "workload"]], lazily_bound=True),
    Client("stalin:compiler", "compiles that program to C", ("stalin",), ("stalin",),
           ["sh", "-c", "cp {input}/workload.sc . && exec stalin -c -On -Ob -Om -d0 workload"],
           outputs=("workload.c",), lazily_bound=True),
    Client("goo", "interpreter: trees, vectors, closures", ("goo",), ("goo",),
           ["sh", "-c", "exec goo < {input}/workload.goo"]),
    Client("autogen", "expands a template for 600 records", ("autogen",), ("autogen",),
           ["autogen", "-L", "{input}", "-b", "out", "{prepared}/records.def"],
           prepare=[["sh", "-c", "python3 {input}/make_definitions.py 600 > records.def"]],
           outputs=("out.h", "out.c"), lazily_bound=True),
    Client("inkscape", "renders a drawing to PNG", ("inkscape",), ("inkscape",),
           ["inkscape", "--export-type=png", "--export-filename=out.png", "{prepared}/drawing.svg"],
           prepare=[["sh", "-c", "python3 {input}/make_drawing.py 1500 > drawing.svg"]],
           outputs=("out.png",),
           # The warnings of GTK without a display begin with the process and the time.
           normalise=[(rb"\(inkscape:\d+\)(.*): \d\d:\d\d:\d\d\.\d+:", rb"(inkscape)\1:")]),
    Client("inkscape:paths", "unites the paths of a drawing", ("inkscape",), ("inkscape",),
           ["inkscape", "--export-plain-svg", "--export-filename=out.svg",
            "--actions=select-all:all;path-union", "{prepared}/drawing.svg"],
           prepare=[["sh", "-c", "python3 {input}/make_drawing.py 400 > drawing.svg"]],
           outputs=("out.svg",),
           normalise=[(rb"\(inkscape:\d+\)(.*): \d\d:\d\d:\d\d\.\d+:", rb"(inkscape)\1:")]),
    Client("homfly", "polynomials of closed braids", ("libhomfly-dev",),
           ("gcc", "/usr/include/homfly.h"), ["{prepared}/workload", "20"],
           prepare=[["gcc", "-O1", "-D_GNU_SOURCE", "-o", "{prepared}/workload",
                     "{input}/workload.c", "-lhomfly"]]),
    Client("mmv", "renames 4,000 files by patterns", ("mmv",), ("mmv",), ["sh", "{input}/workload.sh"]),
    Client("chase", "follows 4,000 chains of links", ("chase",), ("chase",),
           ["sh", "{input}/workload.sh"], lazily_bound=True),
    Client("debfoster", "dependencies of the installed packages", ("debfoster",), ("debfoster",),
           ["sh", "{input}/workload.sh"], lazily_bound=True),
    Client("fauhdlc", "compiles a VHDL design", ("fauhdlc",), ("fauhdlc",),
           ["fauhdlc", "-o", "out", "{prepared}/design.vhdl"],
           prepare=[["sh", "-c", "python3 {input}/make_design.py 600 > design.vhdl"]],
           outputs=("out",), lazily_bound=True),
    Client("mailutils", "the delivery agent filters by Guile and Sieve", ("mailutils-mda",), ("/usr/sbin/mda",),
           ["sh", "{input}/workload.sh", "{input}/filter.scm"], environment=GUILE),
]
