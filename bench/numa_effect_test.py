#!/usr/bin/env python3
"""The simulation of several memory nodes: nothing is lost or served twice, known limits are met, and
paper and simulation agree where both hold.

usage: numa_effect_test.py [unittest's arguments]
"""

import contextlib
import dataclasses
import io
import json
import os
import random
import tempfile
import unittest
from unittest import mock

from experiments import numa_effect, numa_flows, numa_marking, numa_matrices, pictures
from experiments.numa_flows import Job
from experiments.numa_machines import MACHINES, NEHALEM_EX, SKYLAKE

SEED = int(os.environ.get("SEED", "1"))
SMALL = numa_effect.Sizes(320, 160, 200)
INFINITE = float("inf")


def one_node(machine):
    return dataclasses.replace(machine, nodes=1)


class Flows(unittest.TestCase):
    def setUp(self):
        generator = random.Random(SEED)
        self.bandwidths = {name: generator.uniform(1, 10) for name in "abcd"}

        def job():
            names = generator.sample("abcd", 2)
            return Job({name: generator.uniform(0.1, 5) for name in names},
                       generator.uniform(0.01, 5))
        self.threads = [[job() for _ in range(generator.randint(0, 6))] for _ in range(12)]
        self.jobs = [job for jobs in self.threads for job in jobs]

    def test_what_is_served_is_what_is_asked(self):
        seconds, served = numa_flows.simulate(self.threads, self.bandwidths)
        for name, bandwidth in self.bandwidths.items():
            asked = sum(job.bytes_at.get(name, 0) for job in self.jobs)
            self.assertAlmostEqual(served[name], asked, places=6)
            self.assertLessEqual(served[name], seconds * bandwidth * (1 + 1e-6))

    def test_shares_are_full_and_fair(self):
        rates = numa_flows.fair_rates(self.jobs, self.bandwidths)
        used = {name: sum(rate * job.bytes_at.get(name, 0)
                          for job, rate in zip(self.jobs, rates)) for name in self.bandwidths}
        for name, bandwidth in self.bandwidths.items():
            self.assertLessEqual(used[name], bandwidth * (1 + 1e-6))
        for job, rate in zip(self.jobs, rates):
            # As fast as it can be, or in the way of nobody who is slower at a full resource.
            full = [name for name in job.bytes_at if used[name] >= 0.999999 * self.bandwidths[name]]
            fastest_there = [rate >= max(other for its, other in zip(self.jobs, rates)
                                         if name in its.bytes_at) * (1 - 1e-6) for name in full]
            self.assertTrue(rate >= (1 - 1e-6) / job.least_s or any(fastest_there), (job, rate))

    def test_by_hand(self):
        jobs = [Job({"a": 1}, 0.1), Job({"a": 1, "b": 1}, 0.1), Job({"b": 2}, 0.1)]
        self.assertEqual(numa_flows.fair_rates(jobs, {"a": 10, "b": 3}), [9.0, 1.0, 1.0])
        # Both at 5 until the first ends at 0.2 s; what is left of the other goes at its own limit.
        jobs = [[Job({"a": 1}, 0.1)], [Job({"a": 1}, 0.1), Job({"a": 1}, 0.1), Job({}, 0.5)]]
        seconds, served = numa_flows.simulate(jobs, {"a": 10})
        self.assertAlmostEqual(seconds, 0.2 + 0.1 + 0.5)
        self.assertAlmostEqual(served["a"], 3)


class Matrices(unittest.TestCase):
    def times(self, machine, place, depth=64, size=1600):
        return numa_matrices.dgemm(machine, place, size, depth, SEED)

    def test_bytes(self):
        size, depth = 1600, 64
        for machine in MACHINES:
            for name, place in numa_matrices.PLACEMENTS.items():
                # No cache holds C.
                machine = dataclasses.replace(machine, cache_bytes=0)
                threads = numa_matrices.Update(machine, place, size, size, depth).all_blocks()
                at = {}
                for blocks in threads:
                    for _, traffic in blocks:
                        for resource, count in traffic.bytes_at.items():
                            at[resource] = at.get(resource, 0) + count
                moved = sum(at.get(node, 0) for node in range(machine.nodes))
                expected = 16 * size ** 2 + 8 * size * depth * (1 + machine.nodes)
                self.assertAlmostEqual(moved / expected, 1, places=9, msg=name)
                flops = sum(flops for blocks in threads for flops, _ in blocks)
                self.assertAlmostEqual(flops / (2 * size ** 2 * depth), 1, places=9)

    def test_one_node_has_one_place(self):
        for machine in MACHINES:
            found = {dataclasses.astuple(self.times(one_node(machine), place))
                     for place in numa_matrices.PLACEMENTS.values()}
            first = found.pop()
            for other in found:
                for a, b in zip(first, other):
                    self.assertAlmostEqual(a / b, 1, places=9)

    def test_without_distance_only_load_matters(self):
        for machine in MACHINES:
            even = [self.times(machine.uniform(), place).overlapped for place in
                    (numa_matrices.interleaved, numa_matrices.by_range)]
            self.assertAlmostEqual(even[0] / even[1], 1, delta=0.001)
            free = dataclasses.replace(machine.uniform(), node_bandwidth=INFINITE)
            found = [self.times(free, place) for place in numa_matrices.PLACEMENTS.values()]
            for times in found:
                self.assertAlmostEqual(times.overlapped / found[0].overlapped, 1, places=9)
                self.assertAlmostEqual(times.apart / found[0].apart, 1, places=9)

    def test_paper_and_simulation(self):
        for machine in MACHINES:
            for depth in (64, 192):
                for name, place in numa_matrices.PLACEMENTS.items():
                    times = self.times(machine, place, depth)
                    self.assertAlmostEqual(times.overlapped / times.paper_least, 1, delta=0.03,
                                           msg=(machine.name, depth, name))
                    self.assertGreaterEqual(times.apart, times.paper_least * 0.999)
                    self.assertLessEqual(times.apart, times.paper_most * 1.03)
                times, updates = numa_matrices.lu(machine, numa_matrices.cyclic(64), 640, depth)
                self.assertAlmostEqual(times.overlapped / times.paper_least, 1, delta=0.03)
                self.assertTrue(0 < updates < 1)

    def test_smaller_depth_gains_more(self):
        for machine in MACHINES:
            gains = [self.times(machine, numa_matrices.one_node, depth, 4000).overlapped
                     / self.times(machine, numa_matrices.interleaved, depth, 4000).overlapped
                     for depth in (16, 64, 192, 1024)]
            self.assertEqual(gains, sorted(gains, reverse=True))
            self.assertAlmostEqual(gains[0], machine.nodes, delta=0.1)
            self.assertAlmostEqual(gains[-1], 1, places=6)


