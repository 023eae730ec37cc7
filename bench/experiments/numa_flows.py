"""Threads that share bandwidths: a fluid simulation.

A job is work of a thread that takes its bytes from several resources in fixed proportions, as a
block of columns does whose pages lie on several nodes. Running jobs share each resource so that the
slowest is as fast as can be (max-min fairness): all get equally faster until a resource is full;
those that need it stay, and the others go on. Rates change only when a job ends.
"""

import dataclasses

# Jobs that end within this share of a time span end together.
TOGETHER = 1e-9


@dataclasses.dataclass
class Job:
    """At most 1 / least_s of it is done in a second, however much of the resources is free."""
    bytes_at: dict
    least_s: float


def fair_rates(jobs, bandwidths):
    """How much of each job is done in a second."""
    rates = [None] * len(jobs)
    left = dict(bandwidths)
    waiting = list(range(len(jobs)))
    while waiting:
        demand = {}
        for number in waiting:
            for resource, count in jobs[number].bytes_at.items():
                demand[resource] = demand.get(resource, 0) + count
        levels = {resource: left[resource] / count for resource, count in demand.items()}
        level = min(levels.values(), default=float("inf"))
        slowest = max(jobs[number].least_s for number in waiting)
        if slowest * level >= 1:  # a job's own limit comes first
            level = 1 / slowest
            fixed = [number for number in waiting if jobs[number].least_s == slowest]
        else:
            full = {resource for resource, its in levels.items() if its <= level * (1 + TOGETHER)}
            fixed = [number for number in waiting if full.intersection(jobs[number].bytes_at)]
        for number in fixed:
            rates[number] = level
            for resource, count in jobs[number].bytes_at.items():
                left[resource] = max(0.0, left[resource] - level * count)
        waiting = [number for number in waiting if rates[number] is None]
    return rates


def simulate(threads, bandwidths):
    """Each thread's jobs one after the other. Returns seconds, and bytes served by resource."""
    todo = [[job for job in reversed(jobs) if job.least_s > 0] for jobs in threads]
    running = {number: [jobs.pop(), 1.0] for number, jobs in enumerate(todo) if jobs}
    now = 0.0
    served = dict.fromkeys(bandwidths, 0.0)
    while running:
        entries = list(running.items())
        rates = fair_rates([job for _, (job, _) in entries], bandwidths)
        span = min(left / rate for (_, (_, left)), rate in zip(entries, rates))
        now += span
        for (number, entry), rate in zip(entries, rates):
            job, left = entry
            ends = left <= span * rate * (1 + TOGETHER)
            done = left if ends else span * rate
            for resource, count in job.bytes_at.items():
                served[resource] += done * count
            entry[1] = left - done
            if ends:
                if todo[number]:
                    running[number] = [todo[number].pop(), 1.0]
                else:
                    del running[number]
    return now, served
