// Functions that the loaded objects import, replaced by others: the entries of their tables of
// imported addresses are overwritten, and words of their data that were given such an address when
// the object was loaded. Nothing is exported for it, so a program in which it is not asked for does
// not notice; and it does not matter in which order libraries are searched.
//
// Not reached: calls that an object makes of its own functions (so those within the C library),
// addresses looked up by dlsym or copied before, system calls without a function.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

struct ReplacedImport {
  const char* name;
  void* replacement;
  void* original;  // the C library's
};

// pre: the names are in the order of strcmp.
//
// Replaces imports in all objects loaded now but this library's own. What an object imports that is
// neither the original, nor not looked up yet, is left alone: somebody else has replaced it there.
// May be called again, for objects loaded since. Other threads may be in such calls, or making
// them. Takes the loader's lock, unless the loader cannot be asked (loaded_objects.h): then nobody
// else may load or unload.
void ReplaceImports(const ReplacedImport* imports, size_t count, bool loader_can_be_asked = true);

}  // namespace gleaner::platform
