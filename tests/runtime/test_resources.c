// test_resources.c: resources that an application passes to a context: its own device memory with a
// limit, its own store of compiled kernels, a folder that it cleans. Also the features of the
// build. The folder's own behaviour is in test_cache.c, kept buffers in test_pool.c.
#include "support/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { H = 2, N = 128, D = 16, COUNT = H * N * D, SCORES = H * N * N * 4 };

static float values[COUNT];

// Attention, unfused and without a workspace: it borrows at least SCORES bytes. The result is
// softmax(x x^T / sqrt(D)) x.
static clattn_status attend_by(clattn_context *c, clattn_kernel kernel, bool right) {
    static float got[COUNT];
    cl_context opencl = clattn_context_opencl(c);
    cl_int code;
    for (int i = 0; i < COUNT; i++) values[i] = (float)(i % 11) / 8 - 0.5f;
    cl_mem x = clCreateBuffer(opencl, CL_MEM_COPY_HOST_PTR, sizeof values, values, &code);
    harness_expect(code, "clCreateBuffer");
    cl_mem y = clCreateBuffer(opencl, CL_MEM_READ_WRITE, sizeof values, NULL, &code);
    harness_expect(code, "clCreateBuffer");
    const clattn_tensor in = clattn_tensor_bhsd(x, CLATTN_TYPE_F32, 1, H, N, D);
    const clattn_attention_params p = {.q = in,
                                       .kv = {.k = in, .v = in},
                                       .out = clattn_tensor_bhsd(y, CLATTN_TYPE_F32, 1, H, N, D),
                                       .kernel = kernel};
    harness_log_clear();
    const clattn_status status = clattn_attention_enqueue(c, harness()->queue, &p, 0, NULL, NULL);
    harness_expect(clEnqueueReadBuffer(harness()->queue, y, CL_TRUE, 0, sizeof got, got, 0, NULL, NULL),
                   "clEnqueueReadBuffer");
    for (int row = 0; right && status == CLATTN_OK && row < H * N; row += 37) {
        const float *head = values + row / N * N * D, *q = values + row * D;
        double sum = 0, want[D] = {0};
        for (int j = 0; j < N; j++) {
            double dot = 0;
            for (int d = 0; d < D; d++) dot += (double)q[d] * (double)head[j * D + d];
            const double weight = exp(dot / sqrt(D));
            sum += weight;
            for (int d = 0; d < D; d++) want[d] += weight * (double)head[j * D + d];
        }
        for (int d = 0; d < D; d++) ck_assert_double_eq_tol((double)got[row * D + d], want[d] / sum, 1e-5);
    }
    clReleaseMemObject(x), clReleaseMemObject(y);
    return status;
}

static clattn_status attend(clattn_context *c, bool right) {
    return attend_by(c, CLATTN_KERNEL_UNFUSED, right);
}

static clattn_context *open_with(clattn_memory memory, clattn_cache cache) {
    return harness_open((clattn_context_params){.context = harness()->opencl,
                                                .log = harness_log(),
                                                .memory = memory,
                                                .cache = cache,
                                                .cache_dir = getenv("CLATTN_TEST_CACHE")});
}

START_TEST(a_cap) {
    clattn_context *c = open_with((clattn_memory){.max_bytes = SCORES - 1}, (clattn_cache){0});
    ck_assert_int_eq(attend(c, false), CLATTN_OUT_OF_MEMORY);
    ck_assert_msg(strstr(harness_log_text(), "max_bytes") != NULL, "%s", harness_log_text());
    clattn_context_destroy(c);
    c = open_with((clattn_memory){.max_bytes = 2 * SCORES}, (clattn_cache){0});
    for (int n = 0; n < 3; n++) ck_assert_int_eq(attend(c, true), CLATTN_OK);
    clattn_context_destroy(c);
}
END_TEST

// An allocator that counts, and fails on request.
static struct allocator {
    int made, released, failing; // number of the allocation that fails; 0: none
    cl_int code;                 // the code of the failure
    size_t bytes;
} heap;

static cl_mem make(void *user, cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                   cl_int *code) {
    struct allocator *a = user;
    if (a->failing && a->made + 1 == a->failing) {
        a->failing = 0;
        *code = a->code;
        return NULL;
    }
    cl_mem made = clCreateBuffer(context, flags, bytes, host, code);
    a->made += made != NULL;
    a->bytes += bytes;
    return made;
}

static void drop(void *user, cl_mem buffer) {
    struct allocator *a = user;
    a->released++;
    clReleaseMemObject(buffer);
}

