"""Debian's clients of libgc and what each is run with; see run.py."""

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


GUILE = {"GUILE_AUTO_COMPILE": "0"}


def guile(version, scale, quick=False):
    program = f"guile-{version}"
    compiled = "{prepared}/workload.go"
    compile_file = "(use-modules (system base compile)) (compile-file (cadr (command-line)) #:output-file (caddr (command-line)))"
    return Client(
        f"guile:{version}" + (":quick" if quick else ""), "trees, weak tables, guardians, call/cc, threads",
        (program,), (f"/usr/bin/{program}",),
        [program, "-c", f'(load-compiled "{compiled}")', str(scale)],
        prepare=[[program, "-c", compile_file, "{input}/workload.scm", compiled]],
        environment=GUILE, lazily_bound=True, quick=quick)


CLIENTS = [
    guile("3.0", 10),
    guile("2.2", 10),
    Client("guile:compiler", "compiles a Scheme program of 250 lines", ("guile-3.0",), ("/usr/bin/guile-3.0",),
           ["guile-3.0", "-c", "(use-modules (system base compile)) (compile-file (cadr (command-line)) #:output-file \"out.go\")",
            "{input}/workload.scm"],
           environment=GUILE, lazily_bound=True),
    Client("ecl", "structures, CLOS, bignums, weak hash tables, finalizers, threads", ("ecl",), ("ecl",),
           ["ecl", "--norc", "--shell", "{input}/workload.lsp"], environment={"SCALE": "8"}, lazily_bound=True),
    Client("nix", "nix-instantiate evaluates a package set", ("nix-bin",), ("nix-instantiate",),
           ["nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "{input}/workload.nix"]),
    Client("neko", "objects, arrays, strings, closures, threads", ("neko",), ("neko", "nekoc"),
           ["neko", "{prepared}/workload.n"],
           prepare=[["nekoc", "-o", "{prepared}", "{input}/workload.neko"]]),
]
