#!/usr/bin/env python3
"""Every function that a shared library imports can fail in the verify build, or stands here with the
reason why it does not; likewise every system call that is made by number.

usage: failing_calls.py SOURCE_DIR LIBRARY...
"""

import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
LIBRARIES = sys.argv[2:]

# Reason: functions.
NOT_TO_FAIL = {
    "makes no system call": """
        __cxa_finalize __environ environ __errno_location __libc_stack_end __progname _dl_find_object
        _r_debug dl_iterate_phdr dladdr dladdr1 dlsym getauxval getenv memchr memcmp memcpy memmove memset
        program_invocation_short_name snprintf strcasecmp strchr strcmp strcspn strerror
        strerrordesc_np strlen strncasecmp strncmp strnlen strrchr strstr sigabbrev_np strtod strtol strtoull
        tolower toupper vsnprintf wcslen pthread_attr_destroy pthread_attr_getdetachstate
        pthread_attr_getstack pthread_attr_init pthread_attr_setaffinity_np pthread_attr_setdetachstate
        pthread_attr_setstacksize pthread_once pthread_self pthread_setcancelstate
        pthread_setcanceltype pthread_barrierattr_getpshared pthread_condattr_getpshared
        pthread_rwlockattr_getpshared sigaddset sigdelset sigismember
        sigemptyset sigfillset sigorset __libc_current_sigrtmax __libc_current_sigrtmin
        posix_spawnattr_destroy posix_spawnattr_init posix_spawnattr_setflags
        posix_spawnattr_setsigdefault posix_spawnattr_setsigmask
        posix_spawn_file_actions_destroy posix_spawn_file_actions_init""",
    "cannot fail, or only for an argument that is wrong": """
        clock_gettime getcpu gethostname getpid getppid sched_yield sysconf sysinfo sigaction pthread_sigmask lseek pause
        pthread_mutex_lock pthread_mutex_unlock pthread_mutex_init pthread_mutex_trylock
        pthread_mutex_consistent pthread_mutexattr_init pthread_mutexattr_destroy
        pthread_mutexattr_setrobust""",
    "a helper keeps then what its creator has":
        "sched_getparam sched_getscheduler sched_setscheduler getpriority setpriority",
    "fails in its one caller, CreateThread": "pthread_create",
    "never called: a reference that brings threads to statically linked programs": "timer_create",
    "a name for people, which is empty then": "pthread_getname_np",
    "the descriptor is given back whatever it returns": "close",
    "ends the process or the thread": "abort exit quick_exit pthread_exit",
    "the program's own call, passed on": "pthread_cancel pthread_detach pthread_join",
    "of objects that are loaded already (RTLD_NOLOAD), or the program's own call; or fails as a file":
        "dlopen",
    "the library is no longer needed, whatever it returns": "dlclose",
    "fails in place of one that follows it in the same condition, posix_spawn":
        "posix_spawn_file_actions_adddup2 posix_spawn_file_actions_addopen",
    "atexit and on_exit fail in their place": "__cxa_atexit __cxa_at_quick_exit",
    "of the command, or what the program prints": "malloc free setenv dprintf fprintf",
    "of the compiler": """
        __gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable""",
}
NUMBERS_NOT_TO_FAIL = {
    "cannot fail": "gettid sched_yield",
    "its failure is an answer": "kcmp",
    "fails in its one caller, MapAt": "mmap",
    "the program's own call, passed on": "mlockall prlimit64",
    "of the delays, which may be short": "clock_nanosleep",
    "asks whether memory is readable, and its failure is the answer; or sets a mask, and cannot fail":
        "rt_sigprocmask",
}
# Where numbers of calls that the program makes are listed.
NOT_OWN_CALLS = {"system_calls.cc", "failing_calls.cc", "interposed_calls.cc"}


def words(table):
    return {word for text in table.values() for word in text.split()}


wrapped = set(re.search(r"GLEANER_FAILING_CALLS(.*?)\)", (SOURCE / "cmake/failures.cmake").read_text(),
                        re.S)[1].split())
excused = words(NOT_TO_FAIL)
imported = set()
for library in LIBRARIES:
    listing = subprocess.run(["nm", "-D", "--undefined-only", "--no-demangle", library], check=True,
                             capture_output=True, text=True).stdout
    imported |= {line.split()[-1].partition("@")[0] for line in listing.splitlines()}
# The libraries' own data, of which one library has the symbol.
imported = {name for name in imported if not name.startswith(("_ZTH", "gleaner_", "GC_"))}

calls = (SOURCE / "platform/faults/failing_calls.cc").read_text()
failing_numbers = set(re.findall(r"case SYS_(\w+):", calls))
numbers = {number for path in (SOURCE / "platform").rglob("*.cc") if path.name not in NOT_OWN_CALLS
           for number in re.findall(r"\bSYS_(\w+)", path.read_text())}

problems = [f"{name} is imported, and does not fail for no reason" for name in imported - wrapped - excused]
problems += [f"{name} is to fail, and is imported by no library" for name in
             wrapped - imported - {"atexit"}]
problems += [f"{name} is excused, and imported by no library" for name in
             excused - imported - words({"": NOT_TO_FAIL["of the compiler"]})]
problems += [f"{name} is both to fail and not to fail" for name in wrapped & excused]
problems += [f"{name}: no function of platform/faults/failing_calls.cc" for name in wrapped
             if not re.search(rf"__wrap_{name}\b|FAILING(_NUMBER)?\([^;]*?\b{name},", calls)]
problems += [f"SYS_{name} is called, and does not fail for no reason" for name in
             numbers - failing_numbers - words(NUMBERS_NOT_TO_FAIL)]
problems += [f"SYS_{name} is nowhere called" for name in
             (failing_numbers | words(NUMBERS_NOT_TO_FAIL)) - numbers]
print(f"{len(imported)} functions, {len(wrapped)} of them may fail; {len(numbers)} numbers, "
      f"{len(failing_numbers)} of them")
if problems:
    sys.exit("\n".join(sorted(problems)))
