/* A loadable object with data and a system call, and nothing that runs when it is loaded. */
#include <unistd.h>

enum { kSlots = 100 };

static void *slots[kSlots];

void **data_slots(void) { return slots; }

long data_read(int fd, void *p, unsigned long bytes) { return read(fd, p, bytes); }
