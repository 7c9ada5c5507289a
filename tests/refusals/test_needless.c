// test_needless.c: options without effect are refused by name: the fields of clattn_rope without a
// layout, in every call that has a clattn_rope.
#include "support/harness.h"
#include "strided/strided_calls.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD(name)                                                                                          \
    { #name, offsetof(clattn_rope, name), sizeof((clattn_rope){0}.name) }
static const struct {
    const char *name;
    size_t at, size;
} fields[] = {FIELD(rotary_dim),
              FIELD(base),
              FIELD(position),
              FIELD(scaling),
              FIELD(factor),
              FIELD(original_length),
              FIELD(length),
              FIELD(low_factor),
              FIELD(high_factor),
              FIELD(beta_fast),
              FIELD(beta_slow),
              FIELD(attention_factor),
              FIELD(untruncated),
              FIELD(positions),
              FIELD(k_positions),
              FIELD(sections),
              FIELD(sections_interleaved),
              FIELD(pair_factors),
              FIELD(pairs)};
enum { FIELDS = sizeof fields / sizeof fields[0] };

// A field filled with bytes of 1 is not 0 in any type.
static clattn_rope rope_with(int field, const clattn_rope *good) {
    clattn_rope rope = {.layout = CLATTN_ROPE_NONE};
    char *to = (char *)&rope + fields[field].at;
    memset(to, 1, fields[field].size);
    if (strcmp(fields[field].name, "scaling") == 0) rope.scaling = CLATTN_ROPE_SCALING_LINEAR;
    if (fields[field].size == sizeof(clattn_tensor)) memcpy(to, &good->positions, sizeof good->positions);
    return rope;
}

START_TEST(rope_without_layout) {
    struct strided_call c;
    strided_open(&c, _i, false, harness_place());
    for (int n = 0; c.rope_of && n < c.count; n++) {
        struct strided_tensor *t = &c.tensor[n];
        t->memory = guarded_view(harness_place(), t->view, t->values, t->written);
        *t->view = t->memory.view;
    }
    for (int field = 0; c.rope_of && field < FIELDS; field++) {
        const clattn_rope good = *c.rope_of;
        char word[64];
        snprintf(word, sizeof word, "rope.%s: is given, and rope.layout is NONE", fields[field].name);
        *c.rope_of = rope_with(field, &good);
        harness_log_clear();
        harness_assert_refused(c.name, c.enqueue(&c, harness()->context, harness()->queue),
                               CLATTN_INVALID_ARGUMENT, word);
        *c.rope_of = good;
    }
    harness_finish(harness()->queue);
    for (int n = 0; c.rope_of && n < c.count; n++)
        ck_assert(guarded_intact(&c.tensor[n].memory, harness()->queue));
    strided_close(&c);
}
END_TEST

// The table has every field of the header's struct, and every struct with a clattn_rope has a call
// here.
START_TEST(all_fields_are_asked) {
    static const char *const headers[] = {"rope.h", "append.h", "attention.h", "layer.h"};
    char *text = harness_header("rope.h");
    const char *at = strstr(text, "typedef struct clattn_rope {"), *end = strstr(at, "\n}");
    int found = 0, structs = 0, calls = 0;
    const void *last = NULL;
    // count the fields after `layout`
    for (const char *f = strchr(at, ';'); f != NULL && f < end; f++) found += *f == ',' || *f == ';';
    free(text);
    ck_assert_int_eq(found - 1, FIELDS);
    for (size_t n = 0; n < sizeof headers / sizeof headers[0]; n++) {
        text = harness_header(headers[n]);
        for (const char *f = text; (f = strstr(f, "clattn_rope\n")) != NULL; f++) structs++;
        for (const char *f = text; (f = strstr(f, "clattn_rope rope;")) != NULL; f++) structs++;
        free(text);
    }
    for (int n = 0; n < strided_count; n++) {
        struct strided_call c;
        strided_open(&c, n, false, harness_place());
        const void *enqueue;
        memcpy(&enqueue, &c.enqueue, sizeof enqueue);
        calls += c.rope_of && enqueue != last;
        if (c.rope_of) last = enqueue;
        strided_close(&c);
    }
    ck_assert_int_eq(structs, 6);
    ck_assert_int_ge(calls + 1,
                     structs); // a shift without a layout is always refused (test_errors_shift.c)
}
END_TEST

int main(void) {
    Suite *suite = suite_create("needless");
    TCase *group = harness_add(suite, "needless", (const TTest *const[]){all_fields_are_asked, NULL});
    tcase_add_loop_test(group, rope_without_layout, 0, strided_count);
    return harness_run(suite);
}
