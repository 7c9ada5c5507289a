// cl_layer_inside.h: declarations that the layer's files share. The wrappers are in cl_layer.c.
#ifndef CLATTN_TESTS_CL_LAYER_INSIDE_H
#define CLATTN_TESTS_CL_LAYER_INSIDE_H

#include "cl_layer/cl_layer.h"

#include <stdbool.h>

// cl_layer_objects.c. `call` is the entry point, for a message.
void layer_object_created(enum layer_kind kind, const void *object, const char *call);
// An existing object has this many bytes.
void layer_object_sized(enum layer_kind kind, const void *object, size_t bytes);
void layer_object_watch(void);
// They return false, and note a misuse, if there is no such object.
bool layer_object_retained(enum layer_kind kind, const void *object, const char *call);
bool layer_object_released(enum layer_kind kind, const void *object, const char *call);
bool layer_object_is_live(enum layer_kind kind, const void *object);
// False, with a note, for a command on a released object; true for NULL.
bool layer_object_used(enum layer_kind kind, const void *object, const char *call);
void layer_object_counts(struct layer_counts *counts);
// Print the counts on stderr. A program that would have succeeded fails if anything is left.
void layer_object_report_at_exit(void);

// cl_layer_faults.c: the code with which this call must fail, LAYER_FAILED_EVENT only with
// `command`; else 0.
int layer_fault(const char *call, bool command);
void layer_fault_arm(int nth, int code);
struct layer_armed layer_fault_disarm(void);
const char *layer_fault_call(int nth);

// cl_layer_extensions.c: the driver's function of this name, or the layer's wrapper for it.
void *layer_extension(void *found, const char *name);

#endif
