// The GC_ API: printing, and the collector's state for people.
#include "runtime/debug/dump.h"

#include <cstdarg>

#include "gc/gc_inline.h"
#include "gc/gc_mark.h"
#include "runtime/api/api.h"
#include "runtime/debug/findings.h"
#include "runtime/process/printing.h"

using runtime::Stream;

#define PRINT_TO(stream)                                      \
  va_list arguments;                                          \
  va_start(arguments, format);                                \
  runtime::PrintArguments(Stream::stream, format, arguments); \
  va_end(arguments)

extern "C" {

void GC_printf(const char* format, ...) { PRINT_TO(kOutput); }
void GC_err_printf(const char* format, ...) { PRINT_TO(kError); }
void GC_log_printf(const char* format, ...) { PRINT_TO(kLog); }

void GC_dump(void) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  runtime::DumpState(nullptr);
}
void GC_dump_named(const char* name) {
  runtime::Init();
  runtime::DumpState(name);
}
void GC_dump_regions(void) {
  runtime::Init();
  runtime::DumpRegions();
}
void GC_dump_finalization(void) { runtime::DumpFinalization(); }

void GC_print_free_list(int kind, size_t granules) {
  if (kind < 0 || static_cast<size_t>(kind) >= alloc::kMaxKinds) {
    return Complain("GC_print_free_list(%d, %zu): no such kind; ignored", kind, granules);
  }
  runtime::Init();
  runtime::DumpFreeSlots(static_cast<alloc::Kind>(kind), granules * alloc::kGranuleBytes);
}

void GC_register_describe_type_fn(int kind, GC_describe_type_fn fn) {
  if (kind < 0 || static_cast<size_t>(kind) >= alloc::kMaxKinds) {
    return Complain("GC_register_describe_type_fn(%d): no such kind; ignored", kind);
  }
  runtime::g_describe_type[kind] = fn;
}

}  // extern "C"
