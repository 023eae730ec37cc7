#!/bin/sh
# Renames some thousands of files by patterns, there and back, and lists what came of it.
set -e
mkdir files
cd files
seq -f 'file-%g.part.txt' 4000 | xargs touch
mmv 'file-*.*.txt' 'renamed_#2_#1.TXT'
mmv 'renamed_*_*.TXT' '#l1=#2.text'
mmv -c '*=1*.text' 'copy-#2-#1.text'
ls | sort | sha256sum
ls | wc -l
