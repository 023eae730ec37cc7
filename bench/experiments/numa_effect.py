"""What the place of memory changes on machines of several memory nodes: DGEMM, LU and marking.

All of it is simulated, on a description of two machines from published latencies and bandwidths.
Nothing is measured. docs/figures/numa_effect.md says how, and what the figures can mean. Equal
arguments give equal figures.
"""

import argparse
import dataclasses
import os

from . import numa_machines, numa_marking, numa_matrices, pictures, tables
from .numa_machines import MACHINES

# What both ratios of a table compare with.
ONE_NODE, INTERLEAVED = "one node", "interleaved"
SAME_PLACE = {ONE_NODE: ONE_NODE, INTERLEAVED: "spread"}  # of the heap, and of the mark bytes
BLOCKS = (16, 64, 192, 512, 1024)


@dataclasses.dataclass
class Sizes:
    dgemm: int
    lu: int
    objects: int


FULL, QUICK = Sizes(16_000, 10_000, 30_000), Sizes(4_000, 2_000, 3_000)


def add_ratios(records, keys, times, bases):
    """How many times as fast as each of the bases, which are values of columns by the name of what
    they are, for rows that are equal in `keys`. `times` are the columns of times, by what the
    ratios' names begin with."""
    for begins, time in times.items():
        for name, base in bases.items():
            its = {tuple(record[key] for key in keys): record[time] for record in records
                   if base.items() <= record.items()}
            for record in records:
                record[f"{begins} {name}"] = its[tuple(record[key] for key in keys)] / record[time]
    return records


def in_ms(times):
    return {"on paper, ms": 1e3 * times.paper_least, "ms": 1e3 * times.overlapped,
            "apart, ms": 1e3 * times.apart}


def with_ratios(records, depth):
    return add_ratios(records, ("machine", depth), {"times": "ms", "apart, times": "apart, ms"},
                      {place: {"placement": place} for place in (ONE_NODE, INTERLEAVED)})


def dgemm(sizes, seed, machines=MACHINES):
    records = []
    for machine in machines:
        for depth in (64, 192):
            for name, place in numa_matrices.PLACEMENTS.items():
                times = numa_matrices.dgemm(machine, place, sizes.dgemm, depth, seed)
                flops = 2 * sizes.dgemm ** 2 * depth
                records.append({"machine": machine.name, "K": depth, "placement": name,
                                **in_ms(times), "Gflop/s": flops / times.overlapped / 1e9})
    return with_ratios(records, "K")


def lu(sizes, _seed, machines=MACHINES):
    by_block = {f"{name}, {block}": make(block)
                for name, make in (("cyclic", numa_matrices.cyclic),
                                   ("threads in turn", numa_matrices.cyclic_by_thread))
                for block in BLOCKS}
    others = {name: place for name, place in numa_matrices.PLACEMENTS.items()
              if name not in by_block}
    records = []
    for machine in machines:
        for depth, placements in ((64, {**others, **by_block}),
                                  (192, numa_matrices.PLACEMENTS)):
            for name, place in placements.items():
                times, updates = numa_matrices.lu(machine, place, sizes.lu, depth)
                records.append({"machine": machine.name, "nb": depth, "placement": name,
                                **in_ms(times), "DGEMM, %": 100 * updates})
    return with_ratios(records, "nb")


def few_cores(machine):
    return dataclasses.replace(machine, cores=2)


def marking(sizes, seed, machines=MACHINES):
    records = []
    for machine in machines:
        for its in (machine, few_cores(machine)):
            for near in (0.0, 0.99):
                graph = numa_marking.random_graph(its.threads, sizes.objects, near, seed)
                for heap in numa_marking.HEAPS:
                    for mark_bytes in numa_marking.MARK_BYTES:
                        where = numa_marking.places(its, graph, heap, mark_bytes, seed)
                        done = numa_marking.mark(its, graph, where)
                        records.append({
                            "machine": machine.name, "markers": its.threads,
                            "own references, %": 100 * near,
                            "heap": heap, "mark bytes": mark_bytes,
                            "on paper, ns": 1e9 / done.objects
                                            * numa_marking.least_s(its, graph, where),
                            "an object, ns": 1e9 * done.seconds / done.objects,
                            "a miss, ns": 1e9 * done.miss_s, "of it waiting": 1e9 * done.waiting_s,
                            "remote, %": 100 * done.remote})
    return add_ratios(records, ("machine", "markers", "own references, %"),
                      {"times": "an object, ns"},
                      {place: {"heap": place, "mark bytes": mark_bytes}
                       for place, mark_bytes in SAME_PLACE.items()})


CHANGES = {"as described": {}, "memory -20 %": {"node_bandwidth": 0.8},
           "memory +20 %": {"node_bandwidth": 1.2}, "links -20 %": {"link_bandwidth": 0.8},
           "links +20 %": {"link_bandwidth": 1.2}, "computing -20 %": {"core_flops": 0.8},
           "computing +20 %": {"core_flops": 1.2}}


