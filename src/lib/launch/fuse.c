// fuse.c: clattn_recording_fuse: replaces neighbouring launches of a recording by one launch of
// fused_launches.cl.
#include "launch/recording.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "args/step.h"
#include "base/host.h"

#define MOST_KERNELS 48
// A launch with more operations takes about 1 ms or longer. The gap before it hardly matters.
#define MOST_FLOPS 1e8
#define CALL_BYTES 2048
#define LINE_BYTES (CALL_BYTES + 128)

// The distinct kernels of all launches that may be fused, the texts that call them, and the program
// that contains them.
typedef struct fusing {
    clattn_recording *r;
    linked_kernel kernels[MOST_KERNELS];
    int count;
    char *calls; // CALL_BYTES for each kernel
    program *step;
} fusing;

static bool has_names(const launch *l) {
    for (int i = 0; i < l->count; i++)
        if (l->args[i].pointer || (!l->args[i].buffer && l->args[i].value && !l->args[i].type)) return false;
    return true;
}

// True if fused_launches.cl can run the launch. Its work-items must not wait for others of their
// group. Its arguments must be buffers or named structs. Its program must not contain the caller's
// text, which may be gone.
static bool is_fusable(const recorded *x) {
    const launch *l = &x->l;
    const double parts = (double)x->size[0] * (double)x->size[1] * (double)x->size[2];
    const bool alone = l->local[0] * l->local[1] * l->local[2] == 1;
    return l->program && (alone || l->apart) && !x->offset[0] && !x->offset[1] && !x->offset[2] &&
           parts < INT_MAX / 64 && l->flops <= MOST_FLOPS && !l->program->spec.inserted && has_names(l);
}

static int kernel_of(const fusing *f, const launch *l) {
    int n = 0;
    while (n < f->count && f->kernels[n].of != l->program) n++;
    return n;
}

// Write the function through which fused_launches.cl calls the kernel (linked.c). False: the text
// does not fit.
static bool write_call(const launch *l, int n, char *to) {
    const char *name = clattn_kernel_sources[l->program->spec.id].name;
    int at = snprintf(to, CALL_BYTES,
                      "\n#undef %s\n#pragma clang attribute pop\n#pragma clang attribute pop\nvoid "
                      "step_kernel_%d(STEP_PARAMETERS) { "
                      "%s(place_in_step",
                      name, n, name);
    for (int i = 0; i < l->count && at < CALL_BYTES; i++) {
        const char *type = l->args[i].type;
        at += type ? snprintf(to + at, (size_t)(CALL_BYTES - at),
                              ", *(__global const %s *)(step_values + step_words[%d])", type, i)
                   : snprintf(to + at, (size_t)(CALL_BYTES - at), ", step_buffers[step_words[%d]]", i);
    }
    if (at < CALL_BYTES) at += snprintf(to + at, (size_t)(CALL_BYTES - at), "); }\n");
    return at < CALL_BYTES;
}

static bool add_kernel(fusing *f, const launch *l) {
    const int n = kernel_of(f, l);
    if (n < f->count) return true;
    if (n == MOST_KERNELS || !write_call(l, n, f->calls + (size_t)n * CALL_BYTES)) return false;
    f->kernels[f->count++] = (linked_kernel){l->program, f->calls + (size_t)n * CALL_BYTES};
    return true;
}

// Comments that make the program's cache key unique: for each kernel its own key, which covers its
// source and knobs, and its call.
static void write_program(const fusing *f, char *text) {
    for (int n = 0; n < f->count; n++) {
        const char *call = strstr(f->kernels[n].call, "void ");
        text += sprintf(text, "// ");
        for (size_t i = 0; i < sizeof f->kernels[n].of->key; i++)
            text += sprintf(text, "%02x", (unsigned)f->kernels[n].of->key[i]);
        text += sprintf(text, " %s", call);
    }
    text += sprintf(text, "#define STEP_KERNELS(KERNEL)");
    for (int n = 0; n < f->count; n++) text += sprintf(text, " KERNEL(%d)", n);
    sprintf(text, "\n");
}

// The fused program needs about as much build time as its kernels did together.
static bool takes_too_long(const fusing *f) {
    const uint64_t limit = f->r->context->compile_limit_ns;
    uint64_t time_ns = 0;
    for (int n = 0; n < f->count; n++) time_ns += f->kernels[n].of->build_ns;
    return limit > 0 && time_ns > limit;
}

