/*
 * Cords: immutable strings as trees ("ropes": Boehm, Atkinson, Plass 1995), on the collected heap.
 * For text that is built by concatenation, kept in many versions, or only partly looked at:
 * concatenation takes constant time, a substring logarithmic time, and both share their text.
 *
 * A nonempty C string that is never modified is a cord, and so is CORD_EMPTY, a null pointer. All
 * other cords are made by the functions here. Functions that take a cord do not modify it. Indices
 * and lengths count chars from 0; a cord may contain the character '\0' (CORD_from_fn, CORD_nul),
 * but a C string made from it then ends early.
 *
 * Any number of threads may use a cord at once. Link with libcord and libgc. When there is no
 * memory CORD_oom_fn is called, and then the process ends; misuse that would make the result
 * meaningless ends the process with a message that names the call.
 */
#ifndef CORD_H
#define CORD_H

#include <stddef.h>
#include <stdio.h>

#ifndef CORD_API
#define CORD_API extern __attribute__((__visibility__("default")))
#endif

typedef const char *CORD;

#define CORD_EMPTY 0

/* Whether the cord `x`, not empty, is a C string. Evaluates x once. */
#define CORD_IS_STRING(x) (*(x) != '\0')

/* Has no function to call: for CORD_iter5. */
#define CORD_NO_FN ((CORD_batched_iter_fn)0)

/* The result of a search that finds nothing. */
#define CORD_NOT_FOUND ((size_t)(-1))

#ifdef __cplusplus
extern "C" {
#endif

/* Called when memory has run out; does not return. NULL, the default: a message, and abort(). */
CORD_API void (*CORD_oom_fn)(void);

/* ---- Making cords ---- */

/* x followed by y. C strings among them become part of the result. */
CORD_API CORD CORD_cat(CORD x, CORD y);

/* CORD_cat for a C string y of `y_length` characters. */
CORD_API CORD CORD_cat_char_star(CORD x, const char *y, size_t y_length);

/* x followed by one character, which may be '\0'. */
CORD_API CORD CORD_cat_char(CORD x, char c);

/* `count` cords one after the other. */
CORD_API CORD CORD_catn(int count, /* CORD */...);

/* At most `length` characters of x, from `start` on; empty if start is not inside x. */
CORD_API CORD CORD_substr(CORD x, size_t start, size_t length);

/* `count` times the character c, in constant space. */
CORD_API CORD CORD_chars(char c, size_t count);
#define CORD_nul(count) CORD_chars('\0', count)

/* A cord of `length` characters, of which fn(i, data) is number i. fn gives the same answer each
   time, and may be called at any time for any i < length, from any thread. */
typedef char (*CORD_fn)(size_t i, void *data);
CORD_API CORD CORD_from_fn(CORD_fn fn, void *data, size_t length);

/* A copy of a C string. */
CORD_API CORD CORD_from_char_star(const char *text);

/* The contents of a file from its start, which from then on belongs to the cord: it is closed when
   it is no longer needed. _eager reads all of it now, from where the file stands if it cannot seek;
   _lazy reads as the cord is looked at, from a seekable file that must not change meanwhile; the
   first decides by the size. */
CORD_API CORD CORD_from_file(FILE *f);
CORD_API CORD CORD_from_file_eager(FILE *f);
CORD_API CORD CORD_from_file_lazy(FILE *f);

/* x as a tree of logarithmic depth. Concatenation balances by itself when a tree gets too deep. One
   call may pay before many accesses to a cord that was built piece by piece. */
CORD_API CORD CORD_balance(CORD x);

/* ---- Looking at cords ---- */

CORD_API size_t CORD_len(CORD x);

/* Character number i of x; i < CORD_len(x). To visit many use a CORD_pos. */
CORD_API char CORD_fetch(CORD x, size_t i);

/* Negative, 0 or positive as x is before, equal to or after y, in the order of unsigned char.
   CORD_ncmp does so for at most `length` characters from each start on. */
CORD_API int CORD_cmp(CORD x, CORD y);
CORD_API int CORD_ncmp(CORD x, size_t x_start, CORD y, size_t y_start, size_t length);

/* Where c is in x: the first index >= i, or the last index <= i. i < CORD_len(x). CORD_NOT_FOUND if
   there is none. */
CORD_API size_t CORD_chr(CORD x, size_t i, int c);
CORD_API size_t CORD_rchr(CORD x, size_t i, int c);

/* The first index >= start at which s occurs in x, or CORD_NOT_FOUND. Takes time linear in the
   lengths. */
CORD_API size_t CORD_str(CORD x, size_t start, CORD s);

/* Calls on the characters of x, until one returns nonzero: then so does the traversal, else 0.
   CORD_iter5 goes from index i, which is below CORD_len(x), to the end, and may replace calls of
   each_char for consecutive characters by one of each_string, if that is given. CORD_riter4 goes
   from index i down to 0, CORD_iter and CORD_riter over all of x. */
typedef int (*CORD_iter_fn)(char c, void *data);
typedef int (*CORD_batched_iter_fn)(const char *text, void *data);
CORD_API int CORD_iter5(CORD x, size_t i, CORD_iter_fn each_char, CORD_batched_iter_fn each_string,
                        void *data);
CORD_API int CORD_iter(CORD x, CORD_iter_fn each_char, void *data);
CORD_API int CORD_riter4(CORD x, size_t i, CORD_iter_fn each_char, void *data);
CORD_API int CORD_riter(CORD x, CORD_iter_fn each_char, void *data);
#define CORD_iter(x, each_char, data) CORD_iter5(x, 0, each_char, CORD_NO_FN, data)

/* ---- Turning cords into something else ---- */

/* A C string of the caller's own on the collected heap. */
CORD_API char *CORD_to_char_star(CORD x);
/* A C string that must not be modified: x itself if it is one. */
CORD_API const char *CORD_to_const_char_star(CORD x);

/* Writes x to the file: 1, or EOF after an error. */
CORD_API int CORD_put(CORD x, FILE *f);

/* Prints the tree to stdout, for debugging. */
CORD_API void CORD_dump(CORD x);

#ifdef __cplusplus
}
#endif

#include "cord_pos.h"

/* For each character of a cord: CORD_FOR(pos, x) { ... CORD_pos_fetch(pos) ... } */
#define CORD_FOR(pos, x) for (CORD_set_pos(pos, x, 0); CORD_pos_valid(pos); CORD_next(pos))

/* ---- Formatted output ---- */
/* printf with a cord as its format, and the conversion %r for an argument that is a cord, with
   width and precision as for %s. The sprintf ones store a new cord, which shares the arguments of
   %r, in *result. Positional arguments ("%1$d") are not supported. The number of characters, or -1
   after an error, with *result unchanged. */
#ifndef CORD_NO_IO
#include <stdarg.h>

#ifdef __cplusplus
extern "C" {
#endif

CORD_API int CORD_sprintf(CORD *result, CORD format, ...);
CORD_API int CORD_vsprintf(CORD *result, CORD format, va_list arguments);
CORD_API int CORD_fprintf(FILE *f, CORD format, ...);
CORD_API int CORD_vfprintf(FILE *f, CORD format, va_list arguments);
CORD_API int CORD_printf(CORD format, ...);
CORD_API int CORD_vprintf(CORD format, va_list arguments);

#ifdef __cplusplus
}
#endif
#endif

#endif
