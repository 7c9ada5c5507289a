// test_host_memory.c: host memory by the application's functions. A context allocates all its
// memory with them and returns it to them, from its creation through all calls to its destruction.
// Each allocation fails once: the status is OUT_OF_MEMORY, nothing leaks, and the next call works.
// check_bindings.sh checks that the library calls no malloc.
#include "support/case_assert.h"
#include "verification/case/case_group.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Each call needs different host data: lengths, texts, places of new rows, a past, packed
// sequences, frequencies of RoPE.
static const char *const names[] = {
    "attend-f32-b2-h2-n5-nkv33-d16-causal-unfused-lse-alibi-sinks-kvlen33:9",
    "attend-f32-b1-h2-n5-nkv33-d16-causal-unfused-lse-alibi-mods",
    "attend-f32-b2-h2-n5-nkv33-d16-causal-unfused-lse-kvlen33:9-ropehalf-append5",
    "attend-f32-b2-h2-n5-nkv33-d16-causal-unfused-lse-past20:20:7-ropehalf",
    "attend-f32-b3-h2-n5-nkv33-d16-causal-lse-qlen5:0:4-kvlen33:9:0-raggedhost",
    "layer-f32-b2-h2-n5-d16-m32-causal-native-kvlen5:4-ropehalf",
};
enum { CASES = sizeof names / sizeof names[0] };

#define MAGIC 0x5ca1ab1eu

// A header before each piece, large enough to keep the piece aligned for any type.
typedef union piece {
    struct {
        unsigned magic;
        size_t bytes;
    } is;
    max_align_t align;
} piece;

static struct heap {
    atomic_long live, taken, wrong;
    long refuse; // number of the allocation that fails; 0: none
} heap;

static void *take(void *user, size_t bytes) {
    struct heap *h = user;
    if (++h->taken == h->refuse) return NULL;
    piece *p = malloc(sizeof *p + bytes + 1);
    if (!p) return NULL;
    p->is.magic = MAGIC, p->is.bytes = bytes;
    unsigned char *memory = (unsigned char *)(p + 1);
    memset(memory, 0xa5, bytes + 1); // unwritten memory and writes behind the piece become visible
    h->live++;
    h->wrong += bytes == 0;
    return memory;
}

static void give_back(void *user, void *memory) {
    struct heap *h = user;
    piece *p = (piece *)memory - 1;
    const unsigned char *bytes = memory;
    if (!memory || p->is.magic != MAGIC || bytes[p->is.bytes] != 0xa5) {
        h->wrong++;
        return;
    }
    p->is.magic = 0;
    memset(memory, 0x5a, p->is.bytes);
    h->live--;
    free(p);
}

static const clattn_host_memory own = {take, give_back, &heap};

static struct case_data *data[CASES];
static struct case_arrays arrays[CASES];

static clattn_context *open_own(clattn_status *status) {
    clattn_context *c = NULL;
    const clattn_context_params with = {.device = harness()->device,
                                        .context = harness()->opencl,
                                        .log = harness_log(),
                                        .cache_dir = getenv("CLATTN_TEST_CACHE"),
                                        .tuned_rows = "flash :\n",
                                        .clblast_path = "/nonexistent/module.so",
                                        .host_memory = own};
    *status = clattn_context_create(&with, &c);
    return c;
}

static void expect_right(int n) {
    char why[256];
    ck_assert_msg(case_holds(data[n], &arrays[n], harness()->queue, why, sizeof why), "%s: %s", names[n],
                  why);
}

// Into the first case's output, and once more in place.
static clattn_status rope(clattn_context *c) {
    const int32_t offsets[2] = {3, 40};
    const clattn_tensor x = arrays[0].q.view;
    const clattn_rope_params p = {
        .x = x, .y = arrays[0].out.view, .rope = {.layout = CLATTN_ROPE_HALF}, .offsets = offsets};
    const clattn_shift_params shift = {.k = p.y, .rope = p.rope, .deltas = offsets};
    const clattn_status status = clattn_rope_enqueue(c, harness()->queue, &p, 0, NULL, NULL);
    return status == CLATTN_OK ? clattn_shift_enqueue(c, harness()->queue, &shift, 0, NULL, NULL) : status;
}

// The first case, with its launches and tables, recorded and replayed.
static clattn_status recorded(clattn_context *c) {
    clattn_recording *r = NULL;
    clattn_status status = clattn_recording_begin(c, harness()->queue, &r);
    if (status == CLATTN_OK) status = case_enqueue(c, harness()->queue, &arrays[0], NULL);
    if (status == CLATTN_OK) status = clattn_recording_end(r);
    if (status == CLATTN_OK) status = clattn_recording_enqueue(r, harness()->queue, 0, NULL, NULL);
    harness_finish(harness()->queue);
    clattn_recording_destroy(r);
    return status;
}

enum { ROPE = CASES, RECORDED, CALLS };
static const char *name_of(int n) {
    return n < CASES ? names[n] : n == ROPE ? "rope" : "recorded";
}
static clattn_status call(clattn_context *c, int n) {
    if (n == RECORDED) return recorded(c);
    return n == ROPE ? rope(c) : case_enqueue(c, harness()->queue, &arrays[n], NULL);
}

static void expect_refused(clattn_status status, long refuse, const char *what) {
    ck_assert_msg(status == CLATTN_OUT_OF_MEMORY && harness_log_text()[0] != '\0', "piece %ld: %s: %s: %s",
                  refuse, what, clattn_status_name(status), harness_log_text());
}