class Marking(unittest.TestCase):
    def mark(self, machine, heap="interleaved", mark_bytes="spread", objects=4000, near=0.0,
             **more):
        graph = numa_marking.random_graph(machine.threads, objects, near, SEED)
        where = numa_marking.places(machine, graph, heap, mark_bytes, SEED)
        return (numa_marking.mark(machine, graph, where, seed=SEED, **more),
                numa_marking.least_s(machine, graph, where), graph)

    def test_each_object_once_and_each_reference(self):
        for machine in MACHINES:
            for near in (0.0, 0.99):
                done, _, graph = self.mark(machine, near=near)
                self.assertEqual(done.objects, len(graph.owner))
                self.assertEqual(done.misses, graph.count() + machine.threads + done.objects)
                memories = sum(done.lines[node] for node in range(machine.nodes))
                self.assertEqual(memories, done.misses)
                links = sum(count for resource, count in done.lines.items()
                            if isinstance(resource, tuple))
                self.assertEqual(links, round(done.remote * done.misses))

    def test_one_marker_one_miss_at_a_time(self):
        machine = dataclasses.replace(SKYLAKE, nodes=1, cores=1)
        done, _, graph = self.mark(machine, objects=500, ring=1)
        references = graph.count() + 1
        expected = (references * (machine.local_s + numa_marking.LOOK_UP_S)
                    + done.objects * (machine.local_s + numa_marking.SCAN_S))
        self.assertAlmostEqual(done.seconds / expected, 1, places=9)
        self.assertAlmostEqual(done.miss_s / machine.local_s, 1, places=9)

    def test_one_node_has_one_place(self):
        machine = one_node(NEHALEM_EX)
        found = {self.mark(machine, heap, mark_bytes)[0].seconds
                 for heap in numa_marking.HEAPS for mark_bytes in numa_marking.MARK_BYTES}
        self.assertEqual(len(found), 1)

    def test_without_distance_only_load_matters(self):
        machine = NEHALEM_EX.uniform()
        interleaved, local = (self.mark(machine, heap)[0].seconds
                              for heap in ("interleaved", "local"))
        self.assertAlmostEqual(interleaved / local, 1, delta=0.05)

    def test_a_full_memory_is_the_bound(self):
        for machine in MACHINES:
            done, paper, _ = self.mark(machine, "one node", "one node", objects=20000)
            self.assertGreaterEqual(done.seconds, paper)
            self.assertLess(done.seconds, 1.05 * paper)
            # Little's law: a ring of each marker is always under way.
            under_way = done.misses * done.miss_s / done.seconds
            self.assertAlmostEqual(under_way / (numa_marking.RING * machine.threads), 1, delta=0.1)


class Tables(unittest.TestCase):
    def setUp(self):
        changes = dict(list(numa_effect.CHANGES.items())[:2])
        patch = mock.patch.object(numa_effect, "CHANGES", changes)
        patch.start()
        self.addCleanup(patch.stop)

    def test_equal_arguments_give_equal_figures(self):
        for name, (_, make) in numa_effect.PARTS.items():
            first = make(SMALL, SEED, [NEHALEM_EX])
            self.assertEqual(first, make(SMALL, SEED, [NEHALEM_EX]), name)
            for record in first:
                if record.get("placement") == "one node":
                    self.assertEqual(record["times one node"], 1)

    def test_the_command(self):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(numa_effect, "QUICK", SMALL), \
                mock.patch.object(pictures, "draw_panels", return_value=True) as draw, \
                contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(numa_effect.main(["--quick", "--out", folder]), 0)
            for panel in draw.call_args[0][-1]:
                self.assertTrue(panel[-1], panel)
            with open(os.path.join(folder, "numa_effect.json"), encoding="utf-8") as file:
                content = json.load(file)
            self.assertTrue(content["simulated"])
            for name in numa_effect.PARTS:
                self.assertTrue(content[name])
                self.assertTrue(os.path.exists(os.path.join(folder, f"numa_effect_{name}.csv")))
                self.assertIn(f"({name})", output.getvalue())
        self.assertEqual(output.getvalue().count("## Simulated: "), len(numa_effect.PARTS))


if __name__ == "__main__":
    print(f"SEED={SEED}", flush=True)
    unittest.main()
