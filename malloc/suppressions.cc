#include "malloc/suppressions.h"

#include <cerrno>
#include <cstring>

#include "alloc/metadata/meta.h"
#include "platform/os/process.h"

namespace gleaner::malloc_proxy {
namespace {

constexpr size_t kMaxFileBytes = 1 * kMiB;

// Constant after Read.
constinit const char** g_patterns = nullptr;
constinit size_t g_count = 0;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void AddLine(const char* path, size_t number, char* begin, char* end) {
  while (begin < end && IsBlank(*begin)) ++begin;
  while (begin < end && IsBlank(end[-1])) --end;
  if (begin == end || *begin == '#') return;
  *end = 0;
  constexpr char kType[] = "leak:";
  constexpr size_t kTypeLength = sizeof kType - 1;
  if (strncmp(begin, kType, kTypeLength) != 0) {
    return Complain("%s:%zu: \"%s\" is no suppression: a line is leak:PATTERN or # and a comment",
                    path, number, begin);
  }
  begin += kTypeLength;
  while (begin < end && IsBlank(*begin)) ++begin;
  if (begin == end) return Complain("%s:%zu: the pattern behind leak: is empty", path, number);
  if (g_count == Suppressions::kMaxRules) {
    return Complain("%s:%zu: more than %zu suppressions; this one does not count", path, number,
                    Suppressions::kMaxRules);
  }
  g_patterns[g_count++] = begin;
}

// Whether the pattern matches from the beginning of `name` on; with `tied`, up to its end.
bool MatchesFrom(const char* pattern, const char* pattern_end, const char* name, bool tied) {
  // After a mismatch the match resumes at the last "*", one character further on in the name.
  const char* star = nullptr;
  const char* star_name = nullptr;
  for (;;) {
    if (pattern == pattern_end) {
      if (!tied || *name == 0) return true;
    } else if (*pattern == '*') {
      star = ++pattern;
      star_name = name;
      continue;
    } else if (*name != 0 && *pattern == *name) {
      ++pattern;
      ++name;
      continue;
    }
    if (star == nullptr || *star_name == 0) return false;
    pattern = star;
    name = ++star_name;
  }
}

}  // namespace

bool MatchesPattern(const char* pattern, const char* name) {
  const char* end = pattern + strlen(pattern);
  const bool tied_begin = *pattern == '^';
  if (tied_begin) ++pattern;
  const bool tied_end = end > pattern && end[-1] == '$';
  if (tied_end) --end;
  for (;; ++name) {
    if (MatchesFrom(pattern, end, name, tied_end)) return true;
    if (tied_begin || *name == 0) return false;
  }
}

void Suppressions::Read(const char* path) {
  size_t bytes = 0;
  // One byte more, for the zero that ends the last line.
  auto* text = static_cast<char*>(alloc::MetaAllocate(kMaxFileBytes + 1));
  g_patterns = static_cast<const char**>(alloc::MetaAllocate(kMaxRules * sizeof *g_patterns));
  if (text == nullptr || g_patterns == nullptr) {
    return Complain("leaks: no memory for the suppressions in %s: none counts", path);
  }
  errno = 0;
  if (!platform::ReadFile(path, text, kMaxFileBytes, &bytes)) {
    return Complain("leaks: cannot read the suppressions in %s: %s; none counts", path,
                    errno == 0 ? "it is longer than 1 MiB" : strerror(errno));
  }
  size_t number = 0;
  for (char* line = text; line < text + bytes;) {
    auto* end = static_cast<char*>(memchr(line, '\n', static_cast<size_t>(text + bytes - line)));
    if (end == nullptr) end = text + bytes;
    AddLine(path, ++number, line, end);
    line = end + 1;
  }
}

size_t Suppressions::count() { return g_count; }
const char* Suppressions::PatternOf(size_t rule) { return g_patterns[rule - 1]; }

size_t Suppressions::Match(const char* name) {
  for (size_t i = 0; i < g_count; ++i) {
    if (MatchesPattern(g_patterns[i], name)) return i + 1;
  }
  return 0;
}

}  // namespace gleaner::malloc_proxy
