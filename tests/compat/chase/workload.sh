#!/bin/sh
# Chains of symbolic links, also through directories.
set -e
mkdir -p a/b/c
echo end > a/b/c/file
ln -s file a/b/c/link-0
for i in $(seq 60); do ln -s "link-$((i - 1))" "a/b/c/link-$i"; done
ln -s a/b d
ln -s b/c a/e
for i in $(seq 4000); do echo "d/c/link-$((i % 60))"; echo "a/e/link-$((i % 50))"; done > names
chase --loop-warn-threshold 900 --loop-fail-threshold 1000 --from-file names > out
sed "s,^$PWD,," out | sort | uniq -c
chase --verbose d/c/link-3 2>&1 | sed "s,$PWD,,g"
