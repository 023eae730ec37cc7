"""DGEMM and LU on a machine of several memory nodes, on paper and simulated.

The outer product C += A B, with C of n x n and K columns in A, takes 2 n^2 K operations and moves
16 n^2 bytes of C: each element is read and written once. A comes into each node's cache once, B
into each thread's. The library deals out the columns of C in equal ranges, one for each thread,
whatever their place. Where columns are is a placement: a function of machine, columns in all, and
column to shares by node.
"""

import dataclasses
import math
import random

from .numa_flows import Job, simulate
from .numa_machines import LINE_BYTES

NUMBER_BYTES = 8
BLOCK = 64  # columns that a thread computes at a time


def one_node(_machine, _columns, _column):
    return {0: 1.0}


def interleaved(machine, _columns, _column):
    """By page. A column has many."""
    return dict.fromkeys(range(machine.nodes), 1 / machine.nodes)


def by_range(machine, columns, column):
    """First touch by the threads, each the range that it is dealt of the whole matrix."""
    return {machine.node_of(column * machine.threads // columns): 1.0}


def cyclic(block):
    """Blocks of columns to the nodes in turn."""
    return lambda machine, _columns, column: {column // block % machine.nodes: 1.0}


def cyclic_by_thread(block):
    """First touch by the threads in turn, each a block of columns: the report's way. The first
    blocks are all those of the first node's threads."""
    return lambda machine, _columns, column: {
        machine.node_of(column // block % machine.threads): 1.0}


PLACEMENTS = {"one node": one_node, "interleaved": interleaved, f"cyclic, {BLOCK}": cyclic(BLOCK),
              "own ranges": by_range}


@dataclasses.dataclass
class Traffic:
    """What a thread moves: bytes by resource, and how long its misses take one after the other."""
    bytes_at: dict = dataclasses.field(default_factory=dict)
    latency_s: float = 0

    def add(self, machine, node, shares, read, written=0):
        """Bytes that a thread of the node reads and writes of memory that lies by shares."""
        for memory, share in shares.items():
            self._count(memory, share * (read + written))
            if memory != node:
                self._count((memory, node), share * read)
                self._count((node, memory), share * written)
            self.latency_s += share * read / LINE_BYTES * machine.latency_s(node, memory)

    def _count(self, resource, count):
        if count:
            self.bytes_at[resource] = self.bytes_at.get(resource, 0) + count

    def least_s(self, machine):
        """With as many misses under way as a core can have."""
        return self.latency_s / machine.misses


def mean_shares(place, machine, columns, begin, end):
    """Of the columns from begin to end, which may be fractions."""
    shares = {}
    for column in range(int(begin), min(columns, math.ceil(end))):
        part = min(end, column + 1) - max(begin, column)
        for node, share in place(machine, columns, column).items():
            shares[node] = shares.get(node, 0) + share * part / (end - begin)
    return shares


@dataclasses.dataclass
class Update:
    """C += A B for `rows` rows of C, the columns from `first` on of a matrix of `columns` columns.
    A are its columns from `panel` on, or a matrix of its own if that is None. B is where C is. A C
    that the caches hold moves no bytes."""
    machine: object
    place: object
    rows: int
    columns: int
    depth: int  # K
    first: int = 0
    panel: object = None

    def blocks(self, thread, block):
        """The thread's blocks of columns: operations, and Traffic."""
        machine, node = self.machine, self.machine.node_of(thread)
        width = (self.columns - self.first) / machine.threads
        begin = self.first + thread * width
        count = max(1, round(width / block))
        if self.panel is None:
            place_of_a = mean_shares(self.place, machine, self.depth, 0, self.depth)
        else:
            place_of_a = mean_shares(self.place, machine, self.columns, self.panel,
                                     self.panel + self.depth)
        # Of a block. A comes once into the cache of a node.
        width /= count
        bytes_of_a = NUMBER_BYTES * self.rows * self.depth / machine.cores / count
        bytes_of_b = NUMBER_BYTES * self.depth * width
        bytes_of_c = NUMBER_BYTES * self.rows * width
        if bytes_of_c * count * machine.threads <= machine.nodes * machine.cache_bytes:
            bytes_of_c = 0
        for number in range(count):
            shares = mean_shares(self.place, machine, self.columns, begin + number * width,
                                 begin + (number + 1) * width)
            traffic = Traffic()
            traffic.add(machine, node, shares, bytes_of_b + bytes_of_c, bytes_of_c)
            traffic.add(machine, node, place_of_a, bytes_of_a)
            yield 2 * self.rows * self.depth * width, traffic

    def all_blocks(self, block=BLOCK):
        return [list(self.blocks(thread, block)) for thread in range(self.machine.threads)]


def bounds(machine, threads):
    """On paper: seconds if computing and moving overlap, and if nothing does. The longest of what
    each resource and each thread needs is a lower bound, and with whole threads in step it is
    reached."""
    demand, computing, waiting = {}, 0.0, 0.0
    for blocks in threads:
        computing = max(computing, sum(flops for flops, _ in blocks) / machine.core_flops)
        waiting = max(waiting, sum(traffic.least_s(machine) for _, traffic in blocks))
        for _, traffic in blocks:
            for resource, count in traffic.bytes_at.items():
                demand[resource] = demand.get(resource, 0) + count
    bandwidths = machine.resources()
    moving = max([waiting] + [count / bandwidths[resource] for resource, count in demand.items()])
    return max(computing, moving), computing + moving


def overlapping(machine, threads):
    """Jobs of threads that fetch while they compute."""
    return [[Job(traffic.bytes_at, max(flops / machine.core_flops, traffic.least_s(machine)))
             for flops, traffic in blocks] for blocks in threads]


def apart(machine, threads, generator=None):
    """Jobs of threads that fetch a block, and then compute. With a generator each begins somewhere
    in its first block, so that they are not in step."""
    found = []
    for blocks in threads:
        jobs = []
        for flops, traffic in blocks:
            computing = flops / machine.core_flops
            jobs += [Job(traffic.bytes_at, traffic.least_s(machine)), Job({}, computing)]
        if generator and jobs:
            part = generator.random()
            jobs.insert(0, Job({}, part * jobs[1].least_s))
            jobs[2] = Job({}, (1 - part) * jobs[2].least_s)
        found.append(jobs)
    return found


@dataclasses.dataclass
class Times:
    """Seconds, of threads that overlap fetching and computing, or keep them apart."""
    paper_least: float
    paper_most: float
    overlapped: float
    apart: float


def dgemm(machine, place, size, depth, seed):
    threads = Update(machine, place, size, size, depth).all_blocks()
    bandwidths = machine.resources()
    return Times(*bounds(machine, threads),
                 simulate(overlapping(machine, threads), bandwidths)[0],
                 simulate(apart(machine, threads, random.Random(seed)), bandwidths)[0])


def panel_blocks(machine, place, rows, size, first, depth):
    """A panel is factored by the cores of one node, the first. It is read and written once."""
    shares = mean_shares(place, machine, size, first, first + depth)
    flops = max(0.0, rows * depth ** 2 - depth ** 3 / 3)
    moved = NUMBER_BYTES * rows * depth / machine.cores
    found = []
    for _ in range(machine.cores):
        traffic = Traffic()
        traffic.add(machine, 0, shares, moved, moved)
        found.append([(flops / machine.cores, traffic)])
    return found


def lu(machine, place, size, depth):
    """Right-looking: of each panel of `depth` columns its factors, then a triangular solution, then
    the update of all that is right of it and below. All threads wait for each other in between.
    Returns Times, and the share of the updates in the overlapped ones."""
    bandwidths = machine.resources()
    total, updates = [0.0] * 4, 0.0
    for first in range(0, size, depth):
        width = min(depth, size - first)
        rows, right = size - first, size - first - width
        steps = [panel_blocks(machine, place, rows, size, first, width)]
        if right:
            steps.append([[(width ** 2 * right / machine.threads, Traffic())]] * machine.threads)
            steps.append(Update(machine, place, right, size, width, first + width,
                                first).all_blocks(size))
        for number, threads in enumerate(steps):
            overlapped = simulate(overlapping(machine, threads), bandwidths)[0]
            parts = (*bounds(machine, threads), overlapped,
                     simulate(apart(machine, threads), bandwidths)[0])
            total = [sum(pair) for pair in zip(total, parts)]
            updates += overlapped if number == 2 else 0
    return Times(*total), updates / total[2]
