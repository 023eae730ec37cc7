// libgleaner_local_text.so, which `gleaner run --local-text` preloads: before the program starts,
// its text and that of its libraries becomes memory of the process (platform/loader/text_copies.h).
//
// The processes that the program starts inherit the variable, and so have copies of their own. What
// is loaded later (dlopen) stays as it is mapped.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "platform/loader/text_copies.h"
#include "platform/os/standard_error.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {
namespace {

using platform::TextCopies;

// "node 0: 12 pages, node 1: 3 pages"
void Describe(const TextCopies::Pages& pages, char* text, size_t bytes) {
  size_t length = 0;
  text[0] = 0;
  for (int node = 0; node < TextCopies::kMaxNodes && length < bytes; ++node) {
    if (pages.of_node[node] == 0) continue;
    length += static_cast<size_t>(snprintf(text + length, bytes - length, "%snode %d: %llu pages",
                                           length == 0 ? "" : ", ", node,
                                           static_cast<unsigned long long>(pages.of_node[node])));
  }
}

void Tell(const TextCopies& copies) {
  constexpr size_t kMaxText = 1024;
  static char before[kMaxText];
  static char after[kMaxText];
  Describe(copies.before, before, sizeof before);
  Describe(copies.after, after, sizeof after);
  Complain("%s: text and read-only data of %llu objects, %llu kB, copied",
           program_invocation_short_name, static_cast<unsigned long long>(copies.objects),
           static_cast<unsigned long long>(copies.copied_bytes / kKiB));
  if (!copies.before.is_known || !copies.after.is_known) {
    Complain("  where it was and is, move_pages does not tell");
    return;
  }
  Complain("  in memory before: %s", before);
  Complain("  after: %s", after);
}

__attribute__((constructor)) void Start() {
  RecordStandardError();
  ReadOptions();
  const bool tells = g_options.tell_local_text == static_cast<uint64_t>(getpid());
  static TextCopies copies;
  platform::CopyText(tells, &copies);
  if (tells) Tell(copies);
  if (copies.refused_call != nullptr) {
    Complain("local text: that of %s stays where it is: %s: %s", copies.refused_object,
             copies.refused_call, strerrordesc_np(copies.refused_error));
  }
}

}  // namespace
}  // namespace gleaner::runtime
