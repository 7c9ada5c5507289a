// cl_layer_driver.h: the layer as another driver. CLATTN_LAYER_DRIVER names a text file
// (tests/cl_layer/drivers), whose lines are
//   answer WORD VALUE ...   what the device, or its platform, says of itself; limits that it names hold
//   fault WORD ...          what it does wrong
//   run NAME ...            for check_drivers.sh, which runs programs on it
//   # a comment, also behind a line
// cl_layer_driver.c lists the words. An unknown one ends the process with the file's name and line.
// How often each line was played is appended to the file that CLATTN_LAYER_PLAYED names, as "LINE
// COUNT". Where the program goes past a limit that the driver named, the call fails and so does the
// process.
#ifndef CLATTN_TESTS_CL_LAYER_DRIVER_H
#define CLATTN_TESTS_CL_LAYER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

struct _cl_icd_dispatch;
struct _cl_kernel;
struct _cl_program;
struct _cl_device_id;

// Reads the file, once, before anything else.
void layer_driver_begin(void);

// Whether the driver answers this question of a device, of a platform, or of a compiled kernel,
// which then has the answer.
bool layer_driver_answer(bool of_platform, unsigned what, const void **bytes, size_t *count);
void layer_driver_kernel_answer(unsigned what, void *to);
// The type that the real driver is asked for; 0: the driver has no device of this one.
unsigned long layer_driver_type(unsigned long type);

// The code of a call that fails, or 0.
int layer_driver_context(void);
int layer_driver_build(const struct _cl_icd_dispatch *next, struct _cl_program *program);
int layer_driver_binary(void);
int layer_driver_buffer(size_t bytes);
// `offset` becomes what the driver makes of it, in `made`.
int layer_driver_launch(const struct _cl_icd_dispatch *next, struct _cl_kernel *kernel, unsigned dims,
                        const size_t **offset, const size_t *local, size_t made[3]);

// A text in front of a program's, which makes its conversions flush; "" where they do not.
const char *layer_driver_text(void);

#endif
