// What the sanitizers are told in every test program: a collected heap is full of leaks on purpose,
// handles faults of its own, finds roots on real stacks only, and replaces setrlimit, which the
// sanitizer calls to limit core files before it can bear a call of a function that it has checked.
extern "C" {

const char* __asan_default_options() {
  return "detect_leaks=0:allow_user_segv_handler=1:detect_stack_use_after_return=0:"
         "disable_coredump=0";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

const char* __tsan_default_options() { return "halt_on_error=1:allow_user_segv_handler=1"; }
}
