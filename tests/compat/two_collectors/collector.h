/* One of the collectors in the process, by the addresses of its functions. */
#ifndef GLEANER_TESTS_COMPAT_COLLECTOR_H
#define GLEANER_TESTS_COMPAT_COLLECTOR_H

#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#include <gc.h>

/* Name, result, parameters. */
#define COLLECTOR_FUNCTIONS(F)                                                             \
  F(init, void, (void))                                                                    \
  F(malloc, void *, (size_t))                                                              \
  F(malloc_atomic, void *, (size_t))                                                       \
  F(gcollect, void, (void))                                                                \
  F(get_heap_size, size_t, (void))                                                         \
  F(get_gc_no, GC_word, (void))                                                            \
  F(pthread_create, int, (pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)) \
  F(pthread_join, int, (pthread_t, void **))                                               \
  F(allow_register_threads, void, (void))                                                  \
  F(get_stack_base, int, (struct GC_stack_base *))                                         \
  F(register_my_thread, int, (const struct GC_stack_base *))                               \
  F(unregister_my_thread, int, (void))                                                     \
  F(get_suspend_signal, int, (void))                                                       \
  F(set_handle_fork, void, (int))

struct collector {
#define FIELD(name, result, parameters) result(*name) parameters;
  COLLECTOR_FUNCTIONS(FIELD)
#undef FIELD
};

#endif
