"""Machines of several memory nodes as the simulation knows them: published figures, what is derived
from them, and what is assumed. docs/figures/numa_effect.md has them as a table, with the sources."""

import dataclasses
import itertools

LINE_BYTES = 64


@dataclasses.dataclass(frozen=True)
class Machine:
    """Any two nodes have a link of their own. A link carries as much in each direction; memory
    serves reads and writes from one bandwidth."""
    name: str
    nodes: int
    cores: int  # of each node
    core_flops: float  # per second
    cache_bytes: int  # of each node, shared by its cores
    node_bandwidth: float  # bytes per second, half of them written
    link_bandwidth: float  # bytes per second, each direction
    local_s: float  # an idle machine's latency
    remote_s: float
    misses: int  # that a core has under way at a time
    sources: dict = dataclasses.field(default_factory=dict, compare=False)

    @property
    def threads(self):
        return self.nodes * self.cores

    @property
    def flops(self):
        return self.threads * self.core_flops

    def node_of(self, thread):
        """Threads fill one node after the other."""
        return thread // self.cores

    def latency_s(self, node, memory):
        return self.local_s if node == memory else self.remote_s

    def resources(self):
        """Bandwidths by resource: memories by node, links by pairs (from, to)."""
        found = {node: self.node_bandwidth for node in range(self.nodes)}
        found.update({pair: self.link_bandwidth
                      for pair in itertools.permutations(range(self.nodes), 2)})
        return found

    def scaled(self, **factors):
        """Another machine, some of whose figures are multiplied."""
        return dataclasses.replace(self, **{key: getattr(self, key) * factor
                                            for key, factor in factors.items()})

    def uniform(self):
        """The same without any cost of distance: what remains is how the nodes are loaded."""
        return dataclasses.replace(self, link_bandwidth=float("inf"), remote_s=self.local_s)


SKYLAKE = Machine(
    "2 x Skylake", 2, 28, 1.7e9 * 32, 38_500_000, 149.5e9 / 2, 50.9e9, 81.3e-9, 131.1e-9, 12, {
        "cores": "published: 28 a socket (FD.io CSIT, the processors that its kernels isolate)",
        "core_flops": "derived: 1.7 GHz, Intel's base frequency of the Xeon Platinum 8180 with "
                      "AVX-512, times 32, of two units for 8 fused operations",
        "cache_bytes": "published: 38.5 MB (Intel, Xeon Platinum 8180)",
        "node_bandwidth": "derived: half of 149.5 GB/s, which both sockets reach together with as "
                          "many writes as reads (FD.io CSIT, Memory Latency Checker)",
        "link_bandwidth": "published: 50.9 GB/s, all cores of a socket reading from the other "
                          "(FD.io CSIT, Memory Latency Checker)",
        "local_s": "published: 81.3 ns (FD.io CSIT, Memory Latency Checker)",
        "remote_s": "published: 131.1 ns (FD.io CSIT, Memory Latency Checker)",
        "misses": "assumed: 12 line fill buffers",
    })

NEHALEM_EX = Machine(
    "4 x Nehalem-EX", 4, 8, 2.26e9 * 4, 24_000_000, 36e9 / 2, 12.8e9 * 64 / 72, 135e-9, 197e-9, 10,
    {
        "cores": "published: 8 a socket (Intel, Xeon X7560)",
        "core_flops": "derived: 2.26 GHz times 4, an addition and a multiplication of two numbers",
        "cache_bytes": "published: 24 MB (AnandTech, Xeon 7500 review, 2010)",
        "node_bandwidth": "derived: half of 36 GB/s, which Intel expects of STREAM on two sockets; "
                          "measured were 25 to 29 (AnandTech, Xeon 7500 review, 2010)",
        "link_bandwidth": "derived: 12.8 GB/s a direction (QuickPath, 6.4 GT/s of 2 bytes), times "
                          "64 / 72: a line travels with 8 bytes of its own",
        "local_s": "published for the successor with the same links: 135 ns (Intel, Memory "
                   "Latencies on Xeon E5-4600 and E7-4800, 2014)",
        "remote_s": "published for the successor: 194 to 202 ns, 197 on the average (Intel, 2014)",
        "misses": "assumed: 10 line fill buffers",
    })

MACHINES = (SKYLAKE, NEHALEM_EX)
