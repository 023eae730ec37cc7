"""Emulated machines with several memory nodes: QEMU without KVM, network, disk or privileges, and
Debian's kernel.

with Machine([Node(2, 256), Node(2, 256)], build, files=[program]) as machine:
    finished = machine.run([program, "argument"], VARIABLE="value")

A machine boots once, in a few seconds, and runs any number of commands, one after the other. It
has four serial lines: the kernel's console, what commands print to standard output and to standard
error, and one on which it is told commands and answers with their exit status.
"""

import dataclasses
import itertools
import os
import re
import select
import shlex
import shutil
import subprocess
import tempfile
import time

from debian_kernel import kernel
from initramfs import pack

QEMU = "qemu-system-x86_64"
BUSYBOX = "busybox"

# Any processor may have unpacked the files, so that their pages are on any node: copies that the
# first processor has made are on node 0.
# Huge pages are as on a machine of usual size: with less than 512 MB the kernel leaves them off.
# Commands write to pipes, not to a terminal. A line is closed only when all that was written to it
# has left, so that the status follows the output.
INIT = """#!{busybox} sh
{busybox} --install -s /bin
export PATH=/bin
newline='
'
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mount -t cgroup2 none /sys/fs/cgroup
find / -xdev -type f | while read -r file; do
  taskset 1 cp -p "$file" "$file.copy" && mv "$file.copy" "$file"
done
cd /sys/kernel/mm/transparent_hugepage
echo {huge_pages} >enabled
echo madvise >defrag
echo 1 >use_zero_page
for line in 1 2 3; do stty -F /dev/ttyS$line raw -echo; done
mkfifo /dev/output /dev/errors
cd /tmp
exec 3<>/dev/ttyS3
echo ready >&3
while read -r command <&3; do
  cat /dev/output >/dev/ttyS1 &
  cat /dev/errors >/dev/ttyS2 &
  (eval "$command") </dev/null >/dev/output 2>/dev/errors 3<&-
  status=$?
  wait
  echo $status >&3
done
"""

# Without AVX2, of which the emulator does not do masked loads as processors do: they fault on words
# that the mask leaves out, where the collector reads the end of a mapping.
PROCESSOR = "max,avx2=off"

# What shortens the start, what ends the machine if the kernel panics, and pages that stay where
# they are.
KERNEL_ARGUMENTS = ("console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable lpj=4000000 "
                    "numa_balancing=disable")


class MachineFailed(Exception):
    pass


@dataclasses.dataclass
class Node:
    processors: int
    memory_mb: int


@dataclasses.dataclass
class Finished:
    output: str
    errors: str
    status: int  # 128 and the signal's number if one has ended the command


def find_program(name, package):
    path = shutil.which(name)
    if not path:
        raise MachineFailed(f"there is no {name}: install {package}, as ./dev test does")
    return path


def hardware(nodes, distances):
    """QEMU's arguments for the nodes."""
    # The kernel numbers nodes with processors first.
    with_processors = [node.processors for node in nodes if node.processors]
    if not with_processors:
        raise ValueError("a machine has a processor")
    if not all(node.processors for node in nodes[:len(with_processors)]):
        raise ValueError("nodes without processors come last")
    total = sum(with_processors)
    # A socket a node, as on real machines, unless nodes differ.
    sockets = len(with_processors) if len(set(with_processors)) == 1 else total
    arguments = ["-m", f"{sum(node.memory_mb for node in nodes)}M",
                 "-smp", f"{total},sockets={sockets},cores={total // sockets},threads=1"]
    first = 0
    for number, node in enumerate(nodes):
        described = f"node,nodeid={number}"
        if node.processors:
            described += f",cpus={first}-{first + node.processors - 1}"
            first += node.processors
        if node.memory_mb:
            arguments += ["-object", f"memory-backend-ram,id=m{number},size={node.memory_mb}M"]
            described += f",memdev=m{number}"
        arguments += ["-numa", described]
    for pair in itertools.combinations(range(len(nodes)), 2):
        arguments += ["-numa", "dist,src={},dst={},val={}".format(*pair, distances.get(pair, 20))]
    return arguments


