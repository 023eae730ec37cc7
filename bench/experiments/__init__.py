"""Experiments: programs run in turn on several configurations, and what is made of the figures.

running    one run of a program, which ends with the harness: environment, limit of time, what it used
machine    what the machine is, and what other programs do on it
journal    finished runs on disk, so that an interrupted experiment goes on
session    configurations in turn, with progress; uses the two above
tables     Markdown, CSV, JSON
pictures   matplotlib
sweep      programs by policies, threads, markers and so on; figures lists those of the documents
main       the command line of figures, which these measure, too:
latency, retention, tradeoff, regret
           stalls by mode, what collections find after its last use, time against memory, the default
           mode against the fixed ones
clients    clients of libgc as workloads, for the last two
compare    rows of two sides: both libraries, or two commits
malloc     programs with allocators preloaded
predictor  `gleaner predict` against measurements and the thesis
numa_effect
           DGEMM, LU and marking on machines of several memory nodes, on paper and predicted
"""
