// Replacements of the functions by which a program limits its own address space.
#pragma once

namespace gleaner::runtime {

// Looks up the C library's functions that the replacements call. Done at initialisation, since the
// forked child of a process with threads may call a replacement and must not look up symbols.
// Where calls do not reach the replacements, replaces the imports of the loaded objects, too.
void FindLimitFunctions();

// Replaces the imports of objects loaded since. Inside WithLoaderLocked.
void ReplaceLimitsInNewObjects();

}  // namespace gleaner::runtime