class Machine:
    """`build` is a build folder, which keeps the kernel. `files` are the programs and files that
    commands need, besides busybox's; they have the same paths in the machine. `environment` is that
    of all commands, and its LD_LIBRARY_PATH says where the files' libraries are. `distances` maps
    pairs of nodes to their distance; those of other pairs are 20."""

    def __init__(self, nodes, build, files=(), environment=None, distances=None, huge_pages=True,
                 boot_seconds=120):
        self.kernel_folder = os.path.join(build, "kernel")
        self.files = files
        self.environment = {"PATH": "/bin", **(environment or {})}
        self.hardware = hardware(nodes, distances or {})
        self.huge_pages = "always" if huge_pages else "never"
        self.boot_seconds = boot_seconds
        self.process = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="gleaner-machine-")
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _start(self):
        qemu = find_program(QEMU, "qemu-system-x86")
        busybox = find_program(BUSYBOX, "busybox-static")
        init = INIT.format(busybox=busybox, huge_pages=self.huge_pages)
        with open(self._path("initramfs"), "wb") as file:
            file.write(pack(init, busybox, self.files, self.environment))
        self.places = {"output": 0, "errors": 0}
        self.kernel = kernel(self.kernel_folder)
        lines = ("file:console", "file:output", "file:errors", "stdio")
        # It does not outlive this process, however that ends.
        command = ["setpriv", "--pdeathsig", "KILL", qemu, "-accel", "tcg,thread=single",
                   "-machine", "q35", "-cpu", PROCESSOR, *self.hardware,
                   "-kernel", self.kernel, "-initrd", "initramfs",
                   "-append", KERNEL_ARGUMENTS, "-no-reboot", "-nodefaults", "-no-user-config",
                   "-display", "none", *(word for line in lines for word in ("-serial", line))]
        with open(self._path("qemu"), "wb") as complaints:
            self.process = subprocess.Popen(command, cwd=self.folder.name, bufsize=0,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=complaints)
        self._answer("ready", self.boot_seconds)

    def run(self, command, seconds=60, **environment):
        """Runs a program with its arguments and no input, until it and all that write to its
        outputs have ended. The machine is lost if that takes longer than `seconds`."""
        variables = {**self.environment, **environment}
        words = ["exec", "env", "-i", *(f"{key}={value}" for key, value in variables.items())]
        # The machine reads one line. shlex puts words with line ends between single quotes.
        line = shlex.join([*words, *command]).replace("\n", "'\"$newline\"'")
        try:
            self.process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError:
            pass  # there is no answer, either
        status = self._answer(r"\d+", seconds)
        return Finished(self._new("output"), self._new("errors"), int(status))

    def _answer(self, pattern, seconds):
        """The next line that the machine sends."""
        end = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self.process.stdout], [], [],
                                        max(0, end - time.monotonic()))
            if not ready:
                self._fail(f"no answer within {seconds} s")
            byte = os.read(self.process.stdout.fileno(), 1)
            if not byte:
                self._fail("it has ended")
            line += byte
        text = line.decode(errors="replace").strip()
        if not re.fullmatch(pattern, text):
            self._fail(f"an unexpected answer: {text!r}")
        return text

    def _fail(self, what):
        self.process.kill()
        status = self.process.wait()
        text = f"the emulated machine with {self.kernel} failed: {what}"
        if status > 0:
            text += f", exit status {status}"
        for name in ("qemu", "console", "output", "errors"):
            content = self._read(name)
            if content.strip():
                text += f"\n-- the end of {name}:\n" + "\n".join(content.splitlines()[-60:])
        raise MachineFailed(text)

    def _new(self, name):
        """What has been written to the line since the command before."""
        content = self._read(name, self.places[name])
        self.places[name] = os.path.getsize(self._path(name))
        return content

    def _read(self, name, begin=0):
        try:
            with open(self._path(name), "rb") as file:
                file.seek(begin)
                return file.read().decode(errors="replace")
        except FileNotFoundError:  # of a machine that did not start
            return ""

    def _path(self, name):
        return os.path.join(self.folder.name, name)

    def _end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
        self.folder.cleanup()
