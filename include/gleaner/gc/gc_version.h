/* Which libgc the headers stand in for. GC_get_version() answers for the library in use. */
#ifndef GLEANER_GC_VERSION_H
#define GLEANER_GC_VERSION_H

#define GC_VERSION_MAJOR 8
#define GC_VERSION_MINOR 2
#define GC_VERSION_MICRO 2

#endif
