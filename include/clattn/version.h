/* version.h: the version of the header an application was compiled with; clattn_version() tells the
 * library's. */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0
#define CLATTN_VERSION_STRING "0.1.0"

#endif
