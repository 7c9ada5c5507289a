// guarded.h: a tensor in a buffer with guard zones: NaN around what the library reads, a byte pattern around
// what it writes, NaN in place of results that are still to come. Leaves out what the values mean (case.h).
#ifndef CLATTN_EVIDENCE_DEVICE_GUARDED_H
#define CLATTN_EVIDENCE_DEVICE_GUARDED_H

#include <clattn/clattn.h>

// Where a case runs: a context, a queue, and what becomes of an OpenCL call of the evidence's own that fails. Filled by the tool
// from its session and by the tests from their harness.
struct place {
    clattn_context *context;
    cl_context opencl;
    cl_device_id device;
    cl_command_queue queue; // with profiling, where times are taken
    int64_t guard;          // elements behind every view
    uint64_t
        drawn; // of tensors that are scattered (LAYOUT_SCATTERED): where the next one lies; a case begins with its seed
    bool recorded; // cases are recorded, and replayed (record.h), but for those that CLBlast projects
    bool bare;     // keep no copy of what a buffer held: nothing tells whether it is intact
    // Memory for the buffers of cases where the caller wants it to lie; NULL: the driver's own.
    void *(*memory)(size_t bytes);
    void (*release_memory)(void *memory);
    // Where that memory is no host's but an address for a view (clattn_tensor.svm, or usm): how its bytes are copied from and to
    // the host. NULL: it becomes a buffer.
    cl_int (*copy)(void *to, const void *from, size_t bytes);
    bool usm;
    void (*broken)(const char *what, cl_int code); // NULL: the line is kept, the rest is skipped
    char error[256];                               // of the first call that failed, else ""
};

// Guard zones wide enough that a whole tile of rows too many lands in one and not in somebody else's memory.
#define PLACE_GUARD 4096

void place_broken(struct place *place, const char *what, cl_int code);

// The library's line for a call that failed, or the status in words.
const char *place_message(const struct place *place, clattn_status status, char text[256]);

// How the axes lie in the buffer. A tensor that is not of rank 4 treats BSHD as DENSE.
enum layout {
    LAYOUT_DENSE = 0, // row-major from element 0
    LAYOUT_BSHD,      // [B, N, H, D] in memory
    LAYOUT_PADDED,    // odd offset, every stride a little too large and odd: nothing is aligned
    LAYOUT_SPACED,    // offset and row stride with a gap of 16 elements: aligned, not dense
    LAYOUT_SCATTERED, // each tensor its own: order of axes, gaps and offset drawn (struct place); of bool and i32 the last stride, too
    LAYOUT_COUNT,
    LAYOUT_LOOSE // scattered, the last stride, too
};
// The layout of a tensor whose last stride may be any (tensor.h).
static inline enum layout layout_loose(enum layout of_call) {
    return of_call == LAYOUT_SCATTERED ? LAYOUT_LOOSE : of_call;
}

struct guarded {
    clattn_tensor view;
    struct place *place;
    size_t bytes;   // of the buffer
    void *memory;   // the place's, where it has some: the buffer's, or in place of one
    uint8_t *image; // what the buffer held when it was made; NULL in a bare place
};

// The tensor that a buffer is for: type, rank, sizes and the way they lie. Rank 0: none.
struct guarded_shape {
    clattn_type type;
    int rank;
    int64_t shape[CLATTN_MAX_RANK];
    enum layout layout;
};

// Values of more elements than this repeat with this period, the largest prime below 2^20: rows differ, and the
// host needs no copy of a large tensor. A table goes on past its period for one row, so that every row is
// contiguous.
#define GUARDED_PERIOD 1048573
#define GUARDED_PERIOD_OF(type)                                                                              \
    (GUARDED_PERIOD / clattn_type_numbers(type) * clattn_type_numbers(type)) // whole blocks

// values: dense, row-major; rounded to the type when stored.
struct guarded guarded_input(struct place *place, const struct guarded_shape *shape, const double *values);
struct guarded guarded_output(struct place *place, const struct guarded_shape *shape);
// A tensor that the library reads and writes (merge): values inside, the byte pattern around.
struct guarded guarded_in_out(struct place *place, const struct guarded_shape *shape, const double *values);
// A view of any strides and offset, whose buffer is made here: values inside, or with NULL what nobody wrote; around and between its
// elements NaN, or the byte pattern where it is written.
struct guarded guarded_view(struct place *place, const clattn_tensor *view, const double *values,
                            bool written);

// Read the view into dense values (STORAGE_UNTOUCHED where nobody wrote). False when anything around it
// changed.
bool guarded_read(const struct guarded *tensor, cl_command_queue queue, double *values);
// `count` elements from dense index `first` on, inside one row of the last axis.
void guarded_read_row(const struct guarded *tensor, cl_command_queue queue, int64_t first, int64_t count,
                      double *values);

// True when not one byte of the buffer, view and surroundings, changed.
bool guarded_intact(const struct guarded *tensor, cl_command_queue queue);

// The raw bytes of the buffer; the caller frees them. NULL: the device failed.
uint8_t *guarded_bytes(const struct guarded *tensor, cl_command_queue queue);

// Whether a view has a buffer or an address.
static inline bool guarded_given(const clattn_tensor *view) {
    return view->buffer || view->svm || view->usm;
}
int64_t guarded_count(const clattn_tensor *view);
int64_t guarded_numbers(const clattn_tensor *view); // in its elements, which may be blocks
int64_t guarded_shape_count(const struct guarded_shape *shape);
// Numbers in its elements, which may be blocks.
int64_t guarded_shape_numbers(const struct guarded_shape *shape);
void guarded_release(struct guarded *tensor);

#endif
