#!/usr/bin/env bash
# usage: install_test.sh BUILD_DIR
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$1" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix"
prefix=$scratch/prefix

for file in lib/libgleaner.so lib/libgleaner.a lib/gleaner/libgc.so.1 lib/gleaner/libgccpp.so.1 \
    lib/gleaner/libgctba.so.1 lib/libgccpp.a lib/libgctba.a lib/gleaner/libcord.so.1 lib/libcord.a \
    bin/gleaner include/gleaner/gc_cpp.h share/gleaner/gleaner_gdb.py \
    include/gleaner/gc.h lib/cmake/Gleaner/GleanerConfig.cmake lib/pkgconfig/gleaner.pc; do
  [[ -e $prefix/$file ]] || { echo "not installed: $file"; exit 1; }
done
"$prefix/bin/gleaner" --version

expect() {
  local output
  output=$("$@")
  [[ $output == "consumer: ok" ]] || { echo "$*: $output"; exit 1; }
}

echo "== pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046
cc -o "$scratch/by_pkg_config" "$here/consumer/consumer.c" $(pkg-config --cflags --libs gleaner)
expect env LD_LIBRARY_PATH="$prefix/lib" "$scratch/by_pkg_config"

echo "== C++ and cords with libgleaner"
# shellcheck disable=SC2046
c++ -o "$scratch/cplusplus" "$here/consumer/consumer.cc" $(pkg-config --cflags gleaner) \
  "$prefix/lib/libgccpp.a" "$prefix/lib/libcord.a" $(pkg-config --libs gleaner)
expect env LD_LIBRARY_PATH="$prefix/lib" "$scratch/cplusplus"

echo "== C++ and cords with the drop-in"
# shellcheck disable=SC2046
c++ -o "$scratch/on_dropin" "$here/consumer/consumer.cc" $(pkg-config --cflags gleaner) \
  "$prefix"/lib/gleaner/lib{gccpp,cord,gc}.so.1
expect env LD_LIBRARY_PATH="$prefix/lib/gleaner" "$scratch/on_dropin"

echo "== find_package: shared, and static without libstdc++"
cmake -G Ninja -S "$here/consumer" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$scratch/build" >/dev/null
expect "$scratch/build/consumer_shared"
expect "$scratch/build/consumer_static"
expect "$scratch/build/cards_shared"
expect "$scratch/build/cards_static"

echo "== sanitizers, whose pthread_create comes before the library's"
for compiler in cc clang; do
  for sanitizer in leak address thread; do
    "$compiler" -fsanitize=$sanitizer -pthread -o "$scratch/sanitized" \
      "$here/consumer/thread.c" -I"$prefix/include/gleaner" "$prefix/lib/gleaner/libgc.so.1"
    for mode in stop auto; do
      expect env GLEANER_MODE=$mode LD_LIBRARY_PATH="$prefix/lib/gleaner" "$scratch/sanitized"
    done
  done
done

echo "== statically linked programs"
for compiler in cc clang; do
  for how in -static -static-pie; do
    for threads in "" -pthread; do
      # shellcheck disable=SC2086
      "$compiler" $how $threads -o "$scratch/static" "$here/consumer/consumer.c" \
        -I"$prefix/include/gleaner" "$prefix/lib/libgleaner.a" 2>"$scratch/said" ||
        { cat "$scratch/said"; exit 1; }
      expect "$scratch/static"
    done
  done
done

echo "== linked with Debian's libgc, run on the drop-in"
cc -o "$scratch/on_libgc" "$here/consumer/consumer.c" -lgc
expect "$scratch/on_libgc"
expect env LD_LIBRARY_PATH="$prefix/lib/gleaner" "$scratch/on_libgc"
expect env LD_LIBRARY_PATH="$prefix/lib/gleaner" LD_BIND_NOW=1 "$scratch/on_libgc"
expect "$prefix/bin/gleaner" run "$scratch/on_libgc"
expect "$prefix/bin/gleaner" run --stats "$scratch/on_libgc" 2>"$scratch/stats"
grep -q '^gleaner: collections ' "$scratch/stats" || { cat "$scratch/stats"; exit 1; }

echo "== gleaner run, of programs with libgleaner"
for program in by_pkg_config build/consumer_static; do
  expect "$prefix/bin/gleaner" run "$scratch/$program"
  expect "$prefix/bin/gleaner" run --stats "$scratch/$program" 2>"$scratch/stats"
  grep -q '^gleaner: collections ' "$scratch/stats" || { cat "$scratch/stats"; exit 1; }
done

echo "== examples, as their first lines say"
# shellcheck disable=SC2046
cc -o "$scratch/fibers" "$here/../../examples/fibers_ucontext.c" \
  $(pkg-config --cflags --libs gleaner)
# shellcheck disable=SC2046
c++ -std=c++20 -o "$scratch/coroutines" "$here/../../examples/coroutines.cc" \
  $(pkg-config --cflags --libs gleaner)
LD_LIBRARY_PATH="$prefix/lib" "$scratch/fibers"
LD_LIBRARY_PATH="$prefix/lib" "$scratch/coroutines"
