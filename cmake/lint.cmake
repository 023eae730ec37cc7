# `lint`: formatting, the layer rule, and clang-tidy over what has changed; `lint_all`: over all sources.
# `format` mends the first.

find_program(CLANG_FORMAT NAMES clang-format clang-format-14)
find_program(RUN_CLANG_TIDY NAMES run-clang-tidy run-clang-tidy-14)
if(CLANG_FORMAT AND RUN_CLANG_TIDY)
  set(formatted "")
  foreach(folder IN LISTS GLEANER_LAYERS ITEMS malloc record tools cplusplus cord include tests bench demo examples)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS
         ${folder}/*.h ${folder}/*.hpp ${folder}/*.c ${folder}/*.cc)
    list(APPEND formatted ${found})
  endforeach()
  foreach(target lint lint_all)
    set(all "")
    if(target STREQUAL lint_all)
      set(all --all)
    endif()
    add_custom_target(${target}
      COMMAND ${CLANG_FORMAT} --dry-run -Werror ${formatted}
      COMMAND python3 ${CMAKE_SOURCE_DIR}/tests/layers/check_layers.py ${CMAKE_SOURCE_DIR}
      COMMAND python3 -B ${CMAKE_SOURCE_DIR}/cmake/tidy.py ${RUN_CLANG_TIDY} ${CMAKE_BINARY_DIR}
              ${CMAKE_SOURCE_DIR} ${all}
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
      VERBATIM USES_TERMINAL)
  endforeach()
  add_custom_target(format COMMAND ${CLANG_FORMAT} -i ${formatted} VERBATIM)
endif()
