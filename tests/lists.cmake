# Which tests are run when. Each list holds the one before:
#   quick   ./dev test --quick: some minutes, with all that is built for it, in the preset release
#   short   ./dev test, and CI: one form of what is tested in several, in one preset
#   whole   ./dev test --all, before an issue is resolved
# A label that is or ends in quick or short says so; the targets gleaner_quick_tests and
# gleaner_short_tests build what these lists need. What a test takes, ctest writes to
# build/PRESET/Testing/Temporary/CTestCostData.txt.
#
# The lists are of names of tests; for the cases of a GoogleTest program, of its target.
include(GoogleTest)

set(quick_tests
  "gleaner_unit_(platform|alloc|gc|runtime)"
  "api\\..*"
  "layers\\.(lib.*|rule.*)"
  "malloc\\.(family|operators|model|thread_exit)"
  "torture\\.graph_torture\\.(stop|concurrent|generational)_1")
set(quick_but_for "api\\.(foreign_stacks|limits|thread_churn).*")

# What only the whole list has: the same in another language standard, page policy or mode, or
# where another preset runs it.
set(whole_alone
  "api\\..*\\.on_libgc"
  "api\\.(foreign_stacks|free_unregistered|limits)\\.(auto|concurrent|generational)"
  "bench\\.(compare|experiment|latency|regret|retention|tradeoff)"
  "compat\\.(.*\\.modes|crystal)"
  "headers\\.clang\\.c(89|99|17|2x|\\+\\+98|\\+\\+11|\\+\\+14|\\+\\+20|\\+\\+2b)"
  "headers\\.gcc\\.c(99|11|17|\\+\\+11|\\+\\+14|\\+\\+17|\\+\\+2b)"
  "malloc\\.((al|ps)\\..*|(checked\\.)?fork_load|programs)"
  "malloc\\.(collecting\\.)?refused\\.(address_space_1024|lowered)"
  "malloc\\.collecting\\.(often\\.model|programs\\.0)"
  "model\\.(finds|variant)\\..*"
  "numa\\.(blas|placement|report|topology)"
  "tool\\.predict\\.calibration")
if(GLEANER_SANITIZE STREQUAL "thread")
  list(APPEND whole_alone "threads\\.runtime_test\\.concurrent_(mprotect|no_thread)")
elseif(GLEANER_SANITIZE)
  list(APPEND whole_alone
    "api\\..*\\.auto"
    "threads\\.(deep_stack|marking|page_sharing|parallel_mark|termination|work_queue)_test"
    "examples\\..*"
    "gleaner_((limits|refusals)_test|unit_tools)")
elseif(GLEANER_VERIFY)
  # The checks of this build are in asan-ubsan, too. What is left: steps, delays, calls that fail, and
  # malloc, which a sanitizer has itself.
  set(short_tests
    "failures\\..*"
    "layers\\.failing_calls"
    "gleaner_(failures_test|steps_.*)"
    "malloc\\.(checked\\.)?(bad_free|cancel|family|fork_handler|fork_load|huge|model|operators|thread_exit)"
    "malloc\\.collecting\\.(bad_free|family|huge|memory|model|often\\.(cancel|thread_exit)|stacks|thread.*)"
    "torture\\..*\\.delays_.*")
else()
  # Sanitizers run the others in asan-ubsan and tsan.
  list(APPEND whole_alone
    "threads\\.runtime_test\\..+"
    "threads\\.(deep_stack|marking|page_sharing|parallel_mark|termination)_test"
    "torture\\.graph_torture\\.[a-z_]*_([2-9]|[1-9][0-9]+)")
endif()

add_custom_target(gleaner_quick_tests)
add_custom_target(gleaner_short_tests)
if(TARGET gleaner_products AND NOT GLEANER_VERIFY)  # tests load the libraries by path
  add_dependencies(gleaner_short_tests gleaner_products)
endif()

# gleaner_matches(<variable> <name> <regular expression>...): whether one of them is the name's.
function(gleaner_matches variable name)
  set(${variable} OFF PARENT_SCOPE)
  foreach(pattern IN LISTS ARGN)
    if(name MATCHES "^(${pattern})$")
      set(${variable} ON PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# gleaner_list_test(<name> <variable> <word of the command>...): adds the label of the test's list to
# those in the variable, and the programs of the command to what is built for the list.
function(gleaner_list_test name variable)
  gleaner_matches(quick ${name} ${quick_tests})
  gleaner_matches(no_quick ${name} ${quick_but_for})
  if(DEFINED short_tests)
    gleaner_matches(short ${name} ${short_tests})
  else()
    gleaner_matches(whole ${name} ${whole_alone})
    if(NOT whole)
      set(short ON)
    endif()
  endif()
  if(quick AND NOT no_quick AND short)
    set(list quick)
  elseif(short)
    set(list short)
  else()
    return()
  endif()
  set(${variable} ${${variable}} ${list} PARENT_SCOPE)
  string(REGEX MATCHALL "\\$<TARGET_FILE:[^>]+>" programs "${ARGN}")
  list(TRANSFORM programs REPLACE "\\$<TARGET_FILE:([^>]+)>" "\\1")
  list(GET ARGN 0 first)
  foreach(program IN LISTS programs ITEMS ${first})
    if(TARGET ${program})
      add_dependencies(gleaner_${list}_tests ${program})
    endif()
  endforeach()
endfunction()
add_dependencies(gleaner_short_tests gleaner_quick_tests)

# add_gleaner_test(<name> TIMEOUT <seconds> LABELS <label>... COMMAND <command>...)
# The time is ample for an idle machine; one that does other things as well gets several times as
# much, as only a test that hangs is to fail by it. fail_after of api/check.h does the same.
set(patience 4)
function(add_gleaner_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;COMMAND" ${ARGN})
  math(EXPR timeout "${patience} * ${arg_TIMEOUT}")
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  gleaner_list_test(${name} arg_LABELS ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS "${arg_LABELS}")
endfunction()

# gleaner_discover_tests(<target> <prefix> <timeout> <label>): the cases of a GoogleTest program. The
# label of the quick ones is <label>-quick.
function(gleaner_discover_tests target prefix timeout label)
  set(labels ${label})
  gleaner_list_test(${target} labels ${target})
  list(JOIN labels "-" label)  # gtest_discover_tests makes of a list several properties
  gtest_discover_tests(${target} TEST_PREFIX ${prefix}. DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 240 PROPERTIES TIMEOUT ${timeout} LABELS ${label})
endfunction()
