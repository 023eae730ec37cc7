// Functions built on the primitives: comparison, search, conversion, extensible cords.
#include <stdarg.h>

#include "cord/node.h"
#include "gc/ec.h"
#include "gc/gc.h"

namespace cord {
namespace {

// The characters that a valid position has in memory: at least one.
struct Run {
  const char* text;
  size_t length;
  char single;

  explicit Run(CORD_Pos* pos) {
    const long left = CORD_pos_chars_left(pos);
    single = left > 0 ? '\0' : CORD_pos_fetch(pos);
    text = left > 0 ? CORD_pos_cur_char_addr(pos) : &single;
    length = left > 0 ? static_cast<size_t>(left) : 1;
  }
  Run(const Run&) = delete;

  void Limit(size_t max) { length = length < max ? length : max; }
};

void Advance(CORD_Pos* pos, const Run& run) { CORD_pos_advance(pos, run.length); }

int Dump(CORD x, size_t length, int indent) {
  printf("%*s", indent, "");
  if (const Concat* concat = AsConcat(x)) {
    printf("concatenation, length %zu, depth %u\n", length, Depth(x));
    Dump(concat->left, concat->left_length, indent + 2);
    return Dump(concat->right, length - concat->left_length, indent + 2);
  }
  if (const Function* function = AsFunction(x)) {
    return printf("function, length %zu, from %zu\n", length, function->start);
  }
  const int shown = length < 60 ? static_cast<int>(length) : 60;
  return printf("%s, length %zu: \"%.*s\"%s\n", IsNode(x) ? "slice" : "string", length, shown,
                LeafText(x), static_cast<size_t>(shown) < length ? "..." : "");
}

}  // namespace
}  // namespace cord

using namespace cord;

CORD CORD_cat_char(CORD x, char c) {
  if (c == '\0') return CORD_cat(x, CORD_nul(1));
  char* text = AllocateTextOrDie(1);
  text[0] = c;
  return CORD_cat_char_star(x, text, 1);
}

CORD CORD_catn(int count, ...) {
  CORD result = CORD_EMPTY;
  va_list cords;
  va_start(cords, count);
  for (int i = 0; i < count; i++) result = CORD_cat(result, va_arg(cords, CORD));
  va_end(cords);
  return result;
}

CORD CORD_from_char_star(const char* text) {
  const size_t length = strlen(text);
  if (length == 0) return CORD_EMPTY;
  return static_cast<CORD>(memcpy(AllocateTextOrDie(length), text, length));
}

char* CORD_to_char_star(CORD x) {
  const size_t length = Length(x);
  char* text = AllocateTextOrDie(length);
  if (x) CopyOut(x, 0, length, text);
  return text;
}

const char* CORD_to_const_char_star(CORD x) {
  if (!x) return "";
  return IsNode(x) ? CORD_to_char_star(x) : x;
}

int CORD_put(CORD x, FILE* f) {
  CORD_pos pos;
  CORD_set_pos(pos, x, 0);
  while (CORD_pos_valid(pos)) {
    const Run run(pos);
    if (fwrite(run.text, 1, run.length, f) != run.length) return EOF;
    Advance(pos, run);
  }
  return 1;
}

void CORD_dump(CORD x) {
  if (x) {
    Dump(x, Length(x), 0);
  } else {
    puts("empty");
  }
  fflush(stdout);
}

int CORD_ncmp(CORD x, size_t x_start, CORD y, size_t y_start, size_t length) {
  CORD_pos x_pos, y_pos;
  CORD_set_pos(x_pos, x, x_start);
  CORD_set_pos(y_pos, y, y_start);
  while (length > 0) {
    if (!CORD_pos_valid(x_pos)) return CORD_pos_valid(y_pos) ? -1 : 0;
    if (!CORD_pos_valid(y_pos)) return 1;
    Run x_run(x_pos), y_run(y_pos);
    x_run.Limit(length);
    x_run.Limit(y_run.length);
    y_run.Limit(x_run.length);
    const int difference = memcmp(x_run.text, y_run.text, x_run.length);
    if (difference != 0) return difference;
    length -= x_run.length;
    Advance(x_pos, x_run);
    Advance(y_pos, y_run);
  }
  return 0;
}

int CORD_cmp(CORD x, CORD y) {
  if (x && y && !IsNode(x) && !IsNode(y)) return strcmp(x, y);
  return x == y ? 0 : CORD_ncmp(x, 0, y, 0, SIZE_MAX);
}

size_t CORD_chr(CORD x, size_t i, int c) {
  CORD_pos pos;
  CORD_set_pos(pos, x, i);
  while (CORD_pos_valid(pos)) {
    const Run run(pos);
    const void* found = memchr(run.text, c, run.length);
    if (found) {
      return CORD_pos_to_index(pos) +
             static_cast<size_t>(static_cast<const char*>(found) - run.text);
    }
    Advance(pos, run);
  }
  return CORD_NOT_FOUND;
}

size_t CORD_rchr(CORD x, size_t i, int c) {
  CORD_pos pos;
  for (CORD_set_pos(pos, x, i); CORD_pos_valid(pos); CORD_prev(pos)) {
    if (CORD_pos_fetch(pos) == static_cast<char>(c)) return CORD_pos_to_index(pos);
  }
  return CORD_NOT_FOUND;
}

// The algorithm of Knuth, Morris and Pratt: one pass over x.
size_t CORD_str(CORD x, size_t start, CORD s) {
  const size_t length = Length(s);
  const size_t x_length = Length(x);
  if (start > x_length || length > x_length - start) return CORD_NOT_FOUND;
  if (length == 0) return start;
  const char* wanted = IsNode(s) ? CORD_to_char_star(s) : s;
  if (length == 1) return CORD_chr(x, start, wanted[0]);

  // border[n]: the length of the longest proper suffix of the first n characters that is also their
  // prefix.
  const size_t border_count = length + 1;
  if (border_count > SIZE_MAX / sizeof(size_t)) return CORD_NOT_FOUND;
  size_t* border = static_cast<size_t*>(AllocateOrDie(border_count * sizeof(size_t)));
  for (size_t n = 1, matched = 0; n < length; n++) {
    while (matched > 0 && wanted[n] != wanted[matched]) matched = border[matched];
    if (wanted[n] == wanted[matched]) matched++;
    border[n + 1] = matched;
  }

  size_t matched = 0;
  CORD_pos pos;
  for (CORD_set_pos(pos, x, start); CORD_pos_valid(pos); CORD_next(pos)) {
    const char c = CORD_pos_fetch(pos);
    while (matched > 0 && c != wanted[matched]) matched = border[matched];
    if (c == wanted[matched]) matched++;
    if (matched == length) return CORD_pos_to_index(pos) + 1 - length;
  }
  return CORD_NOT_FOUND;
}

void CORD_ec_flush_buf(CORD_ec x) {
  const size_t length = static_cast<size_t>(x->ec_bufptr - x->ec_buf);
  if (length == 0) return;
  char* text = AllocateTextOrDie(length);
  memcpy(text, x->ec_buf, length);
  GC_PTR_STORE_AND_DIRTY(&x->ec_cord, CORD_cat(x->ec_cord, TextToCord(text, length)));
  x->ec_bufptr = x->ec_buf;
}

void CORD_ec_append_cord(CORD_ec x, CORD s) {
  CORD_ec_flush_buf(x);
  GC_PTR_STORE_AND_DIRTY(&x->ec_cord, CORD_cat(x->ec_cord, s));
}
