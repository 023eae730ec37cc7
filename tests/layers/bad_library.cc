// Breaks every rule of check_library.py, to show that it notices.
#include <string>

std::string exported_with_a_constructor(100, 'x');

extern "C" {
__attribute__((visibility("protected"))) int GC_protected_data = 1;
}
