// cl_layer_options.h: changes the build options of a program.
#ifndef CLATTN_TESTS_CL_LAYER_OPTIONS_H
#define CLATTN_TESTS_CL_LAYER_OPTIONS_H

struct _cl_icd_dispatch;
struct _cl_program;

// Reads the environment: once, before anything else.
void layer_options_begin(void);
// Returns build options that replace `options`, to be freed by the caller; NULL: no change.
char *layer_options(const struct _cl_icd_dispatch *next, struct _cl_program *program, const char *options);

// With CLATTN_LAYER_BINARIES set, a PoCL that returns binaries calls itself "pocl 2", as versions
// before 3.0 do. clattn reads binaries from those, and knows their assembly
// (src/lib/device/driver_quirks.c).
void layer_options_version(char *version);

// With CLATTN_LAYER_COPIES set, a buffer over host memory (CL_MEM_USE_HOST_PTR) is a copy of it,
// even if the device reports shared memory. Later writes by the host or the device stay invisible
// to the other one.
unsigned long layer_options_flags(unsigned long flags);

// With CLATTN_LAYER_SLOW set, the first build and the first launch need two seconds each, like
// those of a large kernel.
typedef enum layer_slow { LAYER_SLOW_BUILD, LAYER_SLOW_LAUNCH } layer_slow;
void layer_options_wait(layer_slow first);

#endif
