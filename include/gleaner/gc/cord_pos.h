/*
 * Positions in cords: a cord, an index, and the path from the root of the tree to the leaf there,
 * so that stepping to a neighbour takes constant time on average. cord.h includes this file.
 *
 *     CORD_pos pos;
 *     CORD_FOR(pos, x) putchar(CORD_pos_fetch(pos));
 *
 * A CORD_pos is a variable of some 800 bytes that is used by one thread at a time and passed by
 * address. It keeps its cord, if it lies where the collector looks. Programs use its members only
 * through the macros and functions; of those, the macros may evaluate `pos` several times.
 */
#ifndef CORD_POSITION_H
#define CORD_POSITION_H

#include "cord.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No tree is deeper. */
#define MAX_DEPTH 48
/* Characters of a function that a position holds in advance. */
#define FUNCTION_BUF_SZ 8
/* path_len of a position outside its cord. */
#define CORD_POS_INVALID (0x55555555)

struct CORD_pe {
  CORD pe_cord;        /* a subtree */
  size_t pe_start_pos; /* the index of its first character */
};

typedef struct CORD_Pos {
  size_t cur_pos;
  int path_len; /* path[path_len] is the leaf */
  /* The characters at hand: cur_leaf[0] has the index cur_start, and cur_pos is below cur_end; or
     cur_end is 0, if none are, in a leaf that is a function. */
  const char *cur_leaf;
  size_t cur_start;
  size_t cur_end;
  struct CORD_pe path[MAX_DEPTH + 1]; /* from the whole cord on */
  char function_buf[FUNCTION_BUF_SZ]; /* what cur_leaf points to in a function */
} CORD_pos[1];

/* Sets the position to index i of x; the position is not valid if x has no such index. */
CORD_API void CORD_set_pos(CORD_pos pos, CORD x, size_t i);

/* Whether the position is inside its cord. pre of the calls below: it is. */
CORD_API int CORD_pos_valid(CORD_pos pos);

CORD_API CORD CORD_pos_to_cord(CORD_pos pos);
CORD_API size_t CORD_pos_to_index(CORD_pos pos);
CORD_API char CORD_pos_fetch(CORD_pos pos);

/* To the next or the previous character. There being none, the position becomes invalid. */
CORD_API void CORD_next(CORD_pos pos);
CORD_API void CORD_prev(CORD_pos pos);

/* Functions that the macros call. */
CORD_API char CORD__pos_fetch(CORD_pos pos);
CORD_API void CORD__next(CORD_pos pos);
CORD_API void CORD__prev(CORD_pos pos);

#define CORD_pos_valid(pos) ((pos)[0].path_len != CORD_POS_INVALID)
#define CORD_pos_to_cord(pos) ((pos)[0].path[0].pe_cord)
#define CORD_pos_to_index(pos) ((pos)[0].cur_pos)
#define CORD_pos_fetch(pos)                                                         \
  ((pos)[0].cur_end != 0 ? (pos)[0].cur_leaf[(pos)[0].cur_pos - (pos)[0].cur_start] \
                         : CORD__pos_fetch(pos))
#define CORD_next(pos) \
  ((pos)[0].cur_pos + 1 < (pos)[0].cur_end ? (void)(pos)[0].cur_pos++ : CORD__next(pos))
#define CORD_prev(pos)                                                                       \
  ((pos)[0].cur_end != 0 && (pos)[0].cur_pos > (pos)[0].cur_start ? (void)(pos)[0].cur_pos-- \
                                                                  : CORD__prev(pos))

/* For loops over runs of characters: how many are at hand from the current one on (none if that is
   not positive), where they are, and a step over 0 < n <= as many of them. */
#define CORD_pos_chars_left(pos) ((long)(pos)[0].cur_end - (long)(pos)[0].cur_pos)
#define CORD_pos_cur_char_addr(pos) ((pos)[0].cur_leaf + ((pos)[0].cur_pos - (pos)[0].cur_start))
#define CORD_pos_advance(pos, n) ((pos)[0].cur_pos += (n)-1, CORD_next(pos))

#ifdef __cplusplus
}
#endif

#endif
