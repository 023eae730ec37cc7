/* expect_modes CONCURRENT GENERATIONAL TRACKING: what the environment asks for comes out so on this
   kernel; 0 or 1, and the mechanism. */
#include <gc.h>
#include <gleaner.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  struct gleaner_modes modes;
  size_t i;
  if (argc != 4) return 2;
  GC_INIT();
  for (i = 0; i < 1000000; i++) {
    if (GC_MALLOC(64) == NULL) return 1;
  }
  gleaner_get_modes(&modes, sizeof modes);
  printf("concurrent %d, generational %d, writes tracked by %s%s%s\n", modes.concurrent,
         modes.generational, modes.tracking, modes.reason[0] != 0 ? "; " : "", modes.reason);
  return modes.concurrent != atoi(argv[1]) || modes.generational != atoi(argv[2]) ||
         strcmp(modes.tracking, argv[3]) != 0;
}
