/* A loadable object with many thread-local variables. */
static __thread char bytes[64 << 20];

char *tls_bytes(void) { return bytes; }
