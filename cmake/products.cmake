# What is installed: libgleaner, shared and static, the libraries beside the drop-in, the `gleaner`
# command, headers, package files.

# The interposed pthread_create and its like: for programs that link libgleaner, not in the drop-in.
add_library(gleaner_interpose OBJECT runtime/threads/interpose.cc)
target_link_libraries(gleaner_interpose PRIVATE gleaner_library_flags)
target_include_directories(gleaner_interpose PRIVATE include/gleaner)

set(everything ${GLEANER_OBJECTS} $<TARGET_OBJECTS:gleaner_interpose>)

add_library(gleaner_shared SHARED ${everything} $<TARGET_OBJECTS:gleaner_own_object>)
target_link_libraries(gleaner_shared PRIVATE gleaner_shared_link_flags)
set_target_properties(gleaner_shared PROPERTIES
  LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  EXPORT_NAME gleaner)

gleaner_let_calls_fail(gleaner_shared)
add_library(gleaner_static STATIC ${everything})
set_target_properties(gleaner_static PROPERTIES
  LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

foreach(library gleaner_shared gleaner_static)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME gleaner)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include/gleaner>
    $<INSTALL_INTERFACE:include/gleaner>)
endforeach()

# The libraries that Debian has beside libgc.so.1, under the same SONAMEs: operator new on the heap
# and what gc_cpp.h throws; the latter alone; cords. The first two need libstdc++, as there.
# add_side_library(<name> <file>...): shared beside the drop-in, and static for any program.
function(add_side_library name)
  add_library(${name}_objects OBJECT ${ARGN})
  target_include_directories(${name}_objects PRIVATE include/gleaner)
  target_compile_options(${name}_objects PRIVATE
    -fPIC -fvisibility=hidden -Wall -Wextra -Werror -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)
  add_library(${name} SHARED $<TARGET_OBJECTS:${name}_objects>)
  # Objects on the heap lead back to the library: functions of cords, cleanup functions.
  target_link_options(${name} PRIVATE LINKER:-z,now LINKER:-z,defs LINKER:-z,nodelete LINKER:-O1
    LINKER:--as-needed)
  target_link_libraries(${name} PRIVATE gc_dropin)
  set_target_properties(${name} PROPERTIES
    SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gleaner)
  add_library(${name}_static STATIC $<TARGET_OBJECTS:${name}_objects>)
  set_target_properties(${name}_static PROPERTIES
    OUTPUT_NAME ${name} ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  install(TARGETS ${name} LIBRARY DESTINATION lib/gleaner)
  install(TARGETS ${name}_static ARCHIVE DESTINATION lib)
endfunction()

add_side_library(gctba cplusplus/throw_bad_alloc.cc)
add_side_library(gccpp cplusplus/operator_new.cc cplusplus/throw_bad_alloc.cc)

file(GLOB cord_sources CONFIGURE_DEPENDS cord/*.cc)
add_side_library(cord ${cord_sources})
target_include_directories(cord_objects PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(cord_objects PRIVATE -fno-exceptions -fno-rtti -fno-threadsafe-statics)
set_target_properties(cord PROPERTIES LINKER_LANGUAGE C)

# What a library without a heap needs: messages, locks and the options.
set(start_of_library
  "$<FILTER:$<TARGET_OBJECTS:gleaner_platform>,INCLUDE,/(os/(base|cancellation|descriptor|lock|os_page|process|stalls|write_all)|faults/(delays|failures))\\.cc>"
  $<FILTER:$<TARGET_OBJECTS:gleaner_runtime>,INCLUDE,/process/options\\.cc>)

# The recorder of `gleaner record`, preloaded into any program: nothing of the heap is in it.
add_library(gleaner_record SHARED record/interpose.cc record/trace_writer.cc record/system/record_file.cc
  ${start_of_library})
target_link_libraries(gleaner_record PRIVATE gleaner_library_flags gleaner_shared_link_flags)
# The compiler must not make malloc out of malloc and memset, or know what free does.
set_source_files_properties(record/interpose.cc PROPERTIES COMPILE_OPTIONS -fno-builtin)
set_target_properties(gleaner_record PROPERTIES
  LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gleaner)
gleaner_let_calls_fail(gleaner_record)

# What `gleaner run --local-text` preloads: nothing of the heap is in it.
add_library(gleaner_local_text SHARED runtime/process/local_text.cc platform/loader/text_copies.cc
  ${start_of_library})
target_link_libraries(gleaner_local_text PRIVATE gleaner_library_flags gleaner_shared_link_flags)
set_target_properties(gleaner_local_text PROPERTIES
  LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gleaner)
gleaner_let_calls_fail(gleaner_local_text)

# Beside the drop-in, as it is named in LD_PRELOAD by `gleaner run`.
add_library(gleaner_malloc SHARED ${GLEANER_OBJECTS} $<TARGET_OBJECTS:gleaner_own_object>
  $<TARGET_OBJECTS:gleaner_malloc_objects>)
target_link_options(gleaner_malloc PRIVATE LINKER:-z,now LINKER:-z,defs LINKER:-z,nodelete LINKER:-O1
  LINKER:--gc-sections LINKER:--version-script=${CMAKE_SOURCE_DIR}/cmake/malloc_exports.map)
set_target_properties(gleaner_malloc PROPERTIES
  LINKER_LANGUAGE C LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gleaner)
gleaner_let_calls_fail(gleaner_malloc)
install(TARGETS gleaner_malloc LIBRARY DESTINATION lib/gleaner)

find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LIBDW REQUIRED IMPORTED_TARGET libdw)
file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS tools/*.cc)
list(REMOVE_ITEM tool_sources ${tool_parts})

# What is the same in all pages of `gleaner report`, as C++: its own HTML, style and script, and dygraphs.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
set(dygraphs /usr/share/javascript/dygraphs)
if(NOT EXISTS ${dygraphs}/dygraph.min.js)
  message(FATAL_ERROR "${dygraphs}/dygraph.min.js is missing: install libjs-dygraphs")
endif()
set(report_page ${CMAKE_SOURCE_DIR}/tools/report/report.html)
set(report_styles ${dygraphs}/dygraph.min.css ${CMAKE_SOURCE_DIR}/tools/report/report.css)
set(report_scripts ${dygraphs}/dygraph.min.js ${dygraphs}/extras/synchronizer.js
    ${CMAKE_SOURCE_DIR}/tools/report/report.js)
set(report_licence /usr/share/doc/libjs-dygraphs/copyright)
set(report_parts ${CMAKE_BINARY_DIR}/report_parts.cc)
add_custom_command(OUTPUT ${report_parts}
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/report/embed.py ${report_parts}
          --page ${report_page} --style ${report_styles} --script ${report_scripts} --licence ${report_licence}
  DEPENDS tools/report/embed.py ${report_page} ${report_styles} ${report_scripts} ${report_licence}
  VERBATIM)

add_executable(gleaner ${tool_sources} ${report_parts} record/trace_reader.cc
  $<TARGET_OBJECTS:gleaner_tool_parts> ${GLEANER_OBJECTS})
target_link_libraries(gleaner PRIVATE gleaner_internal Boost::context CLI11::CLI11 PkgConfig::LIBDW)
target_include_directories(gleaner PRIVATE include/gleaner)
target_precompile_headers(gleaner REUSE_FROM gleaner_tool_parts)
set_target_properties(gleaner PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# The descriptions for `gleaner predict`, where the command finds them in the build tree, too.
file(GLOB machines CONFIGURE_DEPENDS tools/machines/*.machine)
foreach(machine IN LISTS machines)
  get_filename_component(name ${machine} NAME)
  configure_file(${machine} ${CMAKE_BINARY_DIR}/share/gleaner/machines/${name} COPYONLY)
endforeach()
install(FILES ${machines} DESTINATION share/gleaner/machines)

# Always lib/, never lib/<triplet>: LD_LIBRARY_PATH=<prefix>/lib/gleaner is the documented interface.
include(CMakePackageConfigHelpers)
set(GLEANER_DROPIN_DIR lib/gleaner)
configure_package_config_file(cmake/GleanerConfig.cmake.in ${CMAKE_BINARY_DIR}/GleanerConfig.cmake
                              INSTALL_DESTINATION lib/cmake/Gleaner PATH_VARS GLEANER_DROPIN_DIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/GleanerConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
configure_file(cmake/gleaner.pc.in ${CMAKE_BINARY_DIR}/gleaner.pc @ONLY)

install(TARGETS gleaner_shared gleaner_static EXPORT GleanerTargets LIBRARY DESTINATION lib
        ARCHIVE DESTINATION lib)
install(TARGETS gc_dropin gleaner_record gleaner_local_text LIBRARY DESTINATION ${GLEANER_DROPIN_DIR})
# Beside the drop-in, too: `gleaner run` has the loader look in that folder alone, as the one of
# libgleaner may hold more than Gleaner (/usr/lib).
set(soname libgleaner.so.${PROJECT_VERSION_MAJOR})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lib/gleaner)
file(CREATE_LINK ../${soname} ${CMAKE_BINARY_DIR}/lib/gleaner/${soname} SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/lib/gleaner/${soname} DESTINATION ${GLEANER_DROPIN_DIR})
install(TARGETS gleaner RUNTIME DESTINATION bin)
install(DIRECTORY include/gleaner/ DESTINATION include/gleaner)
install(EXPORT GleanerTargets NAMESPACE Gleaner:: DESTINATION lib/cmake/Gleaner)
install(FILES ${CMAKE_BINARY_DIR}/GleanerConfig.cmake ${CMAKE_BINARY_DIR}/GleanerConfigVersion.cmake
        DESTINATION lib/cmake/Gleaner)
install(FILES ${CMAKE_BINARY_DIR}/gleaner.pc DESTINATION lib/pkgconfig)
install(FILES tools/gdb/gleaner_gdb.py tools/mpi/gleaner_mpi.c DESTINATION share/gleaner)
