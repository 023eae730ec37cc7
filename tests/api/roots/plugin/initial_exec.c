/* A loadable object whose thread-local variables are in the static block: in the surplus that the C
   library has for objects loaded later. */
enum { kSlots = 20 };

static __thread void *slots[kSlots] __attribute__((tls_model("initial-exec")));

void **tls_slots(void) { return slots; }
