// test_embedding.c: the library loaded by hand and unloaded, twice; two copies of it in one
// process; before and after a fork. The program is not linked with the library. POSIX only.
//
// Environment:
//   CLATTN_TEST_LIBRARY     the shared library
//   CLATTN_TEST_CACHE       folder of compiled kernels; unset: none are stored
//   CLATTN_TEST_CLBLAST     CLBlast's module, which is not beside a copy of the library
//   CLATTN_TEST_NO_CLBLAST  1: the library was built without CLBlast
#define _GNU_SOURCE
#include "support/run_suite.h"

#include <check.h>
#include <clattn/clattn.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { B = 1, H = 2, N = 5, D = 4, M = H * D, COUNT = B * H * N * D, SKIPPED = 77 };

// The functions of one copy that are used here.
struct library {
    void *handle;
    int (*version_number)(void);
    const char *(*status_name)(clattn_status);
    clattn_status (*device_list)(clattn_device *, size_t, size_t *, const clattn_log *);
    clattn_status (*create)(const clattn_context_params *, clattn_context **);
    void (*destroy)(clattn_context *);
    cl_context (*opencl)(const clattn_context *);
    clattn_tensor (*dense)(cl_mem, clattn_type, int, const int64_t *);
    clattn_status (*attention)(clattn_context *, cl_command_queue, const clattn_attention_params *, cl_uint,
                               const cl_event *, cl_event *);
    clattn_status (*linear)(clattn_context *, cl_command_queue, const clattn_linear_params *, cl_uint,
                            const cl_event *, cl_event *);
};

static bool library_open(struct library *l, const char *path) {
    *l = (struct library){.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (!l->handle) return false;
    *(void **)&l->version_number = dlsym(l->handle, "clattn_version_number");
    *(void **)&l->status_name = dlsym(l->handle, "clattn_status_name");
    *(void **)&l->device_list = dlsym(l->handle, "clattn_device_list");
    *(void **)&l->create = dlsym(l->handle, "clattn_context_create");
    *(void **)&l->destroy = dlsym(l->handle, "clattn_context_destroy");
    *(void **)&l->opencl = dlsym(l->handle, "clattn_context_opencl");
    *(void **)&l->dense = dlsym(l->handle, "clattn_tensor_dense");
    *(void **)&l->attention = dlsym(l->handle, "clattn_attention_enqueue");
    *(void **)&l->linear = dlsym(l->handle, "clattn_linear_enqueue");
    return l->attention && l->linear && l->version_number && l->version_number() == CLATTN_VERSION_NUMBER;
}

static const char *library_path(void) {
    return getenv("CLATTN_TEST_LIBRARY");
}

// A context of one copy, with its buffers.
struct guest {
    const struct library *l;
    clattn_context *context;
    cl_command_queue queue;
    cl_mem x, y;
    float values[COUNT];
};

static bool guest_open(struct guest *g, const struct library *l) {
    clattn_device device;
    size_t count = 0;
    cl_int code = CL_SUCCESS, queue_code = CL_SUCCESS;
    *g = (struct guest){.l = l};
    if (l->device_list(&device, 1, &count, NULL) != CLATTN_OK) return false;
    const clattn_context_params params = {.device = device.device,
                                          .cache_dir = getenv("CLATTN_TEST_CACHE"),
                                          .clblast_path = getenv("CLATTN_TEST_CLBLAST")};
    if (l->create(&params, &g->context) != CLATTN_OK) return false;
    for (int i = 0; i < COUNT; i++) g->values[i] = (float)(i % 7) / 4 - 1;
    g->queue = clCreateCommandQueue(l->opencl(g->context), device.device, 0, &queue_code);
    g->x = clCreateBuffer(l->opencl(g->context), CL_MEM_COPY_HOST_PTR, sizeof g->values, g->values, &code);
    g->y = clCreateBuffer(l->opencl(g->context), CL_MEM_READ_WRITE, sizeof g->values, NULL, NULL);
    return code == CL_SUCCESS && queue_code == CL_SUCCESS && g->y;
}

static void guest_close(struct guest *g) {
    if (g->x) clReleaseMemObject(g->x);
    if (g->y) clReleaseMemObject(g->y);
    if (g->queue) clReleaseCommandQueue(g->queue);
    g->l->destroy(g->context);
}

static bool result_is(const struct guest *g, const double *want, int count) {
    float got[COUNT];
    bool same = clEnqueueReadBuffer(g->queue, g->y, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL) == CL_SUCCESS;
    for (int i = 0; same && i < count; i++) same = fabs((double)got[i] - want[i]) < 1e-5;
    return same;
}

// softmax(x x^T / sqrt(D)) x, head by head.
static bool attends(const struct guest *g) {
    const int64_t shape[] = {B, H, N, D};
    clattn_attention_params p = {.q = g->l->dense(g->x, CLATTN_TYPE_F32, 4, shape)};
    double want[COUNT] = {0};
    p.kv.k = p.kv.v = p.q;
    p.out = g->l->dense(g->y, CLATTN_TYPE_F32, 4, shape);
    for (int row = 0; row < H * N; row++) {
        const float *head = g->values + row / N * N * D, *q = g->values + row * D;
        double weight[N], sum = 0;
        for (int j = 0; j < N; j++) {
            double dot = 0;
            for (int d = 0; d < D; d++) dot += (double)q[d] * (double)head[j * D + d];
            sum += weight[j] = exp(dot / sqrt(D));
        }
        for (int j = 0; j < N; j++)
            for (int d = 0; d < D; d++) want[row * D + d] += weight[j] / sum * (double)head[j * D + d];
    }
    return g->l->attention(g->context, g->queue, &p, 0, NULL, NULL) == CLATTN_OK && result_is(g, want, COUNT);
}

// Multiply the first M values, as a row, by all values, as a matrix.
static bool projects(const struct guest *g, clattn_projection projection) {
    const int64_t row[] = {1, 1, M}, matrix[] = {COUNT / M, M};
    clattn_linear_params p = {.x = g->l->dense(g->x, CLATTN_TYPE_F32, 3, row), .projection = projection};
    double want[COUNT] = {0};
    const char *without = getenv("CLATTN_TEST_NO_CLBLAST");
    if (projection == CLATTN_PROJECTION_CLBLAST && without && *without == '1') return true;
    p.w = g->l->dense(g->x, CLATTN_TYPE_F32, 2, matrix);
    p.out = g->l->dense(g->y, CLATTN_TYPE_F32, 3, (const int64_t[]){1, 1, matrix[0]});
    for (int m = 0; m < matrix[0]; m++)
        for (int k = 0; k < M; k++) want[m] += (double)g->values[k] * (double)g->values[m * M + k];
    return g->l->linear(g->context, g->queue, &p, 0, NULL, NULL) == CLATTN_OK &&
           result_is(g, want, (int)matrix[0]);
}

static bool works(const struct guest *g) {
    return attends(g) && projects(g, CLATTN_PROJECTION_NATIVE);
}

// Everything, from creating a context to destroying it.
static bool whole_life(const struct library *l) {
    struct guest g;
    const bool good = guest_open(&g, l) && works(&g);
    guest_close(&g);
    return good;
}

static bool is_loaded(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle != NULL;
}

// The process has not used OpenCL before, so a child can use it like its parent.
START_TEST(children_before_the_first_context) {
    struct library l;
    struct guest g;
    ck_assert(library_open(&l, library_path()));
    ck_assert_str_eq(l.status_name(CLATTN_OK), "OK");
    for (int n = 0; n < 2; n++) {
        int status = -1;
        const pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) _exit(guest_open(&g, &l) && works(&g) ? 0 : 1);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child %d: status %x", n,
                      (unsigned)status);
    }
    ck_assert(whole_life(&l));
    dlclose(l.handle);
}
END_TEST

