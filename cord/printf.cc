// CORD_printf and its relatives. The C library makes the conversions, one at a time, except %r.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "cord/node.h"
#include "gc/ec.h"

namespace cord {
namespace {

enum class Size { kInt, kChar, kShort, kLong, kLongLong, kMax, kSize, kDifference, kLongDouble };

// The text between a % and its conversion character.
struct Specification {
  char flags[7] = "";
  bool left = false;
  int width = -1;  // -1: not given
  int precision = -1;
  Size size = Size::kInt;
  char size_text[3] = "";
  char conversion = '\0';
};

// Reads a number; false if it exceeds INT_MAX.
bool ParseNumber(const char** p, int* number) {
  int64_t value = 0;
  for (; **p >= '0' && **p <= '9'; ++*p) {
    value = 10 * value + (**p - '0');
    if (value > INT32_MAX) return false;
  }
  *number = static_cast<int>(value);
  return true;
}

Size ParseSize(const char** p) {
  switch (*(*p)++) {
    case 'h':
      return **p == 'h' ? (++*p, Size::kChar) : Size::kShort;
    case 'l':
      return **p == 'l' ? (++*p, Size::kLongLong) : Size::kLong;
    case 'q':
      return Size::kLongLong;
    case 'j':
      return Size::kMax;
    case 'z':
      return Size::kSize;
    case 't':
      return Size::kDifference;
    case 'L':
      return Size::kLongDouble;
  }
  --*p;
  return Size::kInt;
}

class Formatter {
 public:
  explicit Formatter(va_list arguments) {
    CORD_ec_init(out_);
    va_copy(arguments_, arguments);
  }
  ~Formatter() { va_end(arguments_); }
  Formatter(const Formatter&) = delete;

  // Appends the formatted text. False if the format is wrong.
  bool Format(const char* p) {
    for (;;) {
      const char* percent = strchrnul(p, '%');
      AppendText(p, static_cast<size_t>(percent - p));
      if (*percent == '\0') return true;
      p = percent + 1;
      Specification s;
      if (!Parse(&p, &s) || !Convert(s)) return false;
    }
  }

  CORD Result() { return CORD_ec_to_cord(out_); }

 private:
  void AppendText(const char* text, size_t length) {
    if (length <= kShortLength) {
      for (size_t i = 0; i < length; i++) CORD_ec_append(out_, text[i]);
    } else {
      char* copy = static_cast<char*>(memcpy(AllocateTextOrDie(length), text, length));
      CORD_ec_append_cord(out_, TextToCord(copy, length));
    }
  }

  bool Parse(const char** p, Specification* s) {
    size_t flags = 0;
    for (; **p && strchr("-+ #0'", **p); ++*p) {
      if (strchr(s->flags, **p)) continue;  // the flag is given twice
      s->flags[flags++] = **p;
      s->flags[flags] = '\0';
    }
    s->left = strchr(s->flags, '-');
    if (**p == '*') {
      ++*p;
      s->width = va_arg(arguments_, int);
      if (s->width < 0) {
        if (s->width == INT32_MIN) return false;
        s->left = true;
        s->width = -s->width;
      }
    } else if (**p >= '1' && **p <= '9' && !ParseNumber(p, &s->width)) {
      return false;
    }
    if (**p == '.') {
      ++*p;
      if (**p == '*') {
        ++*p;
        s->precision = va_arg(arguments_, int);
        if (s->precision < 0) s->precision = -1;
      } else if (!ParseNumber(p, &s->precision)) {
        return false;
      }
    }
    const char* size = *p;
    s->size = ParseSize(p);
    memcpy(s->size_text, size, static_cast<size_t>(*p - size));
    s->conversion = **p;
    if (**p) ++*p;
    return s->conversion != '\0';
  }

  bool Convert(const Specification& s) {
    switch (s.conversion) {
      case '%':
        AppendText("%", 1);
        return true;
      case 'd':
      case 'i':
      case 'o':
      case 'u':
      case 'x':
      case 'X':
        return ConvertInteger(s);
      case 'a':
      case 'A':
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        return s.size == Size::kLongDouble ? Print(s, va_arg(arguments_, long double))
                                           : Print(s, va_arg(arguments_, double));
      case 'c':
        return s.size == Size::kLong ? Print(s, va_arg(arguments_, wint_t))
                                     : Print(s, va_arg(arguments_, int));
      case 'C':
        return Print(s, va_arg(arguments_, wint_t));
      case 's':
      case 'S':
      case 'p':
        return Print(s, va_arg(arguments_, void*));
      case 'm':
        return Print(s, 0);
      case 'n':
        return StoreCount(s.size);
      case 'r':
        return s.size == Size::kInt && AppendCord(s, va_arg(arguments_, CORD));
    }
    return false;
  }

