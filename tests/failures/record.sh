#!/bin/sh
# Runs a program whose calls libgleaner_record.so, which is preloaded, writes into a folder of its own.
# usage: record.sh PROGRAM [ARGUMENT]...
folder=$(mktemp -d) || exit
GLEANER_RECORD_FILE=$folder/trace GLEANER_RECORD_CHILDREN=1 "$@" >/dev/null
status=$?
rm -r "$folder"
exit $status
