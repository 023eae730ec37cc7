# any_limit.sh LIBRARY COLLECT PROGRAM: the program does its work under every limit on address space.
# Under the lower ones the library says that it is not replaced, under the upper ones it says nothing.
refused=0
for kib in $(seq 40000 1000 120000); do
  said=$(ulimit -v "$kib" && exec env LD_PRELOAD="$1" GLEANER_COLLECT="$2" "$3" 2>&1)
  status=$?
  case $status:$said in
    0:*"not replaced"*fine) refused=$((refused + 1)) ;;
    0:*fine) ;;
    *) echo "$kib KiB: status $status: $said"; exit 1 ;;
  esac
done
echo "$refused refused; the last one said: $said"
test "$refused" -gt 0 && test "$said" = fine