static clattn_status build_step(fusing *f) {
    clattn_context *c = f->r->context;
    char *text = cla_host_take_zeroed(&c->host, (size_t)f->count + 1, LINE_BYTES);
    if (!text) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    write_program(f, text);
    const program_spec spec = {
        .id = KERNEL_FUSED_LAUNCHES, .inserted = text, .linked = f->kernels, .linked_count = f->count};
    const clattn_status status = cla_program_get_spec(c, &spec, &f->step);
    cla_host_release(&c->host, text);
    return status;
}

// Neighbouring launches that become one, and the sizes of what fused_launches.cl reads.
typedef struct fused {
    recorded *first;
    int launches, buffer_count;
    cl_mem buffers[STEP_BUFFERS];
    size_t groups; // largest number in one launch
    size_t parts;  // groups of all launches
    size_t argument_words, value_bytes;
} fused;

#define VALUE_ALIGNMENT 16
static size_t aligned(size_t bytes) {
    return (bytes + VALUE_ALIGNMENT - 1) / VALUE_ALIGNMENT * VALUE_ALIGNMENT;
}

static int place_of(const fused *w, cl_mem buffer) {
    int n = 0;
    while (n < w->buffer_count && w->buffers[n] != buffer) n++;
    return n;
}

// The kernel counts parts and bytes of values in 32 bits.
static bool counts_fit(const fused *w, size_t parts, size_t bytes) {
    return w->parts + parts <= INT_MAX && w->value_bytes + bytes <= INT_MAX / 2 &&
           w->argument_words + LAUNCH_MAX_ARGS <= INT_MAX / 16;
}

// Add a launch. Returns false if its buffers, parts or bytes exceed the limits; then only buffers
// past buffer_count change.
static bool take_launch(fused *w, const recorded *x) {
    const int before = w->buffer_count;
    const size_t parts = x->size[0] * x->size[1] * x->size[2];
    size_t bytes = 0;
    for (int i = 0; i < x->l.count; i++)
        if (x->l.args[i].type) bytes += aligned(x->l.args[i].bytes);
    if (!counts_fit(w, parts, bytes)) return false;
    for (int i = 0; i < x->l.count; i++) {
        const cl_mem buffer = x->l.args[i].buffer;
        if (!buffer || place_of(w, buffer) < w->buffer_count) continue;
        if (w->buffer_count == STEP_BUFFERS) {
            w->buffer_count = before;
            return false;
        }
        w->buffers[w->buffer_count++] = buffer;
    }
    if (parts > w->groups) w->groups = parts;
    w->parts += parts, w->value_bytes += bytes;
    w->argument_words += (size_t)x->l.count;
    w->launches++;
    return true;
}

static fused gather(recorded *first) {
    fused w = {.first = first};
    for (const recorded *x = first; x && is_fusable(x) && take_launch(&w, x);) x = x->next;
    return w;
}

static size_t values_at(const fused *w) {
    return aligned(sizeof(step_shared) + (size_t)w->launches * sizeof(step_launch) +
                   w->argument_words * sizeof(args_i32));
}

static void write_words(const fusing *f, const fused *w, unsigned char *to) {
    step_launch *launches = (step_launch *)(to + sizeof(step_shared));
    args_i32 *words = (args_i32 *)to;
    size_t word = (sizeof(step_shared) + (size_t)w->launches * sizeof(step_launch)) / sizeof *words;
    size_t value = values_at(w);
    const recorded *x = w->first;
    int end = 0;
    ((step_shared *)to)->launches = w->launches;
    for (int n = 0; n < w->launches; n++, x = x->next) {
        step_launch *l = &launches[n];
        end += (int)(x->size[0] * x->size[1] * x->size[2]);
        l->which = kernel_of(f, &x->l), l->end = end, l->arguments = (int)word;
        for (int i = 0; i < 3; i++) l->size[i] = (int)x->size[i];
        for (int i = 0; i < x->l.count; i++) {
            const launch_argument *a = &x->l.args[i];
            if (!a->type) {
                words[word++] = a->buffer ? place_of(w, a->buffer) : STEP_BUFFERS;
                continue;
            }
            words[word++] = (args_i32)value;
            memcpy(to + value, a->value, a->bytes);
            value += aligned(a->bytes);
        }
    }
}

static cl_int set_arguments(const fused *w, cl_kernel kernel, cl_mem shared) {
    for (int i = 0; i < STEP_BUFFERS; i++) {
        const cl_int code =
            clSetKernelArg(kernel, (cl_uint)i, sizeof(cl_mem), i < w->buffer_count ? &w->buffers[i] : NULL);
        if (code != CL_SUCCESS) return code;
    }
    return clSetKernelArg(kernel, STEP_BUFFERS, sizeof shared, &shared);
}

