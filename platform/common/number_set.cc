#include "platform/common/number_set.h"

#include <cstdio>

namespace gleaner::platform {
namespace {

// Reads a number. False if there is none, or it is not below the limit.
bool ParseNumber(const char** text, int limit, int* number) {
  if (**text < '0' || **text > '9') return false;
  *number = 0;
  for (; **text >= '0' && **text <= '9'; ++*text) {
    *number = 10 * *number + (**text - '0');
    if (*number >= limit) return false;
  }
  return true;
}

bool IsIn(const uint64_t* words, int number) {
  return (words[number / 64] >> (number % 64) & 1) != 0;
}

}  // namespace

bool ParseNumbers(const char* text, const char** end, uint64_t* words, int limit) {
  *end = text;
  if (*text < '0' || *text > '9') return true;
  for (;; ++text) {
    int first = 0;
    if (!ParseNumber(&text, limit, &first)) return false;
    int last = first;
    if (*text == '-' && (!ParseNumber(&++text, limit, &last) || last < first)) return false;
    for (int number = first; number <= last; ++number) {
      words[number / 64] |= uint64_t{1} << (number % 64);
    }
    *end = text;
    if (*text != ',') return true;
  }
}

size_t FormatNumbers(const uint64_t* words, int limit, char* out, size_t size) {
  size_t length = 0;
  out[0] = 0;
  for (int first = 0; first < limit; ++first) {
    if (!IsIn(words, first)) continue;
    int last = first;
    while (last + 1 < limit && IsIn(words, last + 1)) ++last;
    char item[32];
    const char* comma = length == 0 ? "" : ",";
    const int added = last == first ? snprintf(item, sizeof item, "%s%d", comma, first)
                                    : snprintf(item, sizeof item, "%s%d-%d", comma, first, last);
    if (length < size) snprintf(out + length, size - length, "%s", item);
    length += static_cast<size_t>(added);
    first = last;
  }
  return length;
}

}  // namespace gleaner::platform
