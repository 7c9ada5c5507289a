// test_messages.c: the library's messages: log levels and threads, the last error, and strings that
// remain valid. The messages of refusals are in test_errors.c and others.
#include "support/case_assert.h"
#include "support/harness.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

// The messages that a log callback received.
struct received {
    int count[CLATTN_LOG_DEBUG + 1], newlines;
    int others; // messages on an unexpected thread
    pthread_t expected;
    char last[1024];
};

static void receive(void *user, clattn_log_level level, const char *message) {
    struct received *r = user;
    ck_assert(level <= CLATTN_LOG_DEBUG);
    r->count[level]++;
    r->newlines += strchr(message, '\n') != NULL;
    r->others += !pthread_equal(pthread_self(), r->expected);
    snprintf(r->last, sizeof r->last, "%s", message);
}

static clattn_context *open_context(struct received *r, clattn_log_level level) {
    if (r) r->expected = pthread_self();
    return harness_open(
        (clattn_context_params){.context = harness()->opencl,
                                .cache_dir = "/nonexistent/folder/cache",
                                .log = {.fn = r ? receive : NULL, .user = r, .level = level}});
}

// A good call that builds a kernel, and a call that is refused.
static void make_calls(clattn_context *c) {
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 9, 32)};
    p.out = p.kv.k = p.kv.v = p.q;
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_OK);
    p.splits = -1;
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_INVALID_ARGUMENT);
}

START_TEST(levels) {
    for (int level = CLATTN_LOG_ERROR; level <= CLATTN_LOG_DEBUG; level++) {
        struct received r = {0};
        clattn_context *c = open_context(&r, (clattn_log_level)level);
        make_calls(c);
        clattn_context_destroy(c);
        ck_assert_int_eq(r.count[CLATTN_LOG_ERROR], 1);
        // Info lines: the cache folder, the plan, a kernel.
        if (level == CLATTN_LOG_ERROR)
            ck_assert_int_eq(r.count[CLATTN_LOG_INFO], 0);
        else
            ck_assert_int_ge(r.count[CLATTN_LOG_INFO], 2);
        if (level < CLATTN_LOG_DEBUG) ck_assert_int_eq(r.count[CLATTN_LOG_DEBUG], 0);
        ck_assert_int_eq(r.newlines, 0);
        ck_assert_int_eq(r.others, 0);
    }
}
END_TEST

START_TEST(no_log) {
    clattn_context *c = open_context(NULL, CLATTN_LOG_DEBUG);
    char text[64];
    make_calls(c);
    ck_assert_uint_gt(clattn_context_last_error(c, text, sizeof text), 0); // needs no log callback
    clattn_context_destroy(c);
}
END_TEST

// A thread of the caller with a context, and the messages it receives.
struct caller {
    pthread_t thread;
    clattn_context *context;
    struct received received;
};

static void *call_in_thread(void *argument) {
    struct caller *caller = argument;
    caller->received.expected = pthread_self();
    make_calls(caller->context);
    return NULL;
}

// Every message arrives on the thread of the call, also during builds. The last error can be read
// from any thread.
START_TEST(on_the_calling_thread) {
    struct caller caller = {.received = {{0}}};
    char text[256];
    caller.context = open_context(&caller.received, CLATTN_LOG_DEBUG);
    const int before = caller.received.count[CLATTN_LOG_INFO];
    harness_expect(pthread_create(&caller.thread, NULL, call_in_thread, &caller), "pthread_create");
    pthread_join(caller.thread, NULL);
    ck_assert_int_eq(caller.received.others, 0);
    ck_assert_int_gt(caller.received.count[CLATTN_LOG_INFO], before);
    ck_assert_uint_gt(clattn_context_last_error(caller.context, text, sizeof text), 0);
    ck_assert_str_eq(text, caller.received.last);
    caller.received.expected = pthread_self();
    clattn_context_destroy(caller.context);
    ck_assert_int_eq(caller.received.others, 0);
}
END_TEST

