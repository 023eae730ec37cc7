# What is installed: libgleaner, shared and static, the `gleaner` command, headers, package files.

# The interposed pthread_create and its like: for programs that link libgleaner, not in the drop-in.
add_library(gleaner_interpose OBJECT runtime/interpose.cc)
target_link_libraries(gleaner_interpose PRIVATE gleaner_library_flags)
target_include_directories(gleaner_interpose PRIVATE include/gleaner)

set(everything ${GLEANER_OBJECTS} $<TARGET_OBJECTS:gleaner_interpose>)

add_library(gleaner_shared SHARED ${everything})
target_link_libraries(gleaner_shared PRIVATE gleaner_shared_link_flags)
set_target_properties(gleaner_shared PROPERTIES
  LINKER_LANGUAGE C VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib
  EXPORT_NAME gleaner)

add_library(gleaner_static STATIC ${everything})
set_target_properties(gleaner_static PROPERTIES
  LINKER_LANGUAGE C ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

foreach(library gleaner_shared gleaner_static)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME gleaner)
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include/gleaner>
    $<INSTALL_INTERFACE:include/gleaner>)
endforeach()

find_package(CLI11 REQUIRED)
file(GLOB tool_sources CONFIGURE_DEPENDS tools/*.cc)
add_executable(gleaner ${tool_sources} platform/run_program.cc ${GLEANER_OBJECTS})
target_link_libraries(gleaner PRIVATE gleaner_internal CLI11::CLI11)
set_target_properties(gleaner PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

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
install(TARGETS gc_dropin LIBRARY DESTINATION ${GLEANER_DROPIN_DIR})
install(TARGETS gleaner RUNTIME DESTINATION bin)
install(DIRECTORY include/gleaner/ DESTINATION include/gleaner)
install(EXPORT GleanerTargets NAMESPACE Gleaner:: DESTINATION lib/cmake/Gleaner)
install(FILES ${CMAKE_BINARY_DIR}/GleanerConfig.cmake ${CMAKE_BINARY_DIR}/GleanerConfigVersion.cmake
        DESTINATION lib/cmake/Gleaner)
install(FILES ${CMAKE_BINARY_DIR}/gleaner.pc DESTINATION lib/pkgconfig)
