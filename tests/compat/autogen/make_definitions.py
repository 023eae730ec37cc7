"""Writes definitions for autogen: a few hundred records with lists and nested records."""
import sys

print("autogen definitions workload.tpl;\nprefix = 'work';")
for i in range(int(sys.argv[1])):
    print(f"record = {{ name = record_{i}; value = '{i * 7919 % 1009}'; text = \"text of record {i}\";")
    for k in range(i % 5):
        print(f"  field = {{ name = field_{k}; type = '{'int' if k % 2 else 'char *'}'; }};")
    print("};")
