// Names for addresses of code, at the exit of a process that reports leaks.
//
// The `gleaner` command finds them, in a process of its own: `gleaner symbolize` reads debug
// information and symbol tables with elfutils' libdw. So none of that is in the program, and what
// it allocates is not in its heap. If the command is not there, or has no answer, functions have
// the names that the dynamic symbol tables give them, and nothing has lines.
#pragma once

#include "platform/thread.h"

namespace gleaner::malloc_proxy {

// An object that is loaded, or was.
struct CodeObject {
  const char* path;  // may end in " (deleted)" for the program itself
  Addr bias;         // an address less this is the one that the file has for it
  platform::Range range;
  bool loaded;
};

class Symbols {
 public:
  // Notes what is loaded, before something of it is unloaded. Any thread.
  static void NoteObjects();

  // Finds out about `count` addresses; sorts them and drops doubles. Once; the caller is the only
  // one. With `names` false, or without memory, there will be none.
  static void LookUp(Addr* addresses, size_t count, bool names);

  // The object that has the address, or had it before it was unloaded; null if there is none.
  static const CodeObject* ObjectOf(Addr address);

  // Calls f(context, function, location) for the function that the address is in, innermost first
  // where functions were inlined: once at least. Either text may be empty. A location is
  // "FILE:LINE" or less. Stops if f returns false.
  using Visitor = bool (*)(void* context, const char* function, const char* location);
  static void Visit(Addr address, Visitor f, void* context);
};

}  // namespace gleaner::malloc_proxy
