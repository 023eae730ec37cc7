// Names for addresses of code, at the exit of a process that reports leaks.
//
// `gleaner symbolize` finds the names in a process of its own: it reads debug information and
// symbol tables with elfutils' libdw. So libdw is not in the program, and its memory is not in the
// program's heap. If the command is missing or fails, functions have the names of the dynamic
// symbol tables, and there are no line numbers.
#pragma once

#include "platform/threads/thread.h"

namespace gleaner::malloc_proxy {

// An object (program or library) that is or was loaded.
struct CodeObject {
  const char* path;  // may end in " (deleted)" for the program itself
  Addr bias;         // an address minus the bias is the address in the file
  platform::Range range;
  bool loaded;  // the object is loaded now
};

class Symbols {
 public:
  // Records the loaded objects. Called before an object is unloaded. Any thread.
  static void RecordObjects();

  // Looks up `count` addresses; sorts them and drops duplicates. Called once, by one thread. With
  // `names` false, or without memory, no address has a name.
  static void LookUp(Addr* addresses, size_t count, bool names);

  // The object that contains the address, or contained it before it was unloaded; null if none did.
  static const CodeObject* ObjectOf(Addr address);

  // Calls f(context, function, location) at least once: for the function that contains the address
  // and, if it was inlined, for each function around it, innermost first. Either text may be empty.
  // A location is "FILE:LINE" or a part of that. Stops if f returns false.
  using Visitor = bool (*)(void* context, const char* function, const char* location);
  static void Visit(Addr address, Visitor f, void* context);
};

}  // namespace gleaner::malloc_proxy
