// promises.c: see promises.h.
#include "program/promises.h"

#include <math.h>
#include <string.h>

#include "args/promises.h"
#include "base/host.h"
#include "program/binary.h"

#define ASKED 0x80000000u

static const size_t grid_offset[3] = {4, 3, 5}, grid_size[3] = {4, 2, 2}, group_size[3] = {2, 1, 1};

// Prepended to programs that convert float16 or float8 numbers: common.clh's conversions by integer
// operations.
const char cla_promises_halves[] =
    "#define HALF_PASTE_(a, b) a##b\n"
    "#define HALF_PASTE(a, b) HALF_PASTE_(a, b)\n"
    "#define DEFINE_HALVES(n) "
    "float##n half_to_float##n(ushort##n bits) { "
    "const uint##n u = convert_uint##n(bits), size = u & 0x7fffu, up = size << 13; "
    "const uint##n small = as_uint##n(convert_float##n(size) * 0x1p-24f); "
    "const uint##n large = size >= 0x7c00u ? up + 0x70000000u : up + 0x38000000u; "
    "return as_float##n((size < 0x400u ? small : large) | (u & 0x8000u) << 16); "
    "} "
    "ushort##n float_to_half##n(float##n x) { "
    "const uint##n u = as_uint##n(x), size = u & 0x7fffffffu, down = size - 0x38000000u; "
    "const uint##n rounded = (down + 0xfffu + (down >> 13 & 1u)) >> 13; "
    "const uint##n small = convert_uint##n##_rte(fmin(as_float##n(size), 1.0f) * 0x1p24f); "
    "const uint##n finite = size < 0x38800000u ? small : rounded; "
    "const uint##n most = size > 0x7f800000u ? (uint##n)(0x7e00u) : (uint##n)(0x7c00u); "
    "return convert_ushort##n((size >= 0x477ff000u ? most : finite) | (u >> 16 & 0x8000u)); "
    "}\n"
    "DEFINE_HALVES()\n"
    "DEFINE_HALVES(4)\n"
    "DEFINE_HALVES(8)\n"
    "DEFINE_HALVES(16)\n"
    "#define LOAD_HALF(p, i) half_to_float(((__global const ushort *)(p))[i])\n"
    "#define HALVES(n, bits) HALF_PASTE(half_to_float, n)(HALF_PASTE(as_ushort, n)(bits))\n"
    "#define ONE_HALF(bits) half_to_float(*(__global const ushort *)(bits))\n"
    "#define STORE_HALF(x, i, p) (((__global ushort *)(p))[i] = float_to_half(x))\n"
    "#define STORE_HALVES(n, x, p) HALF_PASTE(vstore, n)(HALF_PASTE(float_to_half, n)(x), 0, (__global "
    "ushort *)(p))\n"
    "#define HALF_BITS(x, bits) (*(bits) = float_to_half(x))\n"
    "#line 1\n";

bool cla_promises_matter(const knobs *k) {
    const int types[] = {k->type_q,       k->type_kv,       k->type_out,   k->type_bias,
                         k->type_weights, k->type_gradient, k->type_scale, k->type_v == 3 ? 0 : k->type_v};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i] == CLATTN_TYPE_F16 || (types[i] >= CLATTN_TYPE_F8E4M3 && types[i] <= CLATTN_TYPE_Q4_1))
            return true;
    return false;
}

// The first 256 inputs serve as float8 codes, too.
static promise_half half_at(int i) {
    return (promise_half)(i < PROMISE_NUMBERS / 2 ? i : 0x8000 | (i - PROMISE_NUMBERS / 2));
}

static bool is_number(uint32_t bits, float want) {
    float got;
    memcpy(&got, &bits, sizeof got);
    return isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
}

// Decode a number of `mantissa` bits after an exponent with bias `bias`.
static float number(int code, int mantissa, int bias) {
    const int exponent = code >> mantissa, fraction = code & ((1 << mantissa) - 1);
    return exponent ? ldexpf((float)(fraction + (1 << mantissa)), exponent - bias - mantissa)
                    : ldexpf((float)fraction, 1 - bias - mantissa);
}
static float signed_number(int code, int sign, float size) {
    return code & sign ? -size : size;
}

static bool converts_halves(const promise_results *r) {
    for (int i = 0; i < PROMISE_NUMBERS; i++) {
        const int half = half_at(i);
        const float want = signed_number(half, 0x8000, number(half & 0x7fff, 10, 15));
        if (!is_number(r->halves[i], want) || r->back[i] != half) return false;
    }
    for (int code = 0; code < 256; code++) {
        const int size_of = code & 0x7f;
        const float e4m3 = size_of == 0x7f ? NAN : number(size_of, 3, 7);
        const float e5m2 = size_of > 0x7c ? NAN : size_of == 0x7c ? INFINITY : number(size_of, 2, 15);
        if (!is_number(r->e4m3[code], signed_number(code, 0x80, e4m3)) ||
            !is_number(r->e5m2[code], signed_number(code, 0x80, e5m2)))
            return false;
    }
    return true;
}

static bool places_right(const promise_results *r) {
    for (size_t i = 0; i < PROMISE_ITEMS; i++) {
        const size_t x = grid_offset[0] + i % 4, y = grid_offset[1] + i / 4 % 2, z = grid_offset[2] + i / 8;
        if (r->places[i] != (x | y << 8 | z << 16 | (grid_offset[0] + grid_offset[1] + grid_offset[2]) << 24))
            return false;
    }
    return true;
}

typedef struct asking {
    cl_kernel kernel;
    cl_command_queue queue;
    cl_mem in, out;
    promise_results *sent, *got; // expected and actual results
} asking;

