# How code is compiled: for everything, for the library's own code, and for linking the shared libraries.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()
foreach(language C CXX)
  set(CMAKE_${language}_FLAGS_RELEASE "-O2 -g1")
  set(CMAKE_${language}_FLAGS_DEBUG "-Og -g -fno-omit-frame-pointer")
endforeach()
# What C++14 says, which clang leaves out before version 19.
add_compile_options("$<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fsized-deallocation>")

# The shared libraries are linked by the C driver, and must not get libstdc++ through the back door.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")

# Through ccache where it is installed, unless the caller names a launcher, of which an empty one is none.
if(PROJECT_IS_TOP_LEVEL)
  find_program(ccache ccache NO_CACHE)
  foreach(language C CXX)
    if(ccache AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
      # It takes compiled headers only if it is told to.
      set(CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
          CCACHE_SLOPPINESS=pch_defines,time_macros ${ccache})
    endif()
  endforeach()
endif()

if(GLEANER_SANITIZE)
  # vptr needs RTTI. gcc warns of every fence under TSan, and under ASan of variables that are set.
  # Reports name lines, for which -g1 does; with -g a source takes a fifth longer.
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fsanitize=${GLEANER_SANITIZE}
                      -fno-sanitize=vptr -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GLEANER_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan -Wno-maybe-uninitialized)
  endif()
endif()

if(GLEANER_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, for libFuzzer to follow
endif()

# What must be the same wherever a header of the layers is included: the library and its unit tests.
add_library(gleaner_internal INTERFACE)
target_include_directories(gleaner_internal INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(gleaner_internal INTERFACE
  GLEANER_VERSION="${PROJECT_VERSION}"
  $<$<BOOL:${GLEANER_VERIFY}>:GLEANER_VERIFY=1>
  $<$<AND:$<CONFIG:Release>,$<NOT:$<BOOL:${GLEANER_VERIFY}>>>:NDEBUG>)
target_compile_options(gleaner_internal INTERFACE
  -Wall -Wextra -Werror -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)

# Clients of the drop-in copy-relocate its data, so no -Bsymbolic and no protected visibility;
# -fno-semantic-interposition binds calls only. A collector reads memory under types of its own:
# no strict aliasing.
add_library(gleaner_library_flags INTERFACE)
target_link_libraries(gleaner_library_flags INTERFACE gleaner_internal)
target_compile_options(gleaner_library_flags INTERFACE
  -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ftls-model=initial-exec
  -fno-semantic-interposition -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-strict-aliasing
  -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wformat-security -Wvla)

# Bound at load time: no lazy binding inside a signal handler of stop-the-world. Never unloaded:
# threads that have used the library come back to it when they end.
add_library(gleaner_shared_link_flags INTERFACE)
target_link_options(gleaner_shared_link_flags INTERFACE LINKER:-z,now LINKER:-z,nodelete LINKER:-O1
  LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/exports.map)
if(NOT GLEANER_SANITIZE)
  target_link_options(gleaner_shared_link_flags INTERFACE LINKER:-z,defs)
endif()
