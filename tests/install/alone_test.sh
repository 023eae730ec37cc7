#!/usr/bin/env bash
# usage: alone_test.sh SOURCE_DIR
# Where nothing is that only tests need, what is installed and what ./dev demo and bench run can be
# built, and ctest fails by the test `needs`.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

absent=()
for package in GTest benchmark MPI TBB; do absent+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
cmake -G Ninja -S "$1" -B "$scratch" "${absent[@]}" >/dev/null
ninja -C "$scratch" -n gleaner_products bench_bh gleaner_compat_measure gleaner_benchmarks >/dev/null
! ctest --test-dir "$scratch" -R '^needs$' --output-on-failure >"$scratch/log" 2>&1 || exit 1
grep -q "missing: GoogleTest" "$scratch/log"
