// guarded.h: tensors in buffers with guard zones: NaN around inputs, a byte pattern around outputs,
// and NaN in outputs until they are written.
#ifndef CLATTN_VERIFICATION_DEVICE_GUARDED_H
#define CLATTN_VERIFICATION_DEVICE_GUARDED_H

#include <clattn/clattn.h>

// The place where cases run: a context, a queue, and the handling of failed OpenCL calls. The
// program fills it from its session, and the tests from their harness.
struct place {
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue; // its queue has profiling enabled if times are measured
    int64_t guard;          // elements after every view
    // The state of the random layouts (LAYOUT_SCATTERED). A case starts with its seed.
    uint64_t drawn;
    bool recorded; // cases are recorded and replayed (record.h), except those that CLBlast projects
    bool bare;     // keep no copy of a buffer's contents; intactness is then not checked
    // Allocates memory for the buffers of cases; NULL: the driver allocates.
    void *(*memory)(size_t bytes);
    void (*release_memory)(void *memory);
    // Copies between the host and memory that is used by address (clattn_tensor.svm or usm). NULL:
    // the memory becomes a buffer.
    cl_int (*copy)(void *to, const void *from, size_t bytes);
    bool usm;
    // NULL: the error is kept in `error`, and later steps are skipped
    void (*broken)(const char *what, cl_int code);
    char error[256]; // message of the first failed call; "" if none failed
};

// Guard zones are wide enough for a whole extra tile of rows, so that a tile too many does not
// reach another buffer.
#define PLACE_GUARD 4096

void place_broken(struct place *place, const char *what, cl_int code);

// The library's error message of a failed call, or the status in words.
const char *place_message(const struct place *place, clattn_status status, char text[256]);

// The layout of axes in the buffer. BSHD applies to tensors of rank 4 only; other tensors are
// DENSE.
enum layout {
    LAYOUT_DENSE = 0, // row-major from element 0
    LAYOUT_BSHD,      // [B, N, H, D] in memory
    LAYOUT_PADDED,    // odd offset, and every stride a little too large and odd: nothing is aligned
    LAYOUT_SPACED,    // offset and row stride with a gap of 16 elements: aligned, not dense
    // Each tensor has random axis order, gaps and offset. bool and i32 also have a random last
    // stride.
    LAYOUT_SCATTERED,
    LAYOUT_COUNT,
    LAYOUT_LOOSE // scattered, with a random last stride
};
// The layout of a tensor whose last stride may be any (tensor.h).
static inline enum layout layout_loose(enum layout of_call) {
    return of_call == LAYOUT_SCATTERED ? LAYOUT_LOOSE : of_call;
}

struct guarded {
    clattn_tensor view;
    struct place *place;
    size_t bytes; // bytes of the buffer
    // From place->memory: the buffer's memory, or used by address instead of a buffer.
    void *memory;
    uint8_t *image; // the buffer's contents when it was created; NULL in a bare place
};

// A tensor to create: type, rank, sizes and layout. Rank 0: none.
struct guarded_shape {
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    enum layout layout;
};

// Larger tensors repeat a table of this period, the largest prime below 2^20: rows differ, and the
// host needs no copy of the tensor. A table is longer than its period by one row, so that every row
// is contiguous.
#define GUARDED_PERIOD 1048573
#define GUARDED_PERIOD_OF(type)                                                                              \
    (GUARDED_PERIOD / clattn_type_numbers(type) * clattn_type_numbers(type)) // whole blocks

// `values` are dense and row-major, and are rounded to the type.
struct guarded guarded_input(struct place *place, const struct guarded_shape *shape, const double *values);
struct guarded guarded_output(struct place *place, const struct guarded_shape *shape);
// A tensor that the library reads and writes (merge): values inside, the byte pattern around.
struct guarded guarded_in_out(struct place *place, const struct guarded_shape *shape, const double *values);
// A view with any strides and offset, in a new buffer. `values` NULL: unwritten contents. Around
// and between its elements is NaN, or with `written` the byte pattern.
struct guarded guarded_view(struct place *place, const clattn_tensor *view, const double *values,
                            bool written);

// Read the view into dense values; unwritten elements become STORAGE_UNTOUCHED. False: something
// around the view changed.
bool guarded_read(const struct guarded *tensor, cl_command_queue queue, double *values);
// Read `count` elements from dense index `first` on, all in one row of the last axis.
void guarded_read_row(const struct guarded *tensor, cl_command_queue queue, int64_t first, int64_t count,
                      double *values);

// True if no byte of the buffer changed, in the view or around it.
bool guarded_intact(const struct guarded *tensor, cl_command_queue queue);

// The raw bytes of the buffer, which the caller frees. NULL: the device failed.
uint8_t *guarded_bytes(const struct guarded *tensor, cl_command_queue queue);

// True if a view has a buffer or an address.
static inline bool guarded_given(const clattn_tensor *view) {
    return view->buffer || view->svm || view->usm;
}
int64_t guarded_count(const clattn_tensor *view);
// count of numbers in the elements of a view, which may be blocks
int64_t guarded_numbers(const clattn_tensor *view);
int64_t guarded_shape_count(const struct guarded_shape *shape);
// Count of numbers in the elements of a shape, which may be blocks.
int64_t guarded_shape_numbers(const struct guarded_shape *shape);
void guarded_release(struct guarded *tensor);

#endif
