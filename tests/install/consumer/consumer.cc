// A C++ program on an installed Gleaner: gc_cpp.h, libgccpp and cords.
#include <gc/cord.h>
#include <gc/gc_allocator.h>
#include <gc_cpp.h>
#include <stdio.h>

#include <vector>

int main() {
  GC_INIT();
  std::vector<int *, traceable_allocator<int *> > kept;
  for (int i = 0; i < 1000; i++) kept.push_back(new (PointerFreeGC) int(i));
  GC_gcollect();
  for (int i = 0; i < 1000; i++) {
    if (*kept[i] != i) return 1;
  }
  int *plain = new int(3);
  if (!GC_base(plain)) return 2;
  delete plain;
  CORD text = CORD_cat("consumer: ", CORD_cat_char("o", 'k'));
  puts(CORD_to_const_char_star(text));
  return CORD_len(text) == 12 ? 0 : 3;
}
