#include "runtime/process/output_path.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "platform/os/process.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {

namespace {

bool Expand(const char* given, char* out, size_t capacity) {
  const char* const rank = ProcessRank();
  char process[24];
  snprintf(process, sizeof process, "%d", getpid());
  char path[4096];
  size_t length = 0;
  for (const char* at = given; *at != 0; ++at) {
    const char letter[2] = {*at, 0};
    const char* text = letter;
    if (at[0] == '%' && at[1] == 'p') text = process;
    if (at[0] == '%' && at[1] == 'r') text = rank != nullptr ? rank : "0";
    if (at[0] == '%' && at[1] == '%') text = "%";
    if (text != letter) ++at;
    const size_t bytes = strlen(text);
    if (bytes >= sizeof path - length) return false;
    memcpy(path + length, text, bytes);
    length += bytes;
  }
  path[length] = 0;
  return platform::MakeAbsolute(path, out, capacity);
}

}  // namespace

bool ExpandOutputPath(const char* what, const char* given, char* out, size_t capacity) {
  if (Expand(given, out, capacity)) return true;
  Complain("the path is too long, or there is no current folder; there is no %s %s", what, given);
  return false;
}

bool NameAttempt(const char* path, int i, char* out, size_t capacity) {
  const int n = i == 0   ? snprintf(out, capacity, "%s", path)
                : i == 1 ? snprintf(out, capacity, "%s.%d", path, getpid())
                         : snprintf(out, capacity, "%s.%d.%d", path, getpid(), i - 1);
  return n >= 0 && static_cast<size_t>(n) < capacity;
}

}  // namespace gleaner::runtime
