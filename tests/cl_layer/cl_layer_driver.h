// cl_layer_driver.h: the layer as another driver. CLATTN_LAYER_DRIVER names a text file
// (tests/cl_layer/drivers) with these lines:
//   answer WORD VALUE ...   the device or its platform reports this; limits that it names hold
//   fault WORD ...          a fault of the driver
//   run NAME ...            programs that check_drivers.sh runs on it
//   # a comment, also behind a line
// cl_layer_driver.c lists the words. An unknown one ends the process with the file's name and line.
// The number of times that each line occurred is appended to the file that CLATTN_LAYER_PLAYED
// names, as "LINE COUNT". If the program exceeds a limit that the driver named, the call fails and
// so does the process.
#ifndef CLATTN_TESTS_CL_LAYER_DRIVER_H
#define CLATTN_TESTS_CL_LAYER_DRIVER_H

#include <stdbool.h>
#include <stddef.h>

struct _cl_icd_dispatch;
struct _cl_kernel;
struct _cl_program;
struct _cl_device_id;

// Read the file, once, before anything else.
void layer_driver_begin(void);

// Returns whether the driver file answers this query of a device, a platform, or a compiled kernel.
// Then the answer is set.
bool layer_driver_answer(bool of_platform, unsigned what, const void **bytes, size_t *count);
void layer_driver_kernel_answer(unsigned what, void *to);
// The type to request from the real driver; 0: the driver has no device of this type.
unsigned long long layer_driver_type(unsigned long long type);

// The code of a failing call, or 0.
int layer_driver_context(void);
int layer_driver_build(const struct _cl_icd_dispatch *next, struct _cl_program *program);
int layer_driver_kernel(const struct _cl_icd_dispatch *next, struct _cl_program *program);
int layer_driver_binary(void);
int layer_driver_buffer(size_t bytes);
// The kernel's argument as it arrives. It is valid until the thread's next call.
const void *layer_driver_argument(size_t size, const void *value);
// Replace `offset` by the driver's offset, in `made`.
int layer_driver_launch(const struct _cl_icd_dispatch *next, struct _cl_kernel *kernel, unsigned dims,
                        const size_t **offset, const size_t *local, size_t made[3]);

// A text to insert before a program's, which makes its conversions flush; "" if they do not.
const char *layer_driver_text(void);

#endif