// Create a context, make these calls, read features, save, destroy. Refused calls are made again.
static void one_life(int first, int behind, long refuse) {
    clattn_status status;
    clattn_features features;
    heap.live = heap.taken = heap.wrong = 0;
    heap.refuse = refuse;
    harness_log_clear();
    clattn_context *c = open_own(&status);
    if (c == NULL) expect_refused(status, refuse, "creating");
    for (int n = first; c != NULL && n < behind; n++) {
        harness_log_clear();
        status = call(c, n);
        if (status != CLATTN_OK) {
            expect_refused(status, refuse, name_of(n));
            ck_assert_msg(heap.taken >= refuse && call(c, n) == CLATTN_OK, "piece %ld: %s", refuse,
                          harness_log_text());
        }
        if (n != ROPE) expect_right(n == RECORDED ? 0 : n);
    }
    ck_assert_int_eq(clattn_features_get(c, &features), CLATTN_OK);
    harness_finish(harness()->queue);
    clattn_context_save_kernels(c);
    clattn_context_destroy(c);
    ck_assert_msg(heap.live == 0 && heap.wrong == 0, "piece %ld: %ld pieces left, %ld wrong", refuse,
                  (long)heap.live, (long)heap.wrong);
}

START_TEST(all_of_it) {
    one_life(0, 0, 0);
    const long creating = heap.taken;
    ck_assert_int_ge(creating, 10);
    int pieces = 0, refusals = 0;
    for (long n = 1; n <= creating; n++)
        if (harness_takes(pieces++)) one_life(0, 1, n), refusals++;
    for (int n = 0; n < CALLS; n++) {
        one_life(n, n + 1, 0); // compiles
        one_life(n, n + 1, 0);
        const long most = heap.taken;
        ck_assert_int_ge(most, creating + 2);
        for (long refused = creating + 1; refused <= most; refused++)
            if (harness_takes(pieces++)) one_life(n, n + 1, refused), refusals++;
    }
    printf("host memory: %d of %d pieces refused, of which creating a context takes %ld\n", refusals, pieces,
           creating);
    ck_assert_int_ge(refusals, pieces / harness_every() / 2);
    one_life(0, CALLS, 0);
}
END_TEST

// A group, whose memory is its first context's. It partitions rows, so its pieces are packed.
// Returns whether no allocation failed.
static bool group_life(struct case_group *host, long refuse) {
    clattn_status status;
    clattn_group *group = NULL;
    heap.live = heap.taken = heap.wrong = 0;
    heap.refuse = 0;
    clattn_context *c = open_own(&status);
    ck_assert_ptr_nonnull(c);
    const long before = heap.taken;
    heap.refuse = refuse ? before + refuse : 0;
    harness_log_clear();
    const clattn_group_member members[] = {{.context = c, .max_bytes = 1 << 14}, {.context = c}};
    const clattn_group_params with = {.members = members, .count = 2, .log = harness_log()};
    status = clattn_group_create(&with, &group);
    if (group == NULL) expect_refused(status, refuse, "creating a group");
    for (int turn = 0; turn < 2 && group != NULL; turn++) {
        status = clattn_group_attention(group, &host->params, NULL, NULL);
        if (status == CLATTN_OK) break;
        expect_refused(status, refuse, "a group's call");
    }
    ck_assert(status == CLATTN_OK || group == NULL);
    const bool all = heap.taken < heap.refuse || refuse == 0;
    clattn_group_destroy(group);
    clattn_context_destroy(c);
    ck_assert_msg(heap.live == 0 && heap.wrong == 0, "piece %ld of a group: %ld pieces left, %ld wrong",
                  refuse, (long)heap.live, (long)heap.wrong);
    return all;
}

START_TEST(of_a_group) {
    struct case_group host;
    long refused = 1;
    harness_finish(harness()->queue);
    case_group_open(&arrays[0], harness()->queue, &host);
    host.params.partition = CLATTN_PARTITION_ROWS;
    ck_assert(group_life(&host, 0));
    while (!group_life(&host, refused)) refused++;
    case_group_close(&host, harness()->queue, true);
    expect_right(0);
    ck_assert_int_ge(refused, 10);
}
END_TEST

START_TEST(one_of_two) {
    clattn_context *c = NULL;
    const clattn_host_memory half[] = {{.allocate = take, .user = &heap},
                                       {.release = give_back, .user = &heap}};
    for (int n = 0; n < 2; n++) {
        const clattn_context_params with = {
            .device = harness()->device, .log = harness_log(), .host_memory = half[n]};
        harness_log_clear();
        heap.taken = heap.live = 0;
        ck_assert_int_eq(clattn_context_create(&with, &c), CLATTN_INVALID_ARGUMENT);
        ck_assert_ptr_null(c);
        ck_assert_msg(strstr(harness_log_text(), "allocate and release") != NULL, "%s", harness_log_text());
        ck_assert(heap.taken == 0 && heap.live == 0);
    }
}
END_TEST

static void open_cases(void) {
    for (int n = 0; n < CASES; n++) data[n] = case_open(names[n], &arrays[n]);
}

static void close_cases(void) {
    for (int n = 0; n < CASES; n++) {
        case_unbind(&arrays[n]);
        case_free(data[n]);
    }
}

int main(void) {
    const TTest *const tests[] = {all_of_it, of_a_group, one_of_two, NULL};
    Suite *suite = suite_create("host memory");
    TCase *group = harness_add(suite, "host memory", tests);
    tcase_add_unchecked_fixture(group, open_cases, close_cases);
    return harness_run(suite);
}