// A child of a process with a context calls nothing that needs OpenCL, and does no harm by ending.
START_TEST(children_beside_a_context) {
    struct library l;
    struct guest g;
    int status = -1;
    ck_assert(library_open(&l, library_path()));
    ck_assert(guest_open(&g, &l) && works(&g));
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const int64_t shape[] = {2, 3};
        const clattn_tensor t = l.dense(NULL, CLATTN_TYPE_F32, 2, shape);
        _exit(t.stride[0] == 3 && strcmp(l.status_name(CLATTN_DRIVER), "DRIVER") == 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
    ck_assert(works(&g));
    guest_close(&g);
    dlclose(l.handle);
}
END_TEST

START_TEST(loaded_and_unloaded) {
    for (int n = 0; n < 2; n++) {
        struct library l;
        ck_assert(!is_loaded(library_path()));
        ck_assert(library_open(&l, library_path()));
        ck_assert(whole_life(&l));
        ck_assert_int_eq(dlclose(l.handle), 0);
    }
    ck_assert(!is_loaded(library_path())); // no part of it keeps the library loaded
}
END_TEST

static void copy_library(char path[64]) {
    char bytes[65536];
    size_t count;
    FILE *from = fopen(library_path(), "rb");
    const int to = mkstemp(path);
    ck_assert(from && to >= 0);
    while ((count = fread(bytes, 1, sizeof bytes, from)) > 0)
        ck_assert_int_eq(write(to, bytes, count), (ssize_t)count);
    fclose(from);
    close(to);
}

// Two copies, as in two plug-ins that each have their own. Each counts its own contexts; they share
// CLBlast.
START_TEST(two_copies) {
    struct library l[2];
    struct guest g[2];
    char path[64] = "/tmp/clattn-copy-XXXXXX";
    copy_library(path);
    ck_assert(library_open(&l[0], library_path()) && library_open(&l[1], path));
    ck_assert(l[0].create != l[1].create);
    for (int n = 0; n < 2; n++) ck_assert(guest_open(&g[n], &l[n]));
    for (int n = 0; n < 4; n++) ck_assert(works(&g[n % 2]));
    for (int n = 0; n < 2; n++) ck_assert(projects(&g[n], CLATTN_PROJECTION_CLBLAST));
    guest_close(&g[0]); // and clears CLBlast's cache for both
    ck_assert_int_eq(dlclose(l[0].handle), 0);
    ck_assert(works(&g[1]) && projects(&g[1], CLATTN_PROJECTION_CLBLAST));
    guest_close(&g[1]);
    ck_assert_int_eq(dlclose(l[1].handle), 0);
    unlink(path);
}
END_TEST

// A child looks for devices, because this process must not use OpenCL before its first test.
static bool has_device(void) {
    int status = -1;
    const pid_t child = fork();
    if (child == 0) {
        cl_platform_id platform;
        cl_device_id device;
        _exit(clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
              clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void) {
    const TTest *const tests[] = {children_before_the_first_context, children_beside_a_context,
                                  loaded_and_unloaded, two_copies};
    if (!has_device()) {
        printf("skipped: no OpenCL device\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("embedding");
    TCase *group = tcase_create("embedding");
    tcase_set_timeout(group, 0);
    for (int n = 0; n < 4; n++) tcase_add_test(group, tests[n]);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_NOFORK);
}
