/* Rule 5: GC_get_version is 8.2.2, before and after the start, and so says the header. */
#include "check.h"

int main(void) {
  CHECK_EQ(GC_get_version(), 0x080202);
  CHECK_EQ(GC_is_init_called(), 0);
  GC_INIT();
  CHECK_EQ(GC_get_version(), 0x080202);
  CHECK_EQ((GC_VERSION_MAJOR << 16) | (GC_VERSION_MINOR << 8) | GC_VERSION_MICRO, GC_get_version());
  return check_result();
}