def sensitivity(sizes, seed, machines=MACHINES):
    """How many times as fast as on one node, if a figure of the machine is another one."""
    records = []
    for machine in machines:
        for name, factors in CHANGES.items():
            its = machine.scaled(**factors)
            record = {"machine": machine.name, "with": name}
            for depth in (64, 192):
                one, spread = (numa_matrices.dgemm(its, place, sizes.dgemm, depth, seed)
                               for place in (numa_matrices.one_node, numa_matrices.interleaved))
                record[f"DGEMM, K = {depth}"] = one.overlapped / spread.overlapped
                record[f"apart, K = {depth}"] = one.apart / spread.apart
            one, spread = (numa_matrices.lu(its, place, sizes.lu, 64)[0]
                           for place in (numa_matrices.one_node, numa_matrices.interleaved))
            record["LU, nb = 64"] = one.overlapped / spread.overlapped
            record["marking"], record["half of the mark bytes in caches"] = (
                marking_gain(its, sizes, seed, hits) for hits in (0.0, 0.5))
            records.append(record)
    return records


def marking_gain(machine, sizes, seed, hits):
    graph = numa_marking.random_graph(machine.threads, sizes.objects, 0.0, seed)
    one, spread = (numa_marking.mark(machine, graph, numa_marking.places(
        machine, graph, heap, mark_bytes, seed), hits=hits, seed=seed).seconds
        for heap, mark_bytes in SAME_PLACE.items())
    return one / spread


PARTS = {"dgemm": ("C += A B of {sizes.dgemm:,} columns and rows", dgemm),
         "lu": ("LU of {sizes.lu:,} columns and rows", lu),
         "marking": ("Marking {sizes.objects:,} objects of 64 bytes", marking),
         "sensitivity": ("Times as fast interleaved as on one node, with other figures",
                         sensitivity)}


def as_text(value):
    return tables.three_digits(value) if isinstance(value, float) else str(value)


def draw(path, results):
    """How many times as fast as with everything on one node."""
    panels = []
    for machine in MACHINES:
        its = {part: [record for record in records if record["machine"] == machine.name]
               for part, records in results.items()}
        multiply, factor, heaps = {}, {}, {}
        for record in its["dgemm"]:
            multiply.setdefault(f"K = {record['K']}", []).append(
                (record["placement"], record[f"times {ONE_NODE}"]))
        for record in its["lu"]:
            name, _, block = record["placement"].partition(", ")
            if block and record["nb"] == 64:
                factor.setdefault(f"LU, {name}", []).append(
                    (int(block), record[f"times {ONE_NODE}"]))
        for record in its["marking"]:
            if record["markers"] == machine.threads and not record["own references, %"]:
                heaps.setdefault(f"mark bytes {record['mark bytes']}", []).append(
                    (f"heap {record['heap']}", record[f"times {ONE_NODE}"]))
        panels += [(f"{name}, {machine.name}", "times as fast as on one node", False, lines)
                   for name, lines in (("DGEMM", multiply), ("LU, nb = 64", factor),
                                       (f"{machine.threads} markers", heaps))]
    return pictures.draw_panels(path, "Simulated: what the place of memory changes",
                                "simulated from published figures, nothing is measured",
                                "columns in a block", 3, panels)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="experiment numa-effect", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small matrices and graphs")
    parser.add_argument("--only", metavar="PART", choices=PARTS,
                        help=f"one of {', '.join(PARTS)}; no picture")
    parser.add_argument("--seed", type=int, default=1, help="of the graphs and the threads' steps")
    parser.add_argument("--out", metavar="DIR", default="build/release/experiments",
                        help="where the files go (%(default)s)")
    return parser.parse_args(arguments)


def main(arguments):
    options = parse_arguments(arguments)
    sizes = QUICK if options.quick else FULL
    os.makedirs(options.out, exist_ok=True)
    path = os.path.join(options.out, "numa_effect")
    results = {}
    for name, (title, make) in PARTS.items():
        if options.only not in (None, name):
            continue
        results[name] = records = make(sizes, options.seed)
        print(f"\n## Simulated: {title.format(sizes=sizes)} ({name})\n")
        tables.print_markdown([list(records[0]),
                               *(list(map(as_text, record.values())) for record in records)])
        tables.write_records(f"{path}_{name}.csv", records)
    tables.write_json(f"{path}.json", {
        "simulated": True, "seed": options.seed, "sizes": dataclasses.asdict(sizes),
        "machines": [dataclasses.asdict(machine) for machine in MACHINES], **results})
    drawn = options.only is None and draw(f"{path}.png", results)
    print(f"\nSimulated, not measured. {path}.json, " + f"{path}.png, " * drawn
          + ", ".join(f"{path}_{name}.csv" for name in results))
    return 0
