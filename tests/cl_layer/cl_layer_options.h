// cl_layer_options.h: what a program is built with in place of what was asked for.
#ifndef CLATTN_TESTS_CL_LAYER_OPTIONS_H
#define CLATTN_TESTS_CL_LAYER_OPTIONS_H

struct _cl_icd_dispatch;
struct _cl_program;

// Once, before any program.
void layer_options_begin(void);
// The options in place of these, to be freed; NULL: these.
char *layer_options(const struct _cl_icd_dispatch *next, struct _cl_program *program, const char *options);

#endif
