# The tests of `./dev test --quick`, which have the label quick or one that ends in -quick, and what
# they need built: the target gleaner_quick_tests. They are those with a label of the first list,
# without the long ones, and some of the others. In the release preset they take under 200 s of one
# processor; what each takes, ctest writes to build/release/Testing/Temporary/CTestCostData.txt.
set(quick_labels api bad_input concurrent cord cplusplus dev documents examples fuzz hazards layers
    malloc plugins record threads tool unit)

# Names of tests; for the cases of a GoogleTest program, that of its target.
set(quick_but_long
  "api\\.(thread_churn|limits\\.(concurrent|generational))"
  "documents\\.commands"  # needs benchmarks built
  "gleaner_(bad_input|limits|signals_and_forks)_test"
  "malloc\\.(al|ps|checked|collecting)\\.(bad_free|fork_load|huge|model)"
  "malloc\\.collecting\\.often\\..*"
  "malloc\\.(.*\\.)?(programs.*|refused\\.(address|any|data|lowered).*)"
  "malloc\\.(footprint|fork_load|leaks)"
  "threads\\.(marking|page_sharing|parallel_mark|termination)_test")
set(quick_besides
  "torture\\.graph_torture\\.(lps|concurrent|concurrent_cards|generational|generational_concurrent)"
  "torture\\.fiber_torture\\.(lps|concurrent)")

add_custom_target(gleaner_quick_tests)
if(TARGET gleaner_products)  # tests load the libraries by path
  add_dependencies(gleaner_quick_tests gleaner_products)
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

# gleaner_add_quick(<name> <variable> <word of the command>...): adds the label quick to the labels in
# the variable if the test is one of these, and the programs of the command to what is built for them.
function(gleaner_add_quick name variable)
  gleaner_matches(long ${name} ${quick_but_long})
  gleaner_matches(quick ${name} ${quick_besides})
  foreach(label IN LISTS ${variable})
    if(label IN_LIST quick_labels AND NOT long)
      set(quick ON)
    endif()
  endforeach()
  if(NOT quick)
    return()
  endif()
  set(${variable} ${${variable}} quick PARENT_SCOPE)
  string(REGEX MATCHALL "\\$<TARGET_FILE:[^>]+>" programs "${ARGN}")
  list(TRANSFORM programs REPLACE "\\$<TARGET_FILE:([^>]+)>" "\\1")
  list(GET ARGN 0 first)
  foreach(program IN LISTS programs ITEMS ${first})
    if(TARGET ${program})
      add_dependencies(gleaner_quick_tests ${program})
    endif()
  endforeach()
endfunction()
