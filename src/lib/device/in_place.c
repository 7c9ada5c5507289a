// in_place.c: clattn_context_in_place: does a device compute in host memory? The driver's answer is
// only a hint. Copies between two pieces of host memory decide.
#include "device/context.h"

#include <string.h>

#include "base/host.h"

#define PAGE ((uintptr_t)4096)
#define LEAST_BYTES 64 // size of a probed piece; some drivers pad sizes to this
enum { UNKNOWN, COPIES, WORKS };

typedef struct piece {
    unsigned char *bytes;
    cl_mem buffer;
} piece;

// The host writes into one piece without mapping it, and the device copies this piece to the other
// one. This is done twice, because the driver may keep a copy after the first use.
static bool copies_arrive(cl_command_queue queue, const piece of[2], size_t count) {
    for (int number = 1; number <= 2; number++) {
        memset(of[0].bytes, number, count);
        if (clEnqueueCopyBuffer(queue, of[0].buffer, of[1].buffer, 0, 0, count, 0, NULL, NULL) != CL_SUCCESS)
            return false;
        if (clFinish(queue) != CL_SUCCESS) return false;
        for (size_t i = 0; i < count; i++)
            if (((volatile unsigned char *)of[1].bytes)[i] != number) return false;
    }
    return true;
}

// `at`: the alignment of both pieces, a page at most.
static bool probe(clattn_context *c, size_t at, size_t count) {
    unsigned char *memory = cla_host_take_zeroed(&c->host, 5, PAGE);
    cl_command_queue queue = memory ? clCreateCommandQueue(c->opencl, c->device, 0, NULL) : NULL;
    piece of[2] = {{.bytes = NULL}};
    bool works = queue != NULL;
    for (int n = 0; n < 2 && works; n++) {
        of[n].bytes = memory + ((at - (uintptr_t)memory) & (PAGE - 1)) + (size_t)n * 2 * PAGE;
        of[n].buffer =
            clCreateBuffer(c->opencl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, count, of[n].bytes, NULL);
        works = of[n].buffer != NULL;
    }
    works = works && copies_arrive(queue, of, count);
    for (int n = 0; n < 2; n++)
        if (of[n].buffer) clReleaseMemObject(of[n].buffer);
    if (queue) clReleaseCommandQueue(queue);
    cla_host_release(&c->host, memory);
    return works;
}

static int place_of(uintptr_t bits, int most) {
    int place = 0;
    while (place < most && !(bits >> place & 1)) place++;
    return place;
}

clattn_status clattn_context_in_place(clattn_context *context, const void *address, size_t bytes,
                                      bool *in_place) {
    if (in_place) *in_place = false;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!in_place) return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "in_place: is NULL");
    TRY(cla_context_check(context));
    const clattn_capabilities *of = &context->capabilities;
    const int at = place_of((uintptr_t)address, IN_PLACE_ALIGNMENTS - 1),
              end = place_of((uintptr_t)bytes, IN_PLACE_SIZES - 1);
    // Devices other than CPUs must share the host's memory, and need memory that begins at a page.
    if (!address || !(of->is_cpu || (of->unified_memory && at == IN_PLACE_ALIGNMENTS - 1))) return CLATTN_OK;
    atomic_uchar *known = &context->in_place[at][end];
    int found = atomic_load_explicit(known, memory_order_relaxed);
    if (found == UNKNOWN) {
        const size_t count = LEAST_BYTES + (((size_t)1 << end) & (LEAST_BYTES - 1));
        found = probe(context, (size_t)1 << at, count) ? WORKS : COPIES;
        atomic_store(known, (unsigned char)found);
        if (found == COPIES)
            cla_log_send(&context->log, CLATTN_LOG_INFO,
                         "memory: the device does not work in host memory of alignment %d: it is copied",
                         1 << at);
    }
    *in_place = found == WORKS;
    return CLATTN_OK;
}
