#!/usr/bin/env python3
"""Every std:: name has its header: in the file itself, or in one of the project's that it includes.

What one version of the C++ library's headers include of each other, another one's do not.

usage: standard_names.py ROOT
"""

import functools
import pathlib
import re
import sys

# The headers of which one is enough, and names.
NAMES = """
algorithm: all_of any_of none_of binary_search clamp copy_if copy_n count count_if equal equal_range fill fill_n find
  find_if find_if_not for_each generate is_sorted lower_bound make_heap max max_element min min_element minmax
  minmax_element mismatch nth_element partial_sort partition pop_heap push_heap remove_if replace replace_if reverse
  rotate search shuffle sort stable_sort transform unique upper_bound
algorithm ranges: ranges
array deque iterator list map set span string string_view unordered_map unordered_set vector: begin data empty end
  rbegin rend size ssize
array tuple utility map variant: get
atomic: atomic atomic_ref atomic_signal_fence atomic_thread_fence memory_order memory_order_acq_rel
  memory_order_acquire memory_order_relaxed memory_order_release memory_order_seq_cst
bit: bit_cast bit_ceil bit_floor bit_width countl_zero countr_one countr_zero endian has_single_bit popcount rotl rotr
charconv: from_chars to_chars
chrono: chrono
cmath: ceil exp floor hypot isfinite isinf isnan llround log log10 log1p log2 lround pow round sqrt trunc
cmath cstdlib: abs
compare: partial_ordering strong_ordering weak_ordering
condition_variable: condition_variable
coroutine: coroutine_handle suspend_always suspend_never
cstdint: int16_t int32_t int64_t int8_t intptr_t uint16_t uint32_t uint64_t uint8_t uintptr_t
cstdio: fclose FILE fflush fopen fprintf fputs fread fwrite perror printf puts snprintf sscanf vsnprintf
cstdlib: _Exit abort atexit atoi calloc exit free getenv malloc qsort realloc strtod strtol strtoul strtoull
cstring: memchr memcmp memcpy memmove memset strchr strcmp strerror strlen strncmp strrchr strstr
exception: current_exception exception_ptr rethrow_exception set_terminate terminate uncaught_exceptions
filesystem: filesystem
fstream: ifstream ofstream
functional: bind equal_to function greater invoke less ref
functional memory string string_view: hash
iomanip: setfill setprecision setw
ios fstream iostream istream ostream sstream iomanip: dec fixed hex ios ios_base
iostream: cerr cin cout
iterator: advance back_inserter distance inserter istream_iterator istreambuf_iterator make_move_iterator next
  ostream_iterator prev
limits: numeric_limits
map: map multimap
memory: addressof align allocator construct_at destroy_at make_shared make_unique shared_ptr unique_ptr weak_ptr
memory_resource: pmr
mutex: call_once lock_guard mutex once_flag recursive_mutex scoped_lock unique_lock
new: align_val_t bad_alloc get_new_handler launder new_handler nothrow nothrow_t set_new_handler
numeric: accumulate gcd iota lcm partial_sum reduce
optional: nullopt optional
ostream fstream iostream sstream: endl flush ostream
queue: priority_queue queue
random: bernoulli_distribution discrete_distribution exponential_distribution geometric_distribution mt19937 mt19937_64
  normal_distribution random_device uniform_int_distribution uniform_real_distribution
set: multiset set
span: span
sstream: istringstream ostringstream stringstream
stdexcept: invalid_argument logic_error out_of_range runtime_error
string: stoi stol stoul stoull string to_string
string string_view: string_view
system_error filesystem: error_code
thread: jthread this_thread thread
tuple: apply ignore make_tuple tie tuple
type_traits: conditional_t decay_t enable_if_t invoke_result_t is_same is_same_v is_trivially_copyable_v
  remove_cv_t remove_cvref_t remove_reference_t
unordered_map: unordered_map unordered_multimap
unordered_set: unordered_set
utility: as_const exchange forward index_sequence index_sequence_for integer_sequence make_index_sequence
utility algorithm: move swap
utility map unordered_map: make_pair pair
variant: get_if holds_alternative variant visit
vector: vector
"""
# With any of these, `for (x : {a, b})` is valid.
BRACES = set("""algorithm array deque forward_list initializer_list list map queue random set string
                unordered_map unordered_set utility valarray vector""".split())

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
USE = re.compile(r"\bstd::(\w+)|for \([^;()]*: (\{)")
SKIPPED = ("build", ".git")


def table():
    headers = {}
    for line in NAMES.strip().replace("\n  ", " ").splitlines():
        where, names = line.split(": ")
        for name in names.split():
            headers[name] = set(where.split())
    headers["{"] = BRACES
    return headers


HEADERS = table()


def violations(root):
    @functools.cache
    def included(path):
        """The headers of C++ and C that the file has, by the project's headers too."""
        found, seen, left = set(), {path}, [path]
        while left:
            file = left.pop()
            for quoted, angled in INCLUDE.findall(file.read_text(errors="replace")):
                for folder in (file.parent, root, root / "include/gleaner", root / "bench/shared"):
                    header = folder / (quoted or angled)
                    if header.is_file():
                        if header not in seen:
                            seen.add(header)
                            left.append(header)
                        break
                else:
                    found.add(quoted or angled)
        # <cstring> and <string.h>
        return found | {"c" + name[:-2] for name in found if name.endswith(".h")}

    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.suffix not in (".h", ".cc") or name.parts[0] in SKIPPED:
            continue
        code = COMMENT_OR_STRING.sub(lambda match: "\n" * match[0].count("\n"), path.read_text())
        missing = {}
        for match in USE.finditer(code):
            missing.setdefault(match[1] or match[2], code.count("\n", 0, match.start()) + 1)
        for used, line in missing.items():
            needed = HEADERS.get(used)
            if needed and not needed & included(path):
                if used == "{":
                    yield f"{name}:{line}: a range in braces without <initializer_list>"
                else:
                    yield f"{name}:{line}: std::{used} without <{'> or <'.join(sorted(needed))}>"


def main():
    found = list(violations(pathlib.Path(sys.argv[1]).resolve()))
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
