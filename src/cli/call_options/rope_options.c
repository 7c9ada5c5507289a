// rope_options.c: the options of RoPE: layout, base, width, positions and frequency scaling.
#include "cli/call_options/call_options.h"
#include "verification/words/words.h"

// Each number of clattn_rope with its word in --rope-scaling. The option also accepts the key of
// config.json.
static const struct {
    const char *word, *key;
    size_t field;
} numbers[] = {{"factor", NULL, offsetof(clattn_rope, factor)},
               {"original", "original_max_position_embeddings", offsetof(clattn_rope, original_length)},
               {"length", NULL, offsetof(clattn_rope, length)},
               {"low", "low_freq_factor", offsetof(clattn_rope, low_factor)},
               {"high", "high_freq_factor", offsetof(clattn_rope, high_factor)},
               {"fast", "beta_fast", offsetof(clattn_rope, beta_fast)},
               {"slow", "beta_slow", offsetof(clattn_rope, beta_slow)},
               {"attention", "attention_factor", offsetof(clattn_rope, attention_factor)}};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

static void set(clattn_rope *rope, size_t n, double x) {
    memcpy((char *)rope + numbers[n].field, &x, sizeof x);
}

// Parse KEY=NUMBER. The text has `length` characters.
static bool take_number(const char *text, size_t length, clattn_rope *rope) {
    char copy[80];
    double x = 0;
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *value = strchr(copy, '=');
    if (!value) return false;
    *value++ = '\0';
    if (!number_real(value, &x)) return false;
    if (!strcmp(copy, "untruncated") && (x == 0.0 || x == 1.0)) return rope->untruncated = x == 1.0, true;
    for (size_t n = 0; n < NUMBERS; n++)
        if (!strcmp(copy, numbers[n].word) || (numbers[n].key && !strcmp(copy, numbers[n].key)))
            return set(rope, n, x), true;
    return false;
}

// The numbers that each scaling needs, and an example for the error line.
static const struct {
    bool original, length;
    const char *example;
} needed[] = {[CLATTN_ROPE_SCALING_LINEAR] = {false, false, "linear,factor=4"},
              [CLATTN_ROPE_SCALING_NTK] = {false, false, "ntk,factor=4"},
              [CLATTN_ROPE_SCALING_YARN] = {true, false, "yarn,factor=4,original=4096"},
              [CLATTN_ROPE_SCALING_LLAMA3] = {true, false, "llama3,factor=8,original=8192,low=1,high=4"},
              [CLATTN_ROPE_SCALING_DYNAMIC] = {true, true, "dynamic,factor=2,original=2048,length=4096"}};

// A number of 0 was not given.
static bool is_complete(const clattn_rope *rope, int scaling, char why[256]) {
    const char *missing = rope->factor == 0.0 ? "factor=X, which is 1 or more,"
                          : needed[scaling].original && rope->original_length == 0.0
                              ? "original=N (original_length, the context of the model's training)"
                          : needed[scaling].length && rope->length == 0.0
                              ? "length=N (the length of the sequence now)"
                              : NULL;
    if (missing)
        snprintf(why, 256, "%s is missing, as in --rope-scaling %s", missing, needed[scaling].example);
    return !missing;
}

bool rope_scaling_parse(const char *text, clattn_rope *rope, char why[256]) {
    size_t length = strcspn(text, ",");
    const int scaling = names_find(names_scalings, text, length);
    snprintf(why, 256, "%s", ROPE_SCALING_HELP);
    if (scaling < 1 || scaling == CLATTN_ROPE_SCALING_PAIRS) return false;
    rope->scaling = (clattn_rope_scaling)scaling;
    for (text += length; *text; text += length) {
        length = strcspn(++text, ",");
        if (take_number(text, length, rope)) continue;
        snprintf(why, 256,
                 "%.*s: KEY=NUMBER is needed, KEY one of factor, original, length, low, high, fast, slow, "
                 "attention and untruncated (0 or 1)",
                 length > 40 ? 40 : (int)length, text);
        return false;
    }
    return is_complete(rope, scaling, why);
}

static const char *const file_options[2] = {"positions", "k-positions"};

// Parse three numbers T,H,W and optionally ",interleaved".
static bool take_sections(void *target, const char *text, char why[256]) {
    clattn_rope *rope = &((rope_options *)target)->rope;
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

static bool take_layout(void *target, const char *value, char why[256]) {
    rope_options *o = target;
    const bool known = option_choice(value, names_ropes, &o->layout, why);
    if (known) o->rope.layout = (clattn_rope_layout)o->layout;
    return known;
}

static bool take_base(void *target, const char *value, char why[256]) {
    clattn_rope *rope = &((rope_options *)target)->rope;
    if (option_number(value, &rope->base, why) && rope->base >= 1.0) return true;
    snprintf(why, 256, "a number from 1 is needed, such as 10000");
    return false;
}

static bool take_scaling(void *target, const char *value, char why[256]) {
    return rope_scaling_parse(value, &((rope_options *)target)->rope, why);
}

option_group rope_group(rope_options *o) {
    static const option_row rows[] = {
        {"rope", "LAYOUT",
         "which columns make a pair: half (d and d + R/2, as GPT-NeoX and Llama), interleaved (2d and 2d + "
         "1, as GPT-J), or none",
         AS_CALL(take_layout)},
        {"rope-base", "X", "base of the frequencies (theta); default 10000", AS_CALL(take_base)},
        {"rope-dim", "R", "columns of a head that RoPE is applied to; default: all",
         AS_INTEGER(rope_options, rope.rotary_dim, 1, 65536)},
        {"rope-scaling", "SPEC", ROPE_SCALING_HELP, AS_CALL(take_scaling)},
        {"positions", "FILE",
         "position of each query row for --rope: integers [B or 1,Nq], with --rope-sections [3,B or 1,Nq]",
         AS_TEXT(rope_options, files[0])},
        {"k-positions", "FILE",
         "position of each key, [B or 1,Nkv], with --rope-sections [3,B or 1,Nkv]; default: those of "
         "--positions",
         AS_TEXT(rope_options, files[1])},
        {"rope-sections", "T,H,W",
         "how many pairs use each of the three axes of --positions: 16,24,24, or with alternating axes "
         "24,20,20,interleaved",
         AS_CALL(take_sections)},
    };
    return (option_group){"rotary embedding", OPTION_ROWS(rows), o};
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

int rope_options_load(rope_options *o) {
    const int rank = has_sections(&o->rope) ? 3 : 2;
    for (int i = 0; i < 2; i++) {
        if (!o->files[i]) continue;
        int status = tensors_load(file_options[i], o->files[i], rank, &o->arrays[i]);
        if (status < 0) status = tensors_narrow(file_options[i], &o->arrays[i], true);
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
