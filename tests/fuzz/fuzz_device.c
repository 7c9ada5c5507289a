/* fuzz_device.c: see fuzz_device.h. */
#define _GNU_SOURCE
#include "fuzz/fuzz_device.h"
#include "verification/device/choose_device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { BUFFER_BYTES = 32768 };

cl_mem fuzz_buffers[BUFFERS];
static size_t buffer_bytes[BUFFERS];
clattn_context *fuzz_context;
static cl_command_queue queue, foreign_queue;

/* Create a buffer with a protected page before and after it. */
static cl_mem make_buffer(cl_context of, cl_mem_flags flags, size_t bytes) {
    const size_t page = 4096, room = (bytes + page - 1) / page * page;
    cl_int code = CL_SUCCESS;
    unsigned char *memory = mmap(NULL, room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(memory != MAP_FAILED && mprotect(memory + page, room, PROT_READ | PROT_WRITE) == 0);
    memset(memory + page, 0x3c, room); /* a small finite number in every type */
    const cl_mem buffer =
        clCreateBuffer(of, flags | CL_MEM_USE_HOST_PTR, bytes, memory + page + room - bytes, &code);
    FUZZ_CHECK(buffer && code == CL_SUCCESS);
    return buffer;
}

static void make_buffers(cl_context own, cl_context foreign) {
    for (int i = 0; i < BUFFERS; i++) {
        const cl_mem_flags flags = i == READ_ONLY    ? CL_MEM_READ_ONLY
                                   : i == WRITE_ONLY ? CL_MEM_WRITE_ONLY
                                                     : CL_MEM_READ_WRITE;
        buffer_bytes[i] = i == TINY ? 64 : BUFFER_BYTES;
        fuzz_buffers[i] = make_buffer(i == FOREIGN ? foreign : own, flags, buffer_bytes[i]);
    }
}

/* These rows avoid measuring CLBlast, which would need minutes. */
static const char rows[] = "linear_few_lanes cpu=1 nq=..40 :\nlinear_lanes cpu=1 :\n";

void fuzz_device_open(void) {
    clattn_device devices[16];
    size_t count = 0;
    cl_int code = CL_SUCCESS;
    FUZZ_CHECK(clattn_device_list(devices, 16, &count, NULL) == CLATTN_OK);
    const char *wanted = getenv("CLATTN_TEST_DEVICE");
    const clattn_device *device =
        choose_device(devices, count < 16 ? count : 16, wanted && *wanted ? wanted : "cpu", NULL);
    FUZZ_CHECK(device);
    const clattn_context_params params = {
        .device = device->device, .cache_dir = getenv("FUZZ_CACHE"), .tuned_rows = rows};
    FUZZ_CHECK(clattn_context_create(&params, &fuzz_context) == CLATTN_OK);
    const cl_context own = clattn_context_opencl(fuzz_context),
                     foreign = clCreateContext(NULL, 1, &device->device, NULL, NULL, &code);
    queue = clCreateCommandQueue(own, device->device, 0, &code);
    foreign_queue = clCreateCommandQueue(foreign, device->device, 0, &code);
    FUZZ_CHECK(queue && foreign_queue);
    make_buffers(own, foreign);
}

static size_t bytes_of(cl_mem buffer) {
    for (int i = 0; i < BUFFERS; i++)
        if (fuzz_buffers[i] == buffer) return i == FOREIGN ? 0 : buffer_bytes[i];
    return 0;
}

bool fuzz_fits(const clattn_tensor *t) {
    __int128 last = t->offset;
    if (t->rank == 0 && !t->buffer) return true;
    if (t->rank < 0 || t->rank > CLATTN_MAX_RANK) return false;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) return true;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] < 0 || t->stride[i] < 0) return false;
        last += (__int128)(t->shape[i] - 1) * t->stride[i];
    }
    return t->offset >= 0 &&
           (last + 1) * (__int128)clattn_type_size(t->type) <= (__int128)bytes_of(t->buffer);
}

cl_mem fuzz_handle(fuzz_bytes *b) {
    const int chosen = fuzz_below(b, BUFFERS + 1);
    return chosen < BUFFERS ? fuzz_buffers[chosen] : NULL;
}

/* Mark each element's bytes with `mark`. Returns true if one had the mark `found`. A repeated axis
 * counts once. Views with more elements than the buffer has bytes are skipped. */
