#include "malloc/leak_report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "alloc/metadata/meta.h"
#include "malloc/leaks.h"
#include "malloc/suppressions.h"
#include "malloc/symbols.h"
#include "platform/os/process.h"
#include "platform/os/standard_error.h"
#include "platform/os/write_all.h"
#include "platform/threads/stop_world.h"
#include "runtime/process/options.h"
#include "runtime/threads/mutator.h"

namespace gleaner::malloc_proxy {
namespace {

using runtime::g_options;

constexpr size_t kMaxPath = 4096;

// Written at the start: a program may change its directory or overwrite its environment later.
struct Settings {
  bool on;
  char file[kMaxPath];  // empty: standard error
};
constinit Settings g_settings = {};

// A thread has begun the report; there is one report.
constinit platform::Atomic<bool> g_reporting{false};

// --- Text ---

// Buffered text output to a file. Failures are ignored: the process ends.
class Writer {
 public:
  explicit Writer(int fd) : fd_(fd) {}
  ~Writer() { Flush(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // At most half a buffer in one call; longer text is cut off.
  void Print(const char* format, ...) __attribute__((format(printf, 2, 3))) {
    constexpr size_t kMax = sizeof buffer_ / 2;
    if (used_ > kMax) Flush();
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(buffer_ + used_, kMax, format, arguments);
    va_end(arguments);
    if (n <= 0) return;
    const size_t bytes = static_cast<size_t>(n) < kMax ? static_cast<size_t>(n) : kMax - 1;
    HideControls(buffer_ + used_, bytes);
    used_ += bytes;
  }
  void Count(const LeakCount& count) {
    Print("%llu byte%s in %llu block%s", static_cast<unsigned long long>(count.bytes),
          count.bytes == 1 ? "" : "s", static_cast<unsigned long long>(count.blocks),
          count.blocks == 1 ? "" : "s");
  }

 private:
  void Flush() {
    (void)platform::WriteAll(fd_, buffer_, used_);
    used_ = 0;
  }

  const int fd_;
  size_t used_ = 0;
  char buffer_[4 * kMaxPath];
};

// Opens the file of the option, with "%p" replaced by the process number; or standard error.
int OpenOutput() {
  if (g_settings.file[0] == 0) return StandardError();
  char path[kMaxPath];
  const char* mark = strstr(g_settings.file, "%p");
  const int n = mark == nullptr ? snprintf(path, sizeof path, "%s", g_settings.file)
                                : snprintf(path, sizeof path, "%.*s%d%s",
                                           static_cast<int>(mark - g_settings.file),
                                           g_settings.file, getpid(), mark + 2);
  const int fd = n > 0 && n < static_cast<int>(sizeof path) ? platform::OpenLogFile(path) : -1;
  if (fd >= 0) return fd;
  Complain("leaks: cannot write %s: %s; the report follows", path, strerror(errno));
  return StandardError();
}

// --- One report ---

class Report {
 public:
  explicit Report(Addr stack_pointer) : stack_pointer_(stack_pointer) {}

  // Makes and prints the report. Whether blocks are lost that no rule suppresses.
  bool Make() {
    if (!Leaks::Examine(stack_pointer_, nullptr, nullptr)) return Fail();
    stacks_ = Leaks::stacks();
    for (StackId id = 0; id < stacks_; ++id) {
      const StackLeaks leaks = Leaks::Of(id);
      if (leaks.direct.blocks + leaks.indirect.blocks == 0) continue;
      ++with_leaks_;
      if (id != kNoStack) frames_ += StackTable::CountOf(id);
    }
    if (with_leaks_ == 0) return false;
    if (!FindNames() || !Suppress() || !Collect()) return Fail();
    if (entry_count_ == 0 && suppressed_.blocks == 0) return false;
    const int fd = OpenOutput();
    Print(fd);
    if (fd > STDERR_FILENO) close(fd);
    return entry_count_ != 0;
  }

 private:
  struct Entry {
    StackId id;
    bool direct;
    LeakCount count;
  };

  template <class T>
  static T* Array(size_t count) {
    return static_cast<T*>(alloc::MetaAllocate((count + 1) * sizeof(T)));
  }
  static bool Fail() {
    Complain("leaks: no report: there is no memory for it, or threads do not stop");
    return false;
  }
  template <class F>
  void ForEachStackWithLeaks(const F& f) {
    for (StackId id = 0; id < stacks_; ++id) {
      const StackLeaks leaks = Leaks::Of(id);
      if (leaks.direct.blocks + leaks.indirect.blocks != 0) f(id, leaks);
    }
  }

  bool FindNames() {
    auto* addresses = Array<Addr>(frames_);
    if (addresses == nullptr) return false;
    size_t count = 0;
    ForEachStackWithLeaks([&](StackId id, const StackLeaks&) {
      if (id == kNoStack) return;
      const Addr* frames = StackTable::FramesOf(id);
      for (size_t i = 0; i < StackTable::CountOf(id); ++i) addresses[count++] = frames[i];
    });
    Symbols::LookUp(addresses, count, g_options.leaks_symbols);
    return true;
  }

  // The rule that suppresses a stack, or 0.
  static RuleOfStack RuleFor(StackId id) {
    if (id == kNoStack) return 0;
    size_t rule = 0;
    const auto match = [](void* context, const char* function, const char* location) {
      char file[kMaxPath];
      snprintf(file, sizeof file, "%s", location);
      if (char* colon = strrchr(file, ':'); colon != nullptr) *colon = 0;
      auto* found = static_cast<size_t*>(context);
      if (function[0] != 0) *found = Suppressions::Match(function);
      if (*found == 0 && file[0] != 0) *found = Suppressions::Match(file);
      return *found == 0;
    };
    for (size_t i = 0; i < StackTable::CountOf(id) && rule == 0; ++i) {
      const Addr address = StackTable::FramesOf(id)[i];
      const CodeObject* object = Symbols::ObjectOf(address);
      if (object != nullptr) rule = Suppressions::Match(object->path);
      if (rule == 0) Symbols::Visit(address, match, &rule);
    }
    return static_cast<RuleOfStack>(rule);
  }

  // If a rule suppresses a stack, examines again: blocks to which the stack's blocks lead do not
  // count either.
  bool Suppress() {
    if (Suppressions::count() == 0) return true;
    rules_ = Array<RuleOfStack>(stacks_);
    by_rule_ = Array<LeakCount>(Suppressions::count());
    if (rules_ == nullptr || by_rule_ == nullptr) return false;
    bool any = false;
    ForEachStackWithLeaks([&](StackId id, const StackLeaks&) {
      rules_[id] = RuleFor(id);
      any = any || rules_[id] != 0;
    });
    return !any || Leaks::Examine(stack_pointer_, rules_, by_rule_);
  }

  void Add(StackId id, bool direct, const LeakCount& count) {
    if (count.blocks == 0) return;
    if (rules_ != nullptr && rules_[id] != 0) {  // blocks of a suppressed stack that were collected
      by_rule_[rules_[id]].Add(count);
      return;
    }
    (direct ? direct_ : indirect_).Add(count);
    entries_[entry_count_++] = {id, direct, count};
  }

  bool Collect() {
    entries_ = Array<Entry>(2 * with_leaks_);
    if (entries_ == nullptr) return false;
    // The second examination may find new stacks, of threads that still run; they may not fit.
    for (StackId id = 0; id < stacks_; ++id) {
      const StackLeaks leaks = Leaks::Of(id);
      if (entry_count_ + 2 > 2 * with_leaks_) break;
      Add(id, true, leaks.direct);
      Add(id, false, leaks.indirect);
    }
    if (by_rule_ != nullptr) {
      for (size_t rule = 1; rule <= Suppressions::count(); ++rule) suppressed_.Add(by_rule_[rule]);
    }
    std::sort(entries_, entries_ + entry_count_, [](const Entry& a, const Entry& b) {
      if (a.direct != b.direct) return a.direct;
      if (a.count.bytes != b.count.bytes) return a.count.bytes > b.count.bytes;
      return a.count.blocks != b.count.blocks ? a.count.blocks > b.count.blocks : a.id < b.id;
    });
    return true;
  }

  void Print(int fd) {
    Writer out(fd);
    char program[kMaxPath];
    if (!platform::ReadProgramPath(program, sizeof program)) strcpy(program, "?");
    LeakCount all = direct_;
    all.Add(indirect_);
    out.Print("gleaner: process %d (%s) has lost ", getpid(), program);
    out.Count(all);
    out.Print(": ");
    out.Count(direct_);
    out.Print(" directly, ");
    out.Count(indirect_);
    out.Print(" indirectly\n");
    for (size_t i = 0; i < entry_count_; ++i) PrintEntry(&out, entries_[i]);
    if (suppressed_.blocks != 0) PrintSuppressed(&out);
  }

  static void PrintEntry(Writer* out, const Entry& entry) {
    out->Print("\n%s leak: ", entry.direct ? "direct" : "indirect");
    out->Count(entry.count);
    if (entry.id == kNoStack) {
      out->Print(", %s\n", StackTable::IsFull()
                               ? "of stacks for which the table had no room, or unknown ones"
                               : "of an unknown stack");
      return;
    }
    out->Print(", allocated by\n");
    struct Line {
      Writer* out;
      size_t number;
      Addr address;
    } line{out, 0, 0};
    const auto print = [](void* context, const char* function, const char* location) {
      auto* at = static_cast<Line*>(context);
      at->out->Print("    #%zu", at->number++);
      if (function[0] != 0) at->out->Print(" %s", function);
      if (location[0] != 0) at->out->Print(" %s", location);
      const CodeObject* object = Symbols::ObjectOf(at->address);
      if (object == nullptr) {
        at->out->Print(" 0x%zx (in no object that is loaded)\n", at->address);
      } else {
        at->out->Print(" (%s+0x%zx)\n", object->path, at->address - object->bias);
      }
      return true;
    };
    for (size_t i = 0; i < StackTable::CountOf(entry.id); ++i) {
      line.address = StackTable::FramesOf(entry.id)[i];
      Symbols::Visit(line.address, print, &line);
    }
  }

  void PrintSuppressed(Writer* out) const {
    out->Print("\nsuppressed: ");
    out->Count(suppressed_);
    out->Print("\n");
    for (size_t rule = 1; rule <= Suppressions::count(); ++rule) {
      if (by_rule_[rule].blocks == 0) continue;
      out->Print("    ");
      out->Count(by_rule_[rule]);
      out->Print(" by leak:%s\n", Suppressions::PatternOf(rule));
    }
  }

  const Addr stack_pointer_;
  size_t stacks_ = 0;
  size_t with_leaks_ = 0;
  size_t frames_ = 0;  // of stacks with leaks
  RuleOfStack* rules_ = nullptr;
  LeakCount* by_rule_ = nullptr;
  Entry* entries_ = nullptr;
  size_t entry_count_ = 0;
  LeakCount direct_;
  LeakCount indirect_;
  LeakCount suppressed_;
};

// --- When ---

void MakeReport(Addr stack_pointer, void* found) {
  if (g_reporting.Exchange(true, platform::memory_order_seq_cst)) return;
  if (!runtime::AttachThread()) {
    Complain("leaks: no memory to register the thread that exits: no report");
    return;
  }
  *static_cast<bool*>(found) = Report(stack_pointer).Make();
}

// Registers of the program's functions are roots; frames below this function's are not.
GLEANER_NOINLINE bool FindsLeaks() {
  bool found = false;
  platform::WithRegistersOnStack(MakeReport, &found);
  return found && g_options.leaks_exit_code != 0;
}

// In glibc the last call of exit() determines the status, also a call in an exit handler.
void OnExit(int, void*) {
  if (FindsLeaks()) exit(static_cast<int>(g_options.leaks_exit_code));
}
void OnQuickExit() {
  if (FindsLeaks()) quick_exit(static_cast<int>(g_options.leaks_exit_code));
}

void InstallHandlers() {
  if (on_exit(OnExit, nullptr) != 0 || at_quick_exit(OnQuickExit) != 0) {
    Complain("leaks: no memory for an exit handler: there will be no report");
  }
}

}  // namespace

bool ReportsLeaks() { return g_settings.on; }

void PrepareLeakReport() {
  if (g_options.leaks_file != nullptr && g_options.leaks_file[0] != 0 &&
      !platform::MakeAbsolute(g_options.leaks_file, g_settings.file, sizeof g_settings.file)) {
    Complain("leaks: the path %s is too long: the report goes to standard error",
             g_options.leaks_file);
    g_settings.file[0] = 0;
  }
  if (g_options.leaks_suppressions != nullptr && g_options.leaks_suppressions[0] != 0) {
    Suppressions::Read(g_options.leaks_suppressions);
  }
  g_settings.on = Leaks::Init();
  // Handlers run in reverse order. The process has rarely reached main() by now, so this handler
  // runs last.
  if (g_settings.on) InstallHandlers();
}

}  // namespace gleaner::malloc_proxy
