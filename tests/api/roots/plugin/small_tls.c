/* A loadable object with few thread-local variables. */
static __thread char bytes[64];

char *tls_bytes(void) { return bytes; }
