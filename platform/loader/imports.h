// Replaces functions that the loaded objects import: overwrites the entries of their tables of
// imported addresses, and words of their data that got such an address when the object was loaded.
// Nothing is exported for this, so a program without replacements is not affected, and the search
// order of libraries does not matter.
//
// Not replaced: calls of an object's own functions (hence calls within the C library), addresses
// looked up by dlsym or copied before, system calls made without a function.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

struct ReplacedImport {
  const char* name;
  void* replacement;
  void* original;  // the C library's
};

// pre: the names are in the order of strcmp.
//
// Replaces imports in all loaded objects but this library's own. An entry that is neither the
// original nor still to be looked up is left alone: other code has replaced it. May be called
// again, for objects loaded since. Other threads may be calling the functions meanwhile. Takes the
// loader's lock, unless `loader_can_be_asked` is false (loaded_objects.h): then no other thread may
// load or unload objects.
void ReplaceImports(const ReplacedImport* imports, size_t count, bool loader_can_be_asked = true);

// Whether calls of this function, which this library replaces by exporting its name, do not reach
// the replacement: the C library comes first in the search order, as where a program gets the
// collector through a library or by dlopen. Then imports have to be replaced. Not with the world
// stopped.
bool IsBypassed(const char* name);

}  // namespace gleaner::platform
