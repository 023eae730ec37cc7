#include "tools/common/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gleaner::tools {

namespace {

// Whether the byte at `i` may follow the first byte of a character of UTF-8 as its second: some
// would make it overlong, half of a surrogate pair, or larger than the largest.
bool IsSecond(unsigned char first, const std::string& text, size_t i) {
  const auto second = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

// Bytes of the character of UTF-8 that begins at `i`; 0 if none does.
size_t LengthOfCharacter(const std::string& text, size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  const size_t length = c < 0x80                ? 1
                        : c >= 0xc2 && c < 0xe0 ? 2
                        : c >= 0xe0 && c < 0xf0 ? 3
                        : c >= 0xf0 && c < 0xf5 ? 4
                                                : 0;
  bool is_whole = length != 0 && i + length <= text.size() && IsSecond(c, text, i + 1);
  for (size_t k = 1; is_whole && k < length; ++k) {
    is_whole = (static_cast<unsigned char>(text[i + k]) & 0xc0) == 0x80;
  }
  return is_whole ? length : 0;
}

bool IsControl(char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }

// Three significant digits.
std::string Significant(double value, const char* unit) {
  char text[64];
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  snprintf(text, sizeof text, "%.*f %s", decimals, value, unit);
  return text;
}

}  // namespace

std::string ForTerminal(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = LengthOfCharacter(text, i);
    const auto c = static_cast<unsigned char>(text[i]);
    // Of two bytes, there are control characters up to U+009F.
    const bool is_control =
        length == 1 ? IsControl(text[i]) : length == 2 && c == 0xc2 && (text[i + 1] & 0x60) == 0;
    if (length != 0 && !is_control) {
      out.append(text, i, length);
    } else {
      for (size_t k = i; k < i + std::max<size_t>(length, 1); ++k) {
        char escaped[8];
        snprintf(escaped, sizeof escaped, "\\%03o", static_cast<unsigned char>(text[k]));
        out += escaped;
      }
    }
    i += std::max<size_t>(length, 1);
  }
  return out;
}

void Tell(const char* command, const std::string& message) {
  fprintf(stderr, "gleaner %s: %s\n", command, ForTerminal(message).c_str());
}

std::string Duration(uint64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns == 0) return "0";
  if (value < 999.5) return std::to_string(ns) + " ns";
  if (value < 999.5e3) return Significant(value / 1e3, "µs");
  if (value < 999.5e6) return Significant(value / 1e6, "ms");
  return Significant(value / 1e9, "s");
}

std::string Bytes(double bytes) {
  if (bytes < 999.5) return Count(static_cast<uint64_t>(bytes)) + " B";
  if (bytes < 999.5e3) return Significant(bytes / 1e3, "kB");
  if (bytes < 999.5e6) return Significant(bytes / 1e6, "MB");
  return Significant(bytes / 1e9, "GB");
}

std::string SizeText(double bytes) {
  static const char* const kUnits[] = {"B", "kB", "MB", "GB", "TB"};
  int unit = 0;
  for (; bytes >= 1000 && unit < 4; ++unit) bytes /= 1000;
  char text[64];
  snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

std::string SizeText(uint64_t bytes) { return SizeText(static_cast<double>(bytes)); }

std::string Share(double share) {
  char text[32];
  const double percent = share * 100;
  const int decimals = percent != 0 && std::fabs(percent) < 9.95 ? 1 : 0;
  snprintf(text, sizeof text, "%.*f %%", decimals, percent);
  return text;
}

std::string Count(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

}  // namespace gleaner::tools
