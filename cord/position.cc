// Traversal: positions, and functions called on each character.
#include "cord/node.h"
#include "gc/gc.h"

namespace cord {
namespace {

CORD_pe* Top(CORD_Pos* pos) { return &pos->path[pos->path_len]; }

// Extends the path from the subtree path[path_len], which has `length` characters, down to the leaf
// that has cur_pos.
void Descend(CORD_Pos* pos, size_t length) {
  CORD_pe* top = Top(pos);
  while (const Concat* concat = AsConcat(top->pe_cord)) {
    const size_t left_end = top->pe_start_pos + concat->left_length;
    const bool in_left = pos->cur_pos < left_end;
    top[1].pe_cord = in_left ? concat->left : concat->right;
    top[1].pe_start_pos = in_left ? top->pe_start_pos : left_end;
    length = in_left ? concat->left_length : length - concat->left_length;
    top++;
    pos->path_len++;
  }
  if (const char* text = LeafText(top->pe_cord)) {
    pos->cur_leaf = text;
    pos->cur_start = top->pe_start_pos;
    pos->cur_end = top->pe_start_pos + length;
  } else {
    pos->cur_end = 0;
  }
}

// Copies characters [first, last] of the function at the top of the path into function_buf; cur_pos
// is among them.
void ReadAhead(CORD_Pos* pos, const Function* function, size_t first, size_t last) {
  const size_t start = Top(pos)->pe_start_pos;
  for (size_t i = first; i <= last; i++) {
    pos->function_buf[i - first] = FetchFrom(function, i - start);
  }
  pos->cur_leaf = pos->function_buf;
  pos->cur_start = first;
  pos->cur_end = last + 1;
}

// Shortens the path to a subtree that contains cur_pos, and extends it to the leaf.
void Move(CORD_Pos* pos) {
  while (pos->path_len > 0) {
    pos->path_len--;
    const CORD_pe* top = Top(pos);
    const size_t length = AsNode(top->pe_cord)->length;
    if (pos->cur_pos >= top->pe_start_pos && pos->cur_pos - top->pe_start_pos < length) {
      Descend(pos, length);
      return;
    }
  }
  pos->path_len = CORD_POS_INVALID;
}

int EachBackward(CORD x, size_t length, size_t i, CORD_iter_fn each_char, void* data) {
  if (const Concat* concat = AsConcat(x)) {
    const size_t left_length = concat->left_length;
    if (i >= left_length) {
      const int result =
          EachBackward(concat->right, length - left_length, i - left_length, each_char, data);
      if (result) return result;
      i = left_length - 1;
    }
    return EachBackward(concat->left, left_length, i, each_char, data);
  }
  const char* text = LeafText(x);
  for (size_t left = i + 1; left-- > 0;) {
    const int result = each_char(text ? text[left] : FetchFrom(AsFunction(x), left), data);
    if (result) return result;
  }
  return 0;
}

int EachForward(CORD x, size_t length, size_t i, CORD_iter_fn each_char,
                CORD_batched_iter_fn each_string, void* data) {
  if (const Concat* concat = AsConcat(x)) {
    const size_t left_length = concat->left_length;
    if (i < left_length) {
      const int result = EachForward(concat->left, left_length, i, each_char, each_string, data);
      if (result) return result;
      i = left_length;
    }
    return EachForward(concat->right, length - left_length, i - left_length, each_char, each_string,
                       data);
  }
  if (each_string && !IsNode(x)) return each_string(x + i, data);
  const char* text = LeafText(x);
  for (; i < length; i++) {
    const int result = each_char(text ? text[i] : FetchFrom(AsFunction(x), i), data);
    if (result) return result;
  }
  return 0;
}

}  // namespace
}  // namespace cord

using namespace cord;

void CORD_set_pos(CORD_pos pos, CORD x, size_t i) {
  const size_t length = Length(x);
  // The barrier here is enough: all other pointers of a position lead to parts of this cord.
  GC_PTR_STORE_AND_DIRTY(&pos->path[0].pe_cord, x);
  pos->path[0].pe_start_pos = 0;
  pos->cur_pos = i;
  pos->cur_end = 0;
  pos->path_len = i < length ? 0 : CORD_POS_INVALID;
  if (i < length) Descend(pos, length);
}

char CORD__pos_fetch(CORD_pos pos) {
  if (!CORD_pos_valid(pos)) Misuse("CORD_pos_fetch: the position is not valid");
  if (pos->cur_end != 0) return pos->cur_leaf[pos->cur_pos - pos->cur_start];
  const CORD_pe* top = Top(pos);
  return FetchFrom(AsFunction(top->pe_cord), pos->cur_pos - top->pe_start_pos);
}

void CORD__next(CORD_pos pos) {
  if (!CORD_pos_valid(pos)) Misuse("CORD_next: the position is not valid");
  const size_t i = ++pos->cur_pos;
  const CORD_pe* top = Top(pos);
  const Function* function = AsFunction(top->pe_cord);
  if (function && i - top->pe_start_pos < function->length) {
    const size_t left = function->length - (i - top->pe_start_pos);
    ReadAhead(pos, function, i, i + (left < FUNCTION_BUF_SZ ? left : FUNCTION_BUF_SZ) - 1);
  } else if (function || i >= pos->cur_end) {
    Move(pos);
  }
}

void CORD__prev(CORD_pos pos) {
  if (!CORD_pos_valid(pos)) Misuse("CORD_prev: the position is not valid");
  const CORD_pe* top = Top(pos);
  if (pos->cur_pos == 0) {
    pos->path_len = CORD_POS_INVALID;
    return;
  }
  const size_t i = --pos->cur_pos;
  const Function* function = AsFunction(top->pe_cord);
  if (function && i >= top->pe_start_pos) {
    const size_t before = i - top->pe_start_pos;
    ReadAhead(pos, function, i - (before < FUNCTION_BUF_SZ ? before : FUNCTION_BUF_SZ - 1), i);
  } else if (function || i < pos->cur_start) {
    Move(pos);
  }
}

// Functions with the names of the macros.
int(CORD_pos_valid)(CORD_pos pos) { return CORD_pos_valid(pos); }
CORD(CORD_pos_to_cord)(CORD_pos pos) { return CORD_pos_to_cord(pos); }
size_t(CORD_pos_to_index)(CORD_pos pos) { return CORD_pos_to_index(pos); }
char(CORD_pos_fetch)(CORD_pos pos) { return CORD_pos_fetch(pos); }
void(CORD_next)(CORD_pos pos) { CORD_next(pos); }
void(CORD_prev)(CORD_pos pos) { CORD_prev(pos); }

int CORD_iter5(CORD x, size_t i, CORD_iter_fn each_char, CORD_batched_iter_fn each_string,
               void* data) {
  const size_t length = Length(x);
  return i < length ? EachForward(x, length, i, each_char, each_string, data) : 0;
}

int(CORD_iter)(CORD x, CORD_iter_fn each_char, void* data) { return CORD_iter(x, each_char, data); }

int CORD_riter4(CORD x, size_t i, CORD_iter_fn each_char, void* data) {
  const size_t length = Length(x);
  if (i >= length) Misuse("CORD_riter4: the index is outside the cord");
  return EachBackward(x, length, i, each_char, data);
}

int CORD_riter(CORD x, CORD_iter_fn each_char, void* data) {
  return x ? CORD_riter4(x, Length(x) - 1, each_char, data) : 0;
}