// The last error is cut to fit, always terminated, and nothing is written past the buffer. The
// returned length is that of the complete message.
START_TEST(last_error_is_cut) {
    clattn_context *c = open_context(NULL, CLATTN_LOG_ERROR);
    char whole[512], text[512];
    ck_assert_uint_eq(clattn_context_last_error(c, whole, sizeof whole), 0);
    ck_assert_str_eq(whole, "");
    make_calls(c);
    const size_t length = clattn_context_last_error(c, whole, sizeof whole);
    ck_assert_uint_eq(length, strlen(whole));
    ck_assert_uint_gt(length, 20);
    for (size_t room = 0; room <= length + 2; room++) {
        memset(text, 0x5a, sizeof text);
        ck_assert_uint_eq(clattn_context_last_error(c, text, room), length);
        const size_t kept = room > length ? length : room ? room - 1 : 0;
        ck_assert_mem_eq(text, whole, kept);
        if (room) ck_assert_int_eq(text[kept], '\0');
        ck_assert_int_eq(text[room], 0x5a);
    }
    ck_assert_uint_eq(clattn_context_last_error(c, NULL, 100), length);
    clattn_attention_params p = {.q = clattn_tensor_bhsd(NULL, CLATTN_TYPE_F32, 1, 2, 9, 32)};
    p.out = p.kv.k = p.kv.v = p.q;
    // a successful call does not clear the message
    ck_assert_int_eq(clattn_attention_prepare(c, &p), CLATTN_OK);
    ck_assert_uint_eq(clattn_context_last_error(c, text, sizeof text), length);
    ck_assert_str_eq(text, whole);
    clattn_context_destroy(c);
}
END_TEST

// All functions that return constant strings.
enum { WORDS = 2 * (CLATTN_STATUS_COUNT + 1) + CLATTN_TYPE_COUNT + CLATTN_KERNEL_COUNT + 3 };
static int take_words(const char *words[WORDS]) {
    int n = 0;
    for (int i = 0; i <= CLATTN_STATUS_COUNT; i++) {
        words[n++] = clattn_status_name((clattn_status)i);
        words[n++] = clattn_status_text((clattn_status)i);
    }
    for (int i = 0; i <= CLATTN_TYPE_COUNT; i++) words[n++] = clattn_type_name((clattn_type)i);
    for (int i = 0; i <= CLATTN_KERNEL_COUNT; i++) words[n++] = clattn_kernel_name((clattn_kernel)i);
    words[n++] = clattn_version();
    return n;
}

static void *take_words_elsewhere(void *words) {
    take_words(words);
    return NULL;
}

// The same strings at the same addresses, after other calls and on any thread.
START_TEST(words_last) {
    const char *first[WORDS] = {0}, *again[WORDS] = {0};
    char copies[WORDS][160];
    pthread_t thread;
    ck_assert_int_eq(take_words(first), WORDS);
    for (int i = 0; i < WORDS; i++) snprintf(copies[i], sizeof copies[i], "%s", first[i]);
    harness_expect(pthread_create(&thread, NULL, take_words_elsewhere, again), "pthread_create");
    pthread_join(thread, NULL);
    for (int i = 0; i < WORDS; i++) {
        ck_assert_ptr_eq(first[i], again[i]);
        ck_assert_str_eq(first[i], copies[i]);
        ck_assert_int_ne(first[i][0], '\0');
    }
    ck_assert_str_eq(clattn_status_name(CLATTN_STATUS_COUNT), "UNKNOWN");
    ck_assert_str_eq(clattn_type_name(CLATTN_TYPE_COUNT), "(unknown)");
    ck_assert_str_eq(clattn_kernel_name((clattn_kernel)-1), "(unknown)");
    ck_assert_str_eq(clattn_type_name(CLATTN_TYPE_I8), "i8");
    ck_assert_str_eq(clattn_kernel_name(CLATTN_KERNEL_FLASH), "flash");
}
END_TEST

int main(void) {
    const TTest *const log[] = {levels, no_log, on_the_calling_thread, NULL};
    const TTest *const words[] = {last_error_is_cut, words_last, NULL};
    Suite *suite = suite_create("messages");
    harness_add(suite, "log", log);
    harness_add(suite, "words", words);
    return harness_run(suite);
}
