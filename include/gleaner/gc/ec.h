/*
 * Extensible cords: a cord under construction, to which characters are appended one by one.
 *
 *     CORD_ec text;
 *     CORD_ec_init(text);
 *     while ((c = getchar()) != EOF) CORD_ec_append(text, c);
 *     CORD result = CORD_ec_to_cord(text);
 *
 * Used by one thread at a time. The macros may evaluate their arguments several times.
 */
#ifndef EC_H
#define EC_H

#include "cord.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Characters that are collected before they go into the cord. */
#ifndef CORD_BUFSZ
#define CORD_BUFSZ 128
#endif

/* Stands for ec_cord followed by the characters of ec_buf up to ec_bufptr. */
typedef struct CORD_ec_struct {
  CORD ec_cord;
  char *ec_bufptr;
  char ec_buf[CORD_BUFSZ + 1];
} CORD_ec[1];

/* Moves what is in ec_buf to ec_cord. */
CORD_API void CORD_ec_flush_buf(CORD_ec x);

/* Appends a cord, which is shared, not copied. */
CORD_API void CORD_ec_append_cord(CORD_ec x, CORD s);

#define CORD_ec_init(x) ((x)[0].ec_cord = CORD_EMPTY, (void)((x)[0].ec_bufptr = (x)[0].ec_buf))
#define CORD_ec_append(x, c)                                                               \
  ((void)((x)[0].ec_bufptr == (x)[0].ec_buf + CORD_BUFSZ ? (CORD_ec_flush_buf(x), 0) : 0), \
   (void)(*(x)[0].ec_bufptr++ = (c)))
/* The text appended so far, as a cord. More may be appended afterwards. */
#define CORD_ec_to_cord(x) (CORD_ec_flush_buf(x), (x)[0].ec_cord)

#ifdef __cplusplus
}
#endif

#endif
