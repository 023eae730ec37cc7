/*
 * What a program still has to do when GC_call_with_alloc_lock has returned. Guile moves a stack of
 * its own under the lock, and then writes its stack pointer. If it is stopped in between, its mark
 * procedure sees a stack pointer that is not in the stack.
 */
#include "check.h"

enum { kCollections = 100, kRounds = 11 };

static volatile int g_moving, g_done;
static int g_stops, g_stops_in_between;
static GC_push_other_roots_proc g_other_roots;

static void spin(int turns) {
  for (volatile int i = 0; i < turns; ++i) {
  }
}

static void *move(void *data) {
  spin(2000); /* the other thread waits for the lock meanwhile */
  g_moving = 1;
  return data;
}

static void *keep_moving(void *data) {
  while (!g_done) {
    GC_call_with_alloc_lock(move, NULL);
    g_moving = 0;
    spin(200);
  }
  return data;
}

/* The world is stopped. */
static void GC_CALLBACK look(void) {
  ++g_stops;
  g_stops_in_between += g_moving;
  if (g_other_roots != NULL) g_other_roots();
}

int main(void) {
  pthread_t thread;
  int rounds_in_between = 0;
  GC_INIT();
  g_other_roots = GC_get_push_other_roots();
  GC_set_push_other_roots(look);
  CHECK_EQ(pthread_create(&thread, NULL, keep_moving, NULL), 0);
  for (int round = 0; round < kRounds; ++round) {
    g_stops = g_stops_in_between = 0;
    for (int i = 0; i < kCollections; ++i) GC_gcollect();
    CHECK(g_stops >= kCollections);
    rounds_in_between += g_stops_in_between > g_stops / 5;
  }
  g_done = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  /*
   * libgc stops the thread there three times out of four, here the thread has a moment. Where other
   * programs have the processors it may stay there for some rounds, but not for most.
   */
  if (on_gleaner()) CHECK(2 * rounds_in_between < kRounds);
  return check_result();
}
