// cl_layer_options.h: what a program is built with in place of what was asked for.
#ifndef CLATTN_TESTS_CL_LAYER_OPTIONS_H
#define CLATTN_TESTS_CL_LAYER_OPTIONS_H

struct _cl_icd_dispatch;
struct _cl_program;

// Reads the environment: once, before anything else.
void layer_options_begin(void);
// The options in place of these, to be freed; NULL: these.
char *layer_options(const struct _cl_icd_dispatch *next, struct _cl_program *program, const char *options);

// With CLATTN_LAYER_BINARIES set, the text of a platform's version loses the name of a PoCL that hands out binaries: clattn asks
// other platforms for them (src/device/defects.c).
void layer_options_version(char *version);

// With CLATTN_LAYER_SLOW set, the first build and the first launch take two seconds each, as those of a large kernel do.
typedef enum layer_slow { LAYER_SLOW_BUILD, LAYER_SLOW_LAUNCH } layer_slow;
void layer_options_wait(layer_slow first);

#endif
