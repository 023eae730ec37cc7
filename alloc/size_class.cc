#include "alloc/size_class.h"

namespace gleaner::alloc {

constinit internal::ClassTable internal::g_class_table = internal::MakeClassTable();

void WidenSizeClasses() {
  internal::ClassTable& table = internal::g_class_table;
  for (size_t granules = 0; granules + 1 < table.size(); ++granules) {
    table[granules] = table[granules + 1];
  }
}

}  // namespace gleaner::alloc
