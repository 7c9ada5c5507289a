/* version.h: the version of the header an application is compiled with.
 * clattn_version() returns the library's version. */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 2
#define CLATTN_VERSION_PATCH 0
#define CLATTN_VERSION_STRING "0.2.0"

/* One number that grows with the version, for #if: 2000 is 0.2.0. */
#define CLATTN_VERSION_NUMBER                                                                                \
    (CLATTN_VERSION_MAJOR * 1000000 + CLATTN_VERSION_MINOR * 1000 + CLATTN_VERSION_PATCH)

#endif
