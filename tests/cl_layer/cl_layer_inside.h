// cl_layer_inside.h: what the files of the layer know of one another. The wrappers are
// cl_layer.c's.
#ifndef CLATTN_TESTS_CL_LAYER_INSIDE_H
#define CLATTN_TESTS_CL_LAYER_INSIDE_H

#include "cl_layer/cl_layer.h"

#include <stdbool.h>

// cl_layer_objects.c. `call` is the entry point, for a message.
void layer_object_created(enum layer_kind kind, const void *object, const char *call);
// One that exists and is of so many bytes.
void layer_object_sized(enum layer_kind kind, const void *object, size_t bytes);
void layer_object_watch(void);
// Both false, and noted, where there is no such object.
bool layer_object_retained(enum layer_kind kind, const void *object, const char *call);
bool layer_object_released(enum layer_kind kind, const void *object, const char *call);
bool layer_object_is_live(enum layer_kind kind, const void *object);
// False, and noted, for a command on what was released; true for NULL.
bool layer_object_used(enum layer_kind kind, const void *object, const char *call);
void layer_object_counts(struct layer_counts *counts);
// Tell on stderr what was counted; a program that would have succeeded fails when anything is left.
void layer_object_report_at_exit(void);

// cl_layer_faults.c: the code that this call must fail with, LAYER_FAILED_EVENT only where
// `command`; else 0.
int layer_fault(const char *call, bool command);
void layer_fault_arm(int nth, int code);
struct layer_armed layer_fault_disarm(void);
const char *layer_fault_call(int nth);

// cl_layer_extensions.c: what a driver gave by this name, or the layer's own function before it.
void *layer_extension(void *found, const char *name);

#endif
