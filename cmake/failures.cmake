# In the verify build the system calls of a shared library may fail: platform/faults/failures.h. Its calls
# of these functions go to platform/faults/failing_calls.cc.
set(GLEANER_FAILING_CALLS mmap munmap mprotect madvise mincore mremap open fcntl flock access fstat pipe2
  memfd_create ftruncate fchmod fallocate readlink getcwd ioctl read pread write process_vm_readv getrlimit
  sigaltstack sched_getcpu syscall pthread_getattr_np pthread_key_create
  pthread_setspecific posix_spawn waitpid atexit on_exit)

function(gleaner_let_calls_fail library)
  if(NOT GLEANER_VERIFY OR GLEANER_SANITIZE)
    return()
  endif()
  target_sources(${library} PRIVATE ${CMAKE_SOURCE_DIR}/platform/faults/failing_calls.cc)
  set_source_files_properties(${CMAKE_SOURCE_DIR}/platform/faults/failing_calls.cc PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON
    COMPILE_OPTIONS "-fPIC;-fvisibility=hidden;-ftls-model=initial-exec;-fno-exceptions;-fno-rtti")
  target_link_libraries(${library} PRIVATE gleaner_internal)
  foreach(call IN LISTS GLEANER_FAILING_CALLS)
    target_link_options(${library} PRIVATE LINKER:--wrap=${call})
  endforeach()
endfunction()