  // Signed and unsigned arguments of one size are fetched in the same way.
  bool ConvertInteger(const Specification& s) {
    switch (s.size) {
      case Size::kInt:
      case Size::kChar:
      case Size::kShort:
        return Print(s, va_arg(arguments_, int));
      case Size::kLong:
        return Print(s, va_arg(arguments_, long));
      case Size::kLongLong:
      case Size::kLongDouble:
        return Print(s, va_arg(arguments_, long long));
      case Size::kMax:
        return Print(s, va_arg(arguments_, intmax_t));
      case Size::kSize:
        return Print(s, va_arg(arguments_, size_t));
      case Size::kDifference:
        return Print(s, va_arg(arguments_, ptrdiff_t));
    }
    return false;
  }

  template <class T>
  bool Print(const Specification& s, T value) {
    char format[64];
    char width[16] = "";
    char precision[16] = "";
    if (s.width >= 0) snprintf(width, sizeof width, "%d", s.width);
    if (s.precision >= 0) snprintf(precision, sizeof precision, ".%d", s.precision);
    snprintf(format, sizeof format, "%%%s%s%s%s%s%c", s.left ? "-" : "", s.flags, width, precision,
             s.size_text, s.conversion);
    char buffer[128];
    const int length = snprintf(buffer, sizeof buffer, format, value);
    if (length < 0) return false;
    if (static_cast<size_t>(length) < sizeof buffer) {
      AppendText(buffer, static_cast<size_t>(length));
      return true;
    }
    char* text = AllocateTextOrDie(static_cast<size_t>(length));
    if (snprintf(text, static_cast<size_t>(length) + 1, format, value) != length) return false;
    CORD_ec_append_cord(out_, TextToCord(text, static_cast<size_t>(length)));
    return true;
  }

  bool AppendCord(const Specification& s, CORD x) {
    if (s.precision >= 0) x = CORD_substr(x, 0, static_cast<size_t>(s.precision));
    const size_t length = Length(x);
    const size_t width = s.width > 0 ? static_cast<size_t>(s.width) : 0;
    CORD padding = width > length ? CORD_chars(' ', width - length) : CORD_EMPTY;
    CORD_ec_append_cord(out_, s.left ? x : padding);
    CORD_ec_append_cord(out_, s.left ? padding : x);
    return true;
  }

  bool StoreCount(Size size) {
    const size_t count = Length(CORD_ec_to_cord(out_));
    void* to = va_arg(arguments_, void*);
    switch (size) {
      case Size::kInt:
        *static_cast<int*>(to) = static_cast<int>(count);
        return true;
      case Size::kChar:
        *static_cast<signed char*>(to) = static_cast<signed char>(count);
        return true;
      case Size::kShort:
        *static_cast<short*>(to) = static_cast<short>(count);
        return true;
      default:
        static_assert(sizeof(long) == sizeof(long long) && sizeof(long) == sizeof(intmax_t));
        *static_cast<long*>(to) = static_cast<long>(count);
        return true;
    }
  }

  va_list arguments_;
  CORD_ec out_;
};

}  // namespace
}  // namespace cord

using namespace cord;

int CORD_vsprintf(CORD* result, CORD format, va_list arguments) {
  Formatter formatter(arguments);
  if (!formatter.Format(CORD_to_const_char_star(format))) return -1;
  CORD text = formatter.Result();
  const size_t length = Length(text);
  if (length > INT32_MAX) return -1;
  *result = text;
  return static_cast<int>(length);
}

int CORD_sprintf(CORD* result, CORD format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = CORD_vsprintf(result, format, arguments);
  va_end(arguments);
  return length;
}

int CORD_vfprintf(FILE* f, CORD format, va_list arguments) {
  CORD text = CORD_EMPTY;
  const int length = CORD_vsprintf(&text, format, arguments);
  return length >= 0 && CORD_put(text, f) == EOF ? -1 : length;
}

int CORD_fprintf(FILE* f, CORD format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = CORD_vfprintf(f, format, arguments);
  va_end(arguments);
  return length;
}

int CORD_vprintf(CORD format, va_list arguments) {
  return CORD_vfprintf(stdout, format, arguments);
}

int CORD_printf(CORD format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int length = CORD_vprintf(format, arguments);
  va_end(arguments);
  return length;
}
