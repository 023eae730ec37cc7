/*
 * The oracle prints what a collector library answers, one line each: section.name = value. Run with
 * two libraries it says where they differ (compare.py). So whatever it prints must be the same in
 * every run: no addresses, times or counts that depend on the machine.
 *
 * Each section runs in a process of its own; how that ended is printed as section.exit.
 */
#ifndef GLEANER_TESTS_COMPAT_ORACLE_H
#define GLEANER_TESTS_COMPAT_ORACLE_H

#include "check.h"

/* Prints the value of an integer expression under its own text. A text that comes again gets a
   number. */
#define SHOW(expression) oracle_show(#expression, (long long)(expression))
/* The same for each of a series. */
#define SHOW_AT(text, index, expression) \
  oracle_show_at(text, (long long)(index), (long long)(expression))
/* Hexadecimal. */
#define SHOW_HEX(text, index, expression) \
  oracle_show_hex(text, (long long)(index), (unsigned long long)(expression))
#define SHOW_TEXT(name, text) oracle_show_text(name, text)

void oracle_show(const char *name, long long value);
void oracle_show_at(const char *text, long long index, long long value);
void oracle_show_hex(const char *text, long long index, unsigned long long value);
void oracle_show_text(const char *name, const char *text);

/* Runs fn in a child and prints how that ended, and whether it said something on stderr. */
void oracle_show_end_of(const char *name, void (*fn)(void));

struct oracle_section {
  const char *name;
  void (*run)(void);
  int initialise; /* whether GC_INIT comes before */
};

/* The sections of each file, ended by one without a name. */
extern const struct oracle_section settings_sections[], object_sections[], kind_sections[],
    finalization_sections[], thread_sections[], misuse_sections[];

#endif
