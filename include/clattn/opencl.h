/* opencl.h: where the library finds OpenCL. Included by clattn.h (rules, contracts).
 *
 * The library is not linked with OpenCL, except when built with -Dopencl=link: without OpenCL an
 * application starts, and calls return UNSUPPORTED. The first request for devices or a context
 * looks up OpenCL's functions, in this order:
 *    1. the application's own functions or library (clattn_opencl_load), and nowhere else
 *    2. functions that the process already has, in the application or its libraries
 *    3. the loader: libOpenCL.so.1, libOpenCL.so; OpenCL.dll; macOS's framework; Android's vendor
 *       folders
 *
 * One place must have all OpenCL 1.2 functions that the library calls. A result holds for the life
 * of the process. If nothing was found, the next call searches again. */
#ifndef CLATTN_OPENCL_H
#define CLATTN_OPENCL_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Any function: cast it to its own type. */
typedef void (*clattn_function)(void);

/* The place of OpenCL: the application's own function, or a library. */
typedef struct clattn_opencl_params {
    /* Returns the application's function of a name, such as "clCreateBuffer", or NULL. Called
     * during clattn_opencl_load and clattn_opencl_function, on any thread. NULL: use `path`. */
    clattn_function (*find)(void *user, const char *name);
    void *user;
    /* a library: a path, or a name that the system searches; read during the call */
    const char *path;
    clattn_log log;
} clattn_opencl_params;

/* Find OpenCL now, where the application says. Call it before any other function that needs a
 * device; it is optional. params may be NULL.
 *    Threads   any; if several threads name a place, one wins
 *    Blocking  loads a library, which may load drivers
 *    Returns   INVALID_ARGUMENT  find and path are both set, or one of them after OpenCL was found
 *              UNSUPPORTED       OpenCL or one of its functions is missing, and the line names what
 *                                was searched; or the library is linked with OpenCL */
CLATTN_API clattn_status clattn_opencl_load(const clattn_opencl_params *params);

/* Return a function of the library's OpenCL, such as "clCreateBuffer", which is found first if
 * needed. NULL: no OpenCL, or no such function.
 *    Lifetime: the process.   Threads: any.   Blocking: as clattn_opencl_load. */
CLATTN_API clattn_function clattn_opencl_function(const char *name);

#ifdef __cplusplus
}
#endif
#endif