static clattn_status make_shared(const fusing *f, const fused *w, cl_mem *shared) {
    clattn_context *c = f->r->context;
    const size_t bytes = values_at(w) + w->value_bytes;
    unsigned char *words = cla_host_take_zeroed(&c->host, 1, bytes);
    if (!words) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    write_words(f, w, words);
    const clattn_status status = cla_recording_take(f->r, bytes, words, shared);
    cla_host_release(&c->host, words);
    return status;
}

// Make the launch that replaces the gathered ones. The replaced launches keep the buffers retained.
static clattn_status make_launch(const fusing *f, const fused *w, recorded **result) {
    clattn_context *c = f->r->context;
    const size_t cores = c->capabilities.compute_units > 0 ? c->capabilities.compute_units : 1;
    cl_mem shared;
    cl_kernel kernel;
    TRY(make_shared(f, w, &shared));
    TRY(cla_program_take_kernel(c, f->step, &kernel));
    recorded *x = cla_host_take_zeroed(&c->host, 1, sizeof *x);
    const cl_int code = x ? set_arguments(w, kernel, shared) : CL_OUT_OF_HOST_MEMORY;
    if (code != CL_SUCCESS) {
        clReleaseKernel(kernel);
        cla_host_release(&c->host, x);
        return cla_context_fail_opencl(c, code, "clSetKernelArg");
    }
    x->kernel = kernel;
    x->size[0] = w->groups < cores ? w->groups : cores, x->size[1] = x->size[2] = 1;
    for (int i = 0; i < 3; i++) x->l.local[i] = 1;
    *result = x;
    return CLATTN_OK;
}

static clattn_status fuse_at(const fusing *f, recorded **at) {
    clattn_recording *r = f->r;
    const fused w = gather(*at);
    recorded *made = NULL, *last = w.first;
    if (w.launches < 2) return CLATTN_OK;
    TRY(make_launch(f, &w, &made));
    for (int n = 1; n < w.launches; n++) last = last->next;
    made->next = last->next;
    *at = made;
    last->next = r->fused;
    r->fused = w.first;
    r->launches -= (size_t)w.launches - 1;
    return CLATTN_OK;
}

static clattn_status fuse(fusing *f) {
    clattn_context *c = f->r->context;
    const size_t before = f->r->launches;
    for (recorded *x = f->r->first; x; x = x->next)
        if (is_fusable(x) && !add_kernel(f, &x->l)) {
            cla_log_send(&c->log, CLATTN_LOG_INFO,
                         "recording: its launches stay apart: they have more than %d kernels, or one whose "
                         "arguments are too many",
                         MOST_KERNELS);
            return CLATTN_OK;
        }
    if (f->count == 0) return CLATTN_OK;
    if (takes_too_long(f)) {
        cla_log_send(
            &c->log, CLATTN_LOG_INFO,
            "recording: its launches stay apart: their kernels took longer than compile_limit_ms to build");
        return CLATTN_OK;
    }
    const clattn_status status = build_step(f);
    if (status == CLATTN_BUILD_FAILED)
        cla_log_send(&c->log, CLATTN_LOG_INFO,
                     "recording: its launches stay apart: the driver's compiler refused them as one");
    if (status != CLATTN_OK) return status == CLATTN_BUILD_FAILED ? CLATTN_OK : status;
    for (recorded **at = &f->r->first; *at; at = &(*at)->next) TRY(fuse_at(f, at));
    cla_log_send(&c->log, CLATTN_LOG_INFO, "recording: %zu launches became %zu, of %d kernels", before,
                 f->r->launches, f->count);
    return CLATTN_OK;
}

clattn_status clattn_recording_fuse(clattn_recording *r) {
    if (!r) return CLATTN_INVALID_ARGUMENT;
    clattn_context *c = r->context;
    fusing f = {.r = r};
    TRY(cla_context_check(c));
    if (atomic_load(&c->recording) == r)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "recording: is not ended: clattn_recording_end comes before");
    if (!c->capabilities.is_cpu) {
        cla_log_send(&c->log, CLATTN_LOG_INFO, "recording: its launches stay apart: the device is no CPU");
        return CLATTN_OK;
    }
    f.calls = cla_host_take_zeroed(&c->host, MOST_KERNELS, CALL_BYTES);
    if (!f.calls) return cla_context_fail(c, CLATTN_OUT_OF_MEMORY, "recording: no host memory");
    const clattn_status status = fuse(&f);
    cla_host_release(&c->host, f.calls);
    return status;
}
