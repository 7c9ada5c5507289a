/* opencl.h: where the library finds OpenCL. Included by clattn.h, which tells the rules.
 *
 * The library is linked with no OpenCL (unless it was built with -Dopencl=link): an application starts where there is none, and
 * is told UNSUPPORTED. The functions are looked up once, when the library is first asked for devices or a context, in this order:
 *   1. those that the application gives (clattn_opencl_load), or the library that it names; nowhere else then
 *   2. those that the process has already: the application's own, or of what it is linked with
 *   3. the loader by its names: libOpenCL.so.1, libOpenCL.so; OpenCL.dll; macOS's framework; Android's folders of vendors
 * What was found stays, for the whole process and until it ends, and is never unloaded; where nothing was found the next call
 * looks again. All functions of OpenCL 1.2 that the library calls must be in one place. */
#ifndef CLATTN_OPENCL_H
#define CLATTN_OPENCL_H

#include "runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Any function: cast it to the type of the one that was asked for. */
typedef void (*clattn_function)(void);

/* Where OpenCL is to be found: by the application's own function, or in a library. */
typedef struct clattn_opencl_params {
    /* The application's own functions by name, such as "clCreateBuffer"; NULL for one that it has not. It is called
     * during clattn_opencl_load, and by clattn_opencl_function later, from any thread. NULL: `path`. */
    clattn_function (*find)(void *user, const char *name);
    void *user;
    const char
        *path; /* a library to load: a path, or a name that the system looks for; read during the call */
    clattn_log log;
} clattn_opencl_params;

/* Find OpenCL now, and where the application says: call it before anything else that needs a device. An application that
 * has no wishes need not call it. params may be NULL.
 * Threads   any; of several that say where, one is heard.
 * Blocking  loads a library, and the loader may load drivers.
 * Returns   INVALID_ARGUMENT  find and path, or one of them after OpenCL was found
 *           UNSUPPORTED       it is not there, or lacks a function: the line names what was looked for; or the library is
 *                             linked with OpenCL and takes no other */
CLATTN_API clattn_status clattn_opencl_load(const clattn_opencl_params *params);

/* A function of the OpenCL that the library calls, such as "clCreateBuffer", for an application that is not linked with one
 * itself; it is found first where that was not done. NULL: there is no OpenCL, or it has none of that name.
 * Lifetime: the process's.   Threads: any.   Blocking: as clattn_opencl_load. */
CLATTN_API clattn_function clattn_opencl_function(const char *name);

#ifdef __cplusplus
}
#endif
#endif