START_TEST(an_allocator) {
    const clattn_memory memory = {.create = make, .release = drop, .user = &heap};
    heap = (struct allocator){0};
    clattn_context *c = open_with(memory, (clattn_cache){0});
    for (int n = 0; n < 3; n++) ck_assert_int_eq(attend(c, true), CLATTN_OK);
    const int made = heap.made;
    ck_assert_int_ge(made, 1);
    ck_assert_uint_ge(heap.bytes, SCORES);
    clattn_context_destroy(c);
    ck_assert_int_eq(heap.released, heap.made);
    // Each allocation fails once: the call fails, and the next call works.
    for (int failing = 1; failing <= made; failing++) {
        heap = (struct allocator){.failing = failing, .code = CL_MEM_OBJECT_ALLOCATION_FAILURE};
        c = open_with(memory, (clattn_cache){0});
        ck_assert_int_eq(attend(c, false), CLATTN_OUT_OF_MEMORY);
        ck_assert_int_eq(heap.failing, 0);
        ck_assert_int_eq(attend(c, true), CLATTN_OK);
        clattn_context_destroy(c);
        ck_assert_int_eq(heap.released, heap.made);
    }
}
END_TEST

// Any number is allowed as a failure: the context continues, because no number means a lost device.
START_TEST(an_allocator_s_numbers) {
    static const struct {
        cl_int code;
        clattn_status status;
    } cases[] = {{-9999, CLATTN_DRIVER},
                 {CL_DEVICE_NOT_AVAILABLE, CLATTN_DRIVER},
                 {CL_INVALID_COMMAND_QUEUE, CLATTN_DRIVER},
                 {12345, CLATTN_DRIVER},
                 {CL_SUCCESS, CLATTN_OUT_OF_MEMORY},
                 {CL_OUT_OF_RESOURCES, CLATTN_OUT_OF_MEMORY},
                 {CL_OUT_OF_HOST_MEMORY, CLATTN_OUT_OF_MEMORY}};
    const clattn_memory memory = {.create = make, .release = drop, .user = &heap};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        heap = (struct allocator){.code = cases[n].code};
        clattn_context *c = open_with(memory, (clattn_cache){0});
        ck_assert_int_eq(attend_by(c, CLATTN_KERNEL_FLASH, true),
                         CLATTN_OK); // a failure means a lost device only after a successful call
        heap.failing = heap.made + 1;
        ck_assert_int_eq(attend(c, false), cases[n].status);
        ck_assert_int_eq(heap.failing, 0);
        ck_assert_msg(strstr(harness_log_text(), "memory.create: no buffer") != NULL, "%s",
                      harness_log_text());
        ck_assert_int_eq(attend(c, true), CLATTN_OK);
        clattn_context_destroy(c);
        ck_assert_int_eq(heap.released, heap.made);
    }
}
END_TEST

START_TEST(half_an_allocator) {
    clattn_context *c = NULL;
    const clattn_context_params with[] = {
        {.device = harness()->device, .log = harness_log(), .memory.create = make},
        {.device = harness()->device, .log = harness_log(), .memory.release = drop}};
    for (int n = 0; n < 2; n++) {
        harness_log_clear();
        ck_assert_int_eq(clattn_context_create(&with[n], &c), CLATTN_INVALID_ARGUMENT);
        ck_assert_ptr_null(c);
        ck_assert_msg(strstr(harness_log_text(), "create and release") != NULL, "%s", harness_log_text());
    }
}
END_TEST

// An application's own store of entries.
enum { SHELF = 64 };
static struct shelf {
    struct {
        char name[96];
        unsigned char *bytes;
        size_t count;
    } entries[SHELF];
    int count, loads, stores;
} shelf;

static size_t load(void *user, const char *name, void *bytes, size_t capacity) {
    struct shelf *s = user;
    s->loads++;
    for (int i = 0; i < s->count; i++)
        if (!strcmp(s->entries[i].name, name)) {
            if (bytes) memcpy(bytes, s->entries[i].bytes, capacity);
            return s->entries[i].count;
        }
    return 0;
}

static void store(void *user, const char *name, const void *bytes, size_t count) {
    struct shelf *s = user;
    int i = 0;
    s->stores++;
    while (i < s->count && strcmp(s->entries[i].name, name) != 0) i++;
    if (i == SHELF) return;
    if (i == s->count) s->count++;
    free(s->entries[i].bytes);
    s->entries[i].bytes = malloc(count);
    s->entries[i].count = count;
    memcpy(s->entries[i].bytes, bytes, count);
    snprintf(s->entries[i].name, sizeof s->entries[i].name, "%s", name);
}

static int damaged; // entries that the library called damaged

static void count_damaged(void *user, clattn_log_level level, const char *line) {
    (void)user;
    damaged += level == CLATTN_LOG_INFO && strstr(line, "that the application gave is damaged") != NULL;
}