static bool build(const clattn_context *c, asking *a) {
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_PROBE_PROMISES];
    const char *text = (const char *)source->text;
    cl_program built = clCreateProgramWithSource(c->opencl, 1, &text, &source->bytes, NULL);
    if (built && cla_binary_build(c, built, PROGRAM_OPTIONS " -w") == CL_SUCCESS)
        a->kernel = clCreateKernel(built, source->name, NULL);
    if (built) clReleaseProgram(built); // the kernel retains the program
    return a->kernel;
}

static bool open_asking(const clattn_context *c, asking *a) {
    promise_half halves[PROMISE_NUMBERS];
    cl_int last = 0x12345678;
    for (int i = 0; i < PROMISE_NUMBERS; i++) halves[i] = half_at(i);
    a->sent = cla_host_take_zeroed(&c->host, 2, sizeof *a->sent);
    if (!a->sent || !build(c, a)) return false;
    a->got = a->sent + 1;
    for (size_t i = 0; i < sizeof a->sent->large; i++)
        ((unsigned char *)&a->sent->large)[i] = (unsigned char)(i * 7 + 1);
    a->sent->small = (dropout_args){{1, 2}, 3, 4.0f}, a->sent->last = (args_u32)last;
    a->queue = clCreateCommandQueue(c->opencl, c->device, 0, NULL);
    a->in = clCreateBuffer(c->opencl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof halves, halves, NULL);
    a->out =
        clCreateBuffer(c->opencl, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof *a->got, a->got, NULL);
    return a->queue && a->in && a->out && clSetKernelArg(a->kernel, 0, sizeof a->in, &a->in) == CL_SUCCESS &&
           clSetKernelArg(a->kernel, 1, sizeof a->out, &a->out) == CL_SUCCESS &&
           clSetKernelArg(a->kernel, 2, sizeof a->sent->large, &a->sent->large) == CL_SUCCESS &&
           clSetKernelArg(a->kernel, 3, sizeof a->sent->small, &a->sent->small) == CL_SUCCESS &&
           clSetKernelArg(a->kernel, 4, sizeof last, &last) == CL_SUCCESS;
}

static void close_asking(const clattn_context *c, asking *a) {
    if (a->in) clReleaseMemObject(a->in);
    if (a->out) clReleaseMemObject(a->out);
    if (a->queue) clReleaseCommandQueue(a->queue);
    if (a->kernel) clReleaseKernel(a->kernel);
    cla_host_release(&c->host, a->sent);
}

static bool run(const asking *a, const size_t *at) {
    return clEnqueueNDRangeKernel(a->queue, a->kernel, 3, at, grid_size, group_size, 0, NULL, NULL) ==
               CL_SUCCESS &&
           clEnqueueReadBuffer(a->queue, a->out, CL_TRUE, 0, sizeof *a->got, a->got, 0, NULL, NULL) ==
               CL_SUCCESS;
}

// Run the probe kernel. Returns false if it could not run. A driver that rejects a global offset
// breaks PROMISE_OFFSETS.
static bool ask(const clattn_context *c, unsigned *broken) {
    asking a = {0};
    bool answered = open_asking(c, &a), at_offset = answered && run(&a, grid_offset);
    *broken = 0;
    if (answered && !at_offset) answered = run(&a, NULL);
    if (answered) {
        const promise_results *r = a.got;
        if (!at_offset || !places_right(r)) *broken |= PROMISE_OFFSETS;
        if (!converts_halves(r)) *broken |= PROMISE_HALVES;
        if (memcmp(&r->large, &a.sent->large, sizeof r->large) || r->last != a.sent->last ||
            memcmp(&r->small, &a.sent->small, sizeof r->small))
            *broken |= PROMISE_STRUCTS;
    }
    close_asking(c, &a);
    return answered;
}

static void key_of(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    static const char what[] = "broken promises";
    const struct kernel_source *source = &clattn_kernel_sources[KERNEL_PROBE_PROMISES];
    sha256_state h;
    cla_sha256_begin(&h);
    cla_sha256_add(&h, source->text, source->bytes);
    cla_sha256_add(&h, what, sizeof what);
    cla_identity_add(&h, &c->capabilities, c->cpu_model, CLATTN_VERSION_STRING);
    cla_sha256_end(&h, key);
}

static bool load(const clattn_context *c, const uint8_t key[CACHE_KEY_BYTES], unsigned *broken) {
    unsigned char *kept = NULL;
    size_t count = 0;
    if (c->measure_again || !cla_cache_load(c->cache, key, &kept, &count)) return false;
    const bool whole = count == 1;
    if (whole) *broken = *kept;
    cla_host_release(&c->host, kept);
    return whole;
}

static void tell(const clattn_context *c, unsigned broken) {
    static const char *const words[] = {
        "it does not count global offsets once: slices of a launch pass theirs as an argument",
        "it converts subnormal float16 numbers wrong: kernels convert them by integer operations",
        "it passes structs of 528 bytes wrong: no kernel runs"};
    for (int i = 0; i < 3; i++)
        if (broken >> i & 1u) cla_log_send(&c->log, CLATTN_LOG_INFO, "driver: %s", words[i]);
}

unsigned cla_promises_broken(clattn_context *c) {
    unsigned broken = atomic_load(&c->promises);
    uint8_t key[CACHE_KEY_BYTES];
    if (c->capabilities.driver_known) return 0; // the test suites ran on this driver
    if (broken & ASKED) return broken & ~ASKED;
    key_of(c, key);
    if (!load(c, key, &broken) && ask(c, &broken)) {
        const unsigned char kept = (unsigned char)broken;
        cla_cache_store(c->cache, key, &kept, 1);
    }
    if (!(atomic_exchange(&c->promises, broken | ASKED) & ASKED)) tell(c, broken);
    return broken;
}
