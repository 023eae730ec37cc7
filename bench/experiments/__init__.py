"""Experiments: programs run in turn on several configurations, and what is made of the figures.

running    one run of a program: environment, limit of time, what it used
machine    what the machine is, and what other programs do on it
signals    the program that runs ends with the harness
journal    finished runs on disk, so that an interrupted experiment goes on
session    configurations in turn, with progress; uses the two above
tables     Markdown, CSV, JSON
pictures   matplotlib
sweep      programs by policies, threads, markers and so on; figures lists those of the documents
compare, latency, tradeoff, retention, malloc
           experiments with tables of their own
predictor  `gleaner predict` against measurements and the thesis
numa_effect
           simulated: DGEMM, LU and marking on machines of several memory nodes (numa_machines), by
           shares of bandwidth (numa_flows, numa_matrices) and miss by miss (numa_marking)
"""