static clattn_context_stats one_life(clattn_cache cache) {
    clattn_context_stats stats;
    clattn_context *c = harness_open((clattn_context_params){
        .context = harness()->opencl, .log = {count_damaged, NULL, CLATTN_LOG_INFO}, .cache = cache});
    ck_assert_int_eq(attend(c, true), CLATTN_OK);
    harness_finish(harness()->queue);
    clattn_context_get_stats(c, &stats);
    clattn_context_destroy(c);
    return stats;
}

START_TEST(a_cache_of_functions) {
    if (!harness_keeps_kernels("a_cache_of_functions")) return;
    const clattn_cache cache = {.load = load, .store = store, .user = &shelf};
    const clattn_context_stats first = one_life(cache);
    ck_assert_uint_ge(first.programs_built, 3);
    ck_assert_int_ge(shelf.count, 3);
    const clattn_context_stats second = one_life(cache);
    ck_assert_uint_eq(second.programs_built, 0);
    ck_assert_uint_eq(second.programs_cached, first.programs_built);
    for (int i = 0; i < shelf.count; i++) shelf.entries[i].bytes[shelf.entries[i].count - 1] ^= 1;
    ck_assert_int_eq(damaged, 0);
    ck_assert_uint_eq(one_life(cache).programs_built, first.programs_built);
    ck_assert_int_ge(damaged, (int)first.programs_built); // none of them reached the driver
    const int stores = shelf.stores;
    const clattn_context_stats reading = one_life((clattn_cache){.load = load, .user = &shelf});
    ck_assert_uint_eq(reading.programs_built, 0);
    ck_assert_int_eq(shelf.stores, stores);
    for (int i = 0; i < shelf.count; i++) free(shelf.entries[i].bytes);
    shelf.count = 0;
}
END_TEST

START_TEST(a_cleaned_folder) {
    char dir[512];
    clattn_log log = harness_log();
    const char *kept = getenv("CLATTN_TEST_CACHE");
    if (!kept || !harness_keeps_kernels("a_cleaned_folder")) return;
    snprintf(dir, sizeof dir, "%s-cleaned", kept);
    harness_log_clear();
    ck_assert_int_eq(clattn_cache_clean(NULL, 0, &log), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 1);
    ck_assert_int_eq(clattn_cache_clean("/nonexistent/folder/x", 0, &log), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(harness_log_count(), 2);
    ck_assert_int_eq(clattn_cache_clean("/nonexistent/folder/x", 0, NULL), CLATTN_INVALID_ARGUMENT);
    clattn_context_params with = {.context = harness()->opencl, .cache_dir = dir};
    clattn_context_stats stats;
    // 0: kernels are compiled; 1: loaded from the folder; 2: loaded again; 3: compiled, as the
    // folder was emptied
    for (int n = 0; n < 4; n++) {
        clattn_context *c = harness_open(with);
        ck_assert_int_eq(attend(c, true), CLATTN_OK);
        harness_finish(harness()->queue);
        clattn_context_get_stats(c, &stats);
        if (n == 1 || n == 2) ck_assert_uint_eq(stats.programs_built, 0);
        if (n == 3) ck_assert_uint_ge(stats.programs_built, 3);
        clattn_context_destroy(c);
        if (n != 0) ck_assert_int_eq(clattn_cache_clean(dir, n == 2 ? 0 : 1 << 30, &log), CLATTN_OK);
    }
    ck_assert_int_eq(clattn_cache_clean(dir, 0, &log), CLATTN_OK);
    remove(dir);
}
END_TEST

START_TEST(features) {
    clattn_features f;
    ck_assert_int_eq(clattn_features_get(NULL, NULL), CLATTN_INVALID_ARGUMENT);
    ck_assert_int_eq(clattn_features_get(NULL, &f), CLATTN_OK);
    ck_assert(f.clblast == harness_has_clblast() && !f.clblast_found && f.engines == 0);
    ck_assert_int_eq(clattn_features_get(harness()->context, &f), CLATTN_OK);
    ck_assert(f.clblast_found == harness_has_clblast());
    clattn_context *c = harness_open((clattn_context_params){.clblast_path = "/nonexistent/module.so"});
    ck_assert_int_eq(clattn_features_get(c, &f), CLATTN_OK);
    ck_assert(f.clblast_found ==
              (f.opencl_linked && harness_has_clblast())); // a linked OpenCL is not searched
    clattn_context_destroy(c);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {a_cap,
                                  an_allocator,
                                  an_allocator_s_numbers,
                                  half_an_allocator,
                                  a_cache_of_functions,
                                  a_cleaned_folder,
                                  features,
                                  NULL};
    Suite *suite = suite_create("resources");
    harness_add(suite, "resources", tests);
    return harness_run(suite);
}
