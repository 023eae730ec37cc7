# any_limit.sh LIBRARY COLLECT PROGRAM: programs do their work under every limit on address space. Under
# the lowest ones the library says that it is not replaced, from some limit on it says nothing.

# sweep FIRST LAST COMMAND...: with limits in KiB.
sweep() {
  first=$1 last=$2
  shift 2
  for kib in $(seq "$first" 1000 "$last"); do
    said=$(ulimit -v "$kib" && exec env LD_PRELOAD="$library" GLEANER_COLLECT="$collect" "$@" 2>&1)
    status=$?
    case $status:$said in
      0:*"not replaced"*fine) refused=$((refused + 1)) ;;
      0:fine) ;;
      *) echo "$kib KiB: status $status: $said"; exit 1 ;;
    esac
  done
}

library=$1 collect=$2 refused=0
sweep 6000 40000 sh -c "echo fine"
echo "$refused refused"
test "$refused" -gt 0 || exit 1
refused=0
sweep 40000 120000 "$3"
test "$refused" -eq 0
