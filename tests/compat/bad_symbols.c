/* A library that breaks every rule of check_symbols.py. */
void *GC_malloc = 0;
int GC_gc_no = 0;
__attribute__((visibility("protected"))) unsigned long GC_size(void) { return 0; }
void helper(void) {}
