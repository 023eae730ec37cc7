/* A plugin that brings the library with it: as a shared object that it needs, or in itself. */
#include <gc.h>
#include <string.h>

enum { kObjects = 500 };

static GC_hidden_pointer links[kObjects]; /* disappear with their objects */
static char *zeroed[kObjects];
static char *initialized[kObjects] = {(char *)1};

void plugin_start(void) { GC_INIT(); }

/* Objects that the plugin's data alone keeps. */
void plugin_make(void) {
  size_t i;
  for (i = 0; i < kObjects; i++) {
    char *object = (char *)GC_MALLOC(48);
    memset(object, 0x6b, 48);
    if (i % 2 == 0) {
      zeroed[i] = object;
    } else {
      initialized[i] = object;
    }
    links[i] = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&links[i], object);
  }
}

unsigned plugin_lost(void) {
  unsigned i, lost = 0;
  GC_gcollect();
  for (i = 0; i < kObjects; i++) lost += links[i] == 0;
  for (i = 0; lost == 0 && i < kObjects; i++) {
    lost += (i % 2 == 0 ? zeroed[i] : initialized[i])[47] != 0x6b;
  }
  return lost;
}

void *plugin_allocate(unsigned long bytes) { return GC_MALLOC(bytes); }
void plugin_collect(void) { GC_gcollect(); }
