// Linked into the library's own shared objects only: all data in an object with this symbol is the
// library's.
namespace gleaner::platform {

extern const bool g_is_own_object;
const bool g_is_own_object = true;

}  // namespace gleaner::platform
