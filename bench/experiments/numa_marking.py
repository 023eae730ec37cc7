"""Marking on a machine of several memory nodes, on paper and simulated miss by miss.

Markers, one on each core, traverse a random graph. A reference is first looked up in its object's
mark byte, elsewhere. An object that was not marked is read, and its references are followed. Both
are misses, of which a marker has a ring under way. A miss takes Endo's `2 S_L + S_O + waiting`: the
way to the memory and back, the time that the memory is occupied with a line, and the wait for its
turn. A line that comes from another node occupies the link as well. A marker without work takes the
oldest entry of another's stack, of one on its own node if there is any; that takes as long as a
miss without waiting.
"""

import collections
import dataclasses
import heapq
import random

from .numa_machines import LINE_BYTES

# Of a marker's own work: a reference looked up, an object of 64 bytes scanned. Assumed.
LOOK_UP_S = 5e-9
SCAN_S = 10e-9
RING = 16

HEAPS = ("one node", "interleaved", "local")
MARK_BYTES = ("one node", "spread")


@dataclasses.dataclass
class Graph:
    owner: list  # the thread that has allocated the object
    references: list

    def count(self):
        return sum(map(len, self.references))


def random_graph(threads, count, near, seed):
    """Every object is reached: each has a reference from an older one, and has one more to any.
    `near` is the share of references to objects of the same thread. The first objects are roots,
    one of each thread."""
    generator = random.Random(seed)
    count = max(threads, count // threads * threads)
    references = [[] for _ in range(count)]
    rounds = count // threads
    for number in range(count):
        turn, owner = divmod(number, threads)
        if turn:
            its = owner if generator.random() < near else generator.randrange(threads)
            references[generator.randrange(turn) * threads + its].append(number)
        its = owner if generator.random() < near else generator.randrange(threads)
        references[number].append(generator.randrange(rounds) * threads + its)
    return Graph([number % threads for number in range(count)], references)


@dataclasses.dataclass
class Places:
    """The node of each object, and of its mark byte."""
    objects: list
    marks: list


def places(machine, graph, heap, mark_bytes, seed):
    """In a random graph, pages to the nodes in turn amount to objects at random."""
    generator = random.Random(seed)
    node = {"one node": lambda _: 0,
            "interleaved": lambda _: generator.randrange(machine.nodes),
            "spread": lambda _: generator.randrange(machine.nodes),
            "local": machine.node_of}
    return Places([node[heap](owner) for owner in graph.owner],
                  [node[mark_bytes](owner) for owner in graph.owner])


@dataclasses.dataclass
class Marked:
    seconds: float
    lines: dict  # by memory and link, how many they sent
    misses: int
    miss_s: float  # the mean
    waiting_s: float  # of it, for memories and links
    remote: float  # share of misses
    steals: int
    objects: int


class _Marker:
    def __init__(self, node):
        self.node = node
        self.stack = collections.deque()
        self.arrived = collections.deque()
        self.under_way = 0  # references in the ring
        self.busy = False


def nearest(marker, others):
    """Of the others on the nearest node, the one with most entries."""
    return min(others, key=lambda other: (other.node != marker.node, -len(other.stack)))


class _Marking:
    def __init__(self, machine, graph, where, ring, hits, generator):
        self.machine, self.graph, self.where, self.ring = machine, graph, where, ring
        self.hits, self.generator = hits, generator
        self.markers = [_Marker(machine.node_of(thread)) for thread in range(machine.threads)]
        self.marked = bytearray(len(graph.owner))
        self.occupied_s = {resource: LINE_BYTES / bandwidth
                           for resource, bandwidth in machine.resources().items()}
        self.free_at = dict.fromkeys(self.occupied_s, 0.0)
        self.lines = dict.fromkeys(self.occupied_s, 0)
        self.idle = []
        self.events, self.order = [], 0
        self.misses = self.remote = self.steals = 0
        self.miss_s = self.waiting_s = 0.0

    def at(self, when, act, *arguments):
        self.order += 1
        heapq.heappush(self.events, (when, self.order, act, arguments))

    def miss(self, now, node, memory):
        """When the line is there."""
        route = [memory] if node == memory else [memory, (memory, node)]
        way = (self.machine.latency_s(node, memory)
               - sum(self.occupied_s[resource] for resource in route)) / 2
        when = now + way
        for resource in route:
            begin = max(when, self.free_at[resource])
            self.waiting_s += begin - when
            when = self.free_at[resource] = begin + self.occupied_s[resource]
            self.lines[resource] += 1
        self.misses += 1
        self.remote += node != memory
        self.miss_s += when + way - now
        return when + way

    def fetch(self, now, marker):
        """Fills the ring from the stack."""
        while marker.stack and marker.under_way < self.ring:
            number = marker.stack.pop()
            marker.under_way += 1
            there = (now if self.hits and self.generator.random() < self.hits
                     else self.miss(now, marker.node, self.where.marks[number]))
            self.at(there, self.arrive, marker, self.look_up, number)

    def arrive(self, now, marker, work, number):
        marker.arrived.append((work, number))
        self.work(now, marker)

    def work(self, now, marker):
        if marker.arrived and not marker.busy:
            work, number = marker.arrived.popleft()
            marker.busy = True
            self.at(now + (LOOK_UP_S if work == self.look_up else SCAN_S), work, marker, number)

    def look_up(self, now, marker, number):
        marker.busy = False
        if self.marked[number]:
            marker.under_way -= 1
        else:
            self.marked[number] = 1
            self.at(self.miss(now, marker.node, self.where.objects[number]), self.arrive, marker,
                    self.scan, number)
        self.go_on(now, marker)

    def scan(self, now, marker, number):
        marker.busy = False
        marker.under_way -= 1
        marker.stack.extend(self.graph.references[number])
        self.go_on(now, marker)

    def go_on(self, now, marker):
        self.fetch(now, marker)
        self.work(now, marker)
        if not marker.under_way:
            victims = [other for other in self.markers if len(other.stack) > 1]
            if victims:
                self.steal(now, marker, nearest(marker, victims))
            else:
                self.idle.append(marker)
        elif self.idle and len(marker.stack) > 1:
            thief = nearest(marker, self.idle)
            self.idle.remove(thief)
            self.steal(now, thief, marker)

    def steal(self, now, thief, victim):
        self.steals += 1
        self.at(now + self.machine.latency_s(thief.node, victim.node), self.stolen, thief,
                victim.stack.popleft())

    def stolen(self, now, thief, number):
        thief.stack.append(number)
        self.go_on(now, thief)

    def run(self):
        for thread, marker in enumerate(self.markers):
            marker.stack.append(thread)
        for marker in self.markers:
            self.fetch(0.0, marker)
        now = 0.0
        while self.events:
            now, _, act, arguments = heapq.heappop(self.events)
            act(now, *arguments)
        return Marked(now, self.lines, self.misses, self.miss_s / self.misses,
                      self.waiting_s / self.misses, self.remote / self.misses, self.steals,
                      sum(self.marked))


def mark(machine, graph, where, ring=RING, hits=0.0, seed=1):
    """`hits` is the share of mark bytes that a cache has."""
    return _Marking(machine, graph, where, ring, hits, random.Random(seed)).run()


def least_s(machine, graph, where, ring=RING):
    """On paper, a lower bound: what the busiest memory and link need, what a marker computes, and
    what it waits for with a full ring and no queues. Each object is marked by any thread alike, as
    the thesis assumes."""
    references, objects = graph.count() + machine.threads, len(graph.owner)
    lines = collections.Counter()
    counts = collections.Counter(range(machine.threads))  # the roots
    for its in graph.references:
        counts.update(its)
    for number, count in counts.items():
        lines[where.marks[number]] += count
        lines[where.objects[number]] += 1
    busiest = max(lines.values()) / machine.node_bandwidth
    # A node's markers ask for 1 / nodes of each memory's lines, each by a link of its own.
    links = (max(lines.values()) / machine.nodes / machine.link_bandwidth
             if machine.nodes > 1 else 0)
    latency_s = (machine.local_s + (machine.nodes - 1) * machine.remote_s) / machine.nodes
    waiting = (references + objects) * latency_s / ring / machine.threads
    computing = (references * LOOK_UP_S + objects * SCAN_S) / machine.threads
    return max(LINE_BYTES * busiest, LINE_BYTES * links, waiting, computing)
