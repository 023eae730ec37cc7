/* A plugin that is linked to a collector of its own. */
#include "collector.h"

void plugin_collector(struct collector *c, const char *library);

void plugin_collector(struct collector *c, const char *library) {
  (void)library;
#define FILL(name, result, parameters) c->name = GC_##name;
  COLLECTOR_FUNCTIONS(FILL)
#undef FILL
}
