"""What the machine is that figures are from, and what other programs do on it meanwhile."""

import os
import platform
import re
import resource
import subprocess
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A run is under foreign load from this share of the machine on.
LOADED_SHARE = 0.05
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def commit():
    """The sources' commit, with + if files differ from it; "unknown" outside a repository."""
    def git(*arguments):
        # Without a lock: somebody may be committing.
        command = ["git", "--no-optional-locks", "-C", SOURCE, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        changed = git("status", "--porcelain") != ""
        return git("rev-parse", "--short=12", "HEAD") + "+" * changed
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def describe():
    """The machine and the sources, as a dictionary of texts and numbers."""
    first = read("/proc/cpuinfo").split("\n\n")[0]
    cpuinfo = dict(re.findall(r"^([^\t:]+?)\s*: (.*)$", first, re.M))
    memory = re.search(r"MemTotal:\s+(\d+)", read("/proc/meminfo"))
    return {
        "processor": cpuinfo.get("model name", platform.machine()),
        "family": cpuinfo.get("cpu family", "unknown"),
        "model": cpuinfo.get("model", "unknown"),
        "processors": len(os.sched_getaffinity(0)),
        "memory_mb": int(memory[1]) // 1000 if memory else 0,
        "kernel": platform.release(),
        "libc": os.confstr("CS_GNU_LIBC_VERSION") or "unknown",
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
                    or "unknown",
        "load_average": os.getloadavg()[0],
        "commit": commit(),
    }


def identity(described):
    """Of what `describe` returns, what figures depend on and does not change by itself."""
    return {key: value for key, value in described.items() if key not in ("load_average", "commit")}


def sentence(machine):
    """`describe` in a line."""
    return ("{processor} (family {family}, model {model}), {processors} processors, "
            "{memory_mb} MB, Linux {kernel}, governor {governor}; commit {commit}").format(**machine)


def busy_seconds():
    """CPU time of the whole machine, what a hypervisor took included, and of this session's
    finished runs, in seconds."""
    ticks = [int(word) for word in read("/proc/stat").split("\n", 1)[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = ticks[:8]
    machine = (user + nice + system + irq + softirq + steal) / TICKS_PER_S
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return machine, sum(usage.ru_utime + usage.ru_stime for usage in usages)


class OtherPrograms:
    """How much of the machine they use from here on."""

    def __init__(self):
        self.began = time.monotonic()
        self.busy = busy_seconds()

    def share(self):
        """0 to 1. The clock of the kernel's figures ticks a hundred times a second: two ticks of
        each processor are no load."""
        elapsed = time.monotonic() - self.began
        machine, own = (after - before for after, before in zip(busy_seconds(), self.busy))
        foreign = machine - own - 2 * os.cpu_count() / TICKS_PER_S
        return max(0.0, foreign) / (elapsed * os.cpu_count())

    def since_began(self):
        elapsed = time.monotonic() - self.began
        return (f"{elapsed:.0f} s; other programs used {self.share():.0%} of the machine's "
                f"{os.cpu_count()} CPUs meanwhile")
