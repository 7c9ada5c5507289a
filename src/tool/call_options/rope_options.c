// rope_options.c: see rope_options.h.
#include "tool/call_options/rope_options.h"

#include <stdio.h>
#include <string.h>

#include "evidence/words/words.h"
#include "tool/call_options/rope_scaling.h"

enum {
    ROPE_LAYOUT = 800,
    ROPE_BASE,
    ROPE_DIM,
    ROPE_SCALING,
    ROPE_POSITIONS,
    ROPE_K_POSITIONS,
    ROPE_SECTIONS
};

static const char *const file_options[2] = {"positions", "k-positions"};

// T,H,W and perhaps a word.
static bool take_sections(clattn_rope *rope, const char *text, char why[256]) {
    char number[16], ignored[256];
    int64_t n = 0;
    snprintf(why, 256, "three numbers of pairs are needed, such as 16,24,24 or 24,20,20,interleaved");
    for (int i = 0; i < 3; i++) {
        const size_t length = strcspn(text, ",");
        if (length >= sizeof number) return false;
        memcpy(number, text, length);
        number[length] = '\0';
        if (!option_integer(number, 0, 65536, &n, ignored)) return false;
        rope->sections[i] = (int32_t)n;
        text += length;
        if (i < 2 && *text++ != ',') return false;
    }
    rope->sections_interleaved = strcmp(text, ",interleaved") == 0;
    return *text == '\0' || rope->sections_interleaved;
}

static bool take_rope(void *target, int id, const char *value, char why[256]) {
    rope_options *o = target;
    clattn_rope *rope = &o->rope;
    int64_t n = 0;
    switch (id) {
    case ROPE_DIM:
        if (!option_integer(value, 1, 65536, &n, why)) return false;
        return rope->rotary_dim = (int)n, true;
    case ROPE_SCALING:
        return rope_scaling_parse(value, rope, why);
    case ROPE_BASE:
        if (option_number(value, &rope->base, why) && rope->base >= 1.0) return true;
        snprintf(why, 256, "a number from 1 is needed, such as 10000");
        return false;
    case ROPE_POSITIONS:
    case ROPE_K_POSITIONS:
        return o->files[id - ROPE_POSITIONS] = value, true;
    case ROPE_SECTIONS:
        return take_sections(rope, value, why);
    default:
        if (!option_choice(value, names_ropes, &o->layout, why)) return false;
        rope->layout = (clattn_rope_layout)o->layout;
        return true;
    }
}

option_group rope_group(rope_options *o) {
    static const option_row rows[] = {
        {"rope", "LAYOUT", ROPE_LAYOUT, "rotary embedding: none, half or interleaved"},
        {"rope-base", "X", ROPE_BASE, "default 10000"},
        {"rope-dim", "R", ROPE_DIM, "rotary width; default the head size"},
        {"rope-scaling", "SPEC", ROPE_SCALING, ROPE_SCALING_HELP},
        {"positions", "FILE", ROPE_POSITIONS,
         "integers [B or 1,Nq], with --rope-sections [3,B or 1,Nq]: where rows stand for --rope"},
        {"k-positions", "FILE", ROPE_K_POSITIONS, "likewise of keys; default those of --positions"},
        {"rope-sections", "T,H,W", ROPE_SECTIONS,
         "pairs that turn by each axis of --positions, as 16,24,24; 24,20,20,interleaved takes them in turn"},
    };
    return (option_group){"rotary embedding", rows, sizeof rows / sizeof rows[0], take_rope, o};
}

static bool has_sections(const clattn_rope *r) {
    return r->sections[0] || r->sections[1] || r->sections[2];
}

int rope_options_check(const rope_options *o) {
    const clattn_rope *r = &o->rope;
    const char *needless = r->base != 0.0    ? "rope-base"
                           : r->rotary_dim   ? "rope-dim"
                           : r->scaling      ? "rope-scaling"
                           : o->files[0]     ? "positions"
                           : o->files[1]     ? "k-positions"
                           : has_sections(r) ? "rope-sections"
                                             : NULL;
    if (r->layout == CLATTN_ROPE_NONE && needless)
        return tool_wrong("--%s: has no effect without --rope half or --rope interleaved", needless);
    if (!o->files[0] && (o->files[1] || has_sections(r)))
        return tool_wrong("--%s: needs --positions FILE", o->files[1] ? "k-positions" : "rope-sections");
    return -1;
}

// 64-bit integers as those of 32 bits that they must be.
static int narrow(const char *option, array *a) {
    array to;
    int status = -1;
    if (a->type == ARRAY_I32) return -1;
    if (a->type != ARRAY_I64)
        return tool_wrong("--%s: holds %s: i32 or i64 is needed", option, array_type_name(a->type));
    if (!array_create(&to, ARRAY_I32, a->rank, a->shape)) return tool_failed("no memory");
    const int64_t *from = a->data;
    for (int64_t i = 0; i < array_count(a) && status < 0; i++) {
        ((int32_t *)to.data)[i] = (int32_t)from[i];
        if ((int32_t)from[i] != from[i])
            status = tool_wrong("--%s: item %lld is %lld: must fit 32 bits", option, (long long)i,
                                (long long)from[i]);
    }
    array_free(a);
    *a = to;
    return status;
}

int rope_options_load(rope_options *o) {
    const int rank = has_sections(&o->rope) ? 3 : 2;
    for (int i = 0; i < 2; i++) {
        if (!o->files[i]) continue;
        int status = tensors_load(file_options[i], o->files[i], rank, &o->arrays[i]);
        if (status < 0) status = narrow(file_options[i], &o->arrays[i]);
        if (status >= 0) return status;
    }
    return -1;
}

int rope_options_upload(rope_options *o, tensors *t) {
    clattn_tensor *const views[2] = {&o->rope.positions, &o->rope.k_positions};
    int status = -1;
    for (int i = 0; i < 2 && status < 0; i++)
        if (o->files[i]) status = tensors_upload(t, &o->arrays[i], views[i]);
    return status;
}

void rope_options_free(rope_options *o) {
    for (int i = 0; i < 2; i++) array_free(&o->arrays[i]);
}