static bool walk(const clattn_tensor *t, uint8_t marks[BUFFER_BYTES], uint8_t mark, uint8_t found) {
    const size_t size = clattn_type_size(t->type);
    int64_t count[CLATTN_MAX_RANK] = {1, 1, 1, 1}, total = 1, at[CLATTN_MAX_RANK] = {0};
    for (int i = 0; i < t->rank; i++) {
        count[i] = t->stride[i] ? t->shape[i] : 1;
        if (count[i] > BUFFER_BYTES / total) return false;
        total *= count[i];
    }
    bool any = false;
    for (int64_t n = 0; n < total; n++) {
        int64_t element = t->offset;
        for (int i = 0; i < t->rank; i++) element += at[i] * t->stride[i];
        for (size_t byte = 0; byte < size; byte++) {
            uint8_t *to = &marks[(size_t)element * size + byte];
            any = any || *to == found;
            *to = mark;
        }
        for (int i = t->rank - 1; i >= 0 && ++at[i] == count[i]; i--) at[i] = 0;
    }
    return any;
}

static bool is_empty(const clattn_tensor *t) {
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) return true;
    return !t->buffer;
}

void fuzz_check_apart(const clattn_tensor *written, const clattn_tensor *other) {
    static uint8_t marks[BUFFER_BYTES];
    if (written->buffer != other->buffer || is_empty(written) || is_empty(other)) return;
    memset(marks, 0, sizeof marks);
    (void)walk(written, marks, 1, 2);
    FUZZ_CHECK(!walk(other, marks, 2, 1));
}

void fuzz_check_access(const clattn_tensor *t, bool is_read, bool is_written) {
    if (is_empty(t)) return;
    FUZZ_CHECK(t->buffer != fuzz_buffers[FOREIGN]);
    FUZZ_CHECK(!is_read || t->buffer != fuzz_buffers[WRITE_ONLY]);
    FUZZ_CHECK(!is_written || t->buffer != fuzz_buffers[READ_ONLY]);
}

void fuzz_write_buffer(cl_mem buffer, const void *bytes, size_t count) {
    if (count > bytes_of(buffer)) return;
    FUZZ_CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, count, bytes, 0, NULL, NULL) == CL_SUCCESS);
}

bool fuzz_answered(clattn_status status, bool built_of_text) {
    char text[1024] = "";
    if (status == CLATTN_OK) return true;
    if (status == CLATTN_BUILD_FAILED && built_of_text) {
        FUZZ_CHECK(clattn_context_last_error(fuzz_context, text, sizeof text) > 0);
        return false;
    }
    FUZZ_CHECK(status == CLATTN_INVALID_ARGUMENT || status == CLATTN_UNSUPPORTED ||
               status == CLATTN_OUT_OF_MEMORY);
    FUZZ_CHECK(clattn_context_last_error(fuzz_context, text, sizeof text) > 0);
    fuzz_check_error(false, text);
    return false;
}

/* FUZZ_KERNELS: number of kernels that may be compiled at once. */
static uint64_t first_kernels(void) {
    const char *text = getenv("FUZZ_KERNELS");
    return text ? strtoull(text, NULL, 10) : 8;
}

/* Compiling is slow, so only now and then a new kernel is allowed. */
bool fuzz_kernel_may_run(const void *signature, size_t bytes) {
    enum { MOST = 4096 };
    static uint64_t known[MOST], calls;
    static int count;
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ ((const uint8_t *)signature)[i]) * 1099511628211u;
    calls++;
    for (int i = 0; i < count; i++)
        if (known[i] == hash) return true;
    if (count >= MOST || (uint64_t)count > first_kernels() + calls / 1000) return false;
    known[count++] = hash;
    return true;
}

void fuzz_launch_choose(fuzz_launch *at, fuzz_bytes *b) {
    static const cl_event none[1] = {NULL};
    const int chosen = fuzz_below(b, 16);
    *at = (fuzz_launch){.queue = queue, .to = chosen & 1 ? &at->event : NULL, .wrong = chosen >= 12};
    if (chosen == 12) at->queue = NULL;
    if (chosen == 13) at->queue = foreign_queue;
    if (chosen == 14) at->wait_count = 1;
    if (chosen == 15) at->wait_count = 1, at->wait_list = none;
}

/* The context is never destroyed, because at the end of the process the driver's compiler may
 * already be gone. */
static void save_kernels(void) {
    static uint64_t saved;
    clattn_context_stats stats;
    clattn_context_get_stats(fuzz_context, &stats);
    if (stats.programs_built > saved) clattn_context_save_kernels(fuzz_context);
    saved = stats.programs_built;
}

bool fuzz_finish(const fuzz_launch *at, clattn_status status, bool right, bool built_of_text) {
    const bool done = fuzz_answered(status, built_of_text);
    FUZZ_CHECK(right || !done);
    FUZZ_CHECK(done || !at->event);
    if (done) FUZZ_CHECK(clFinish(queue) == CL_SUCCESS);
    if (done) save_kernels();
    if (at->event) FUZZ_CHECK(clReleaseEvent(at->event) == CL_SUCCESS);
    return done;
}
