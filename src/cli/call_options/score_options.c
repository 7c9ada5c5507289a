// score_options.c: see call_options.h.
#include "cli/call_options/call_options.h"

#include <limits.h>

#include "verification/words/words.h"
#include "cli/files/formats.h"

// Options whose file has one number for each head (floats) or each batch item (integers). `field`
// is the offset of the pointer in clattn_score that receives the numbers.
typedef enum score_axis { AXIS_HEADS, AXIS_BATCH } score_axis;
static const struct score_file {
    const char *option, *help;
    score_axis axis;
    size_t field;
} score_files[] = {
#define HOST(name, key, of_heads, per, low, high, field, option, help)                                       \
    {option, help, of_heads ? AXIS_HEADS : AXIS_BATCH, offsetof(clattn_score, field)},
#include "verification/sets/hosts.def"
#undef HOST
};

static const char *const causal_names[] = {"none", "top-left", "bottom-right", "offset", NULL};
static const char *const align_names[] = {"top-left", "bottom-right", "offset", NULL};

static bool take_window(void *target, const char *value, char why[256]) {
    clattn_score *p = &((score_options *)target)->score;
    int64_t left = 0, right = 0;
    const bool two = number_whole_at(&value, &left) && *value++ == ',' && number_whole(value, &right);
    if (!two || left < -1 || right < -1 || left > INT32_MAX || right > INT32_MAX) {
        snprintf(why, 256,
                 "two whole numbers L,R from -1 to %d are needed, such as 127,0; -1 leaves a side open",
                 INT32_MAX);
        return false;
    }
    p->window = true;
    p->window_left = (int32_t)left;
    p->window_right = (int32_t)right;
    return true;
}

static bool take_seed(void *target, const char *value, char why[256]) {
    score_options *o = target;
    int64_t n = 0;
    o->seeded = option_integer(value, 0, INT64_MAX, &n, why);
    o->score.dropout_seed = (uint64_t)n;
    return o->seeded;
}

static bool take_buffer(void *target, const char *value, char why[256]) {
    score_options *o = target;
    snprintf(why, 256, "at most %d are possible: buffer0 to buffer%d", CLATTN_MOD_BUFFERS,
             CLATTN_MOD_BUFFERS - 1);
    if (o->buffers == CLATTN_MOD_BUFFERS) return false;
    o->buffer[o->buffers++] = value;
    return true;
}

static const option_row plain_rows[] = {
    {"scale", "X", "factor of the scores (softmax_scale); 0, the default, is 1/sqrt(D)",
     AS_NUMBER(score_options, score.scale)},
    {"softcap", "X", "limit scores s to X tanh(s / X), before bias and masks; 0, the default: no limit",
     AS_NUMBER(score_options, score.softcap)},
    {"causal", "MODE",
     "alignment of the causal mask: none (no mask), top-left (as torch), bottom-right (as FlashAttention), "
     "or offset",
     AS_WORD(score_options, causal, causal_names)},
    {"offset", "N|FILE",
     "position of query row 0 among the keys, for --causal offset: one integer, or [B] in a file",
     AS_TEXT(score_options, offset)},
    {"align", "MODE",
     "how --window and --alibi count positions if --causal is none: top-left, which is the default, "
     "bottom-right or offset",
     AS_WORD(score_options, align, align_names)},
    {"window", "L,R", "a row sees keys from its position - L to its position + R; -1 leaves a side open",
     AS_CALL(take_window)},
    {"mask", "FILE",
     "bool mask, true keeps the key: [Nkv], [Nq,Nkv], [H,Nq,Nkv] or [B,H,Nq,Nkv]; a size of 1 is broadcast",
     AS_TEXT(score_options, mask)},
    {"bias", "FILE", "floats that are added to the scores, shaped as --mask", AS_TEXT(score_options, bias)},
    {"score-mod", "EXPR",
     "the new score: an OpenCL C expression over score, b, h, i (query), j (key), row, q_length, kv_length "
     "and bufferN(...), such as 'score - 0.1f * abs(i - j)'",
     AS_TEXT(score_options, score.score_mod)},
    {"mask-mod", "EXPR",
     "an expression over the same words except score; the key is hidden if it is 0: 'j <= i && buffer0(b, j) "
     "!= 0'",
     AS_TEXT(score_options, score.mask_mod)},
    {"mods-unchecked", NULL,
     "accept every --score-mod and --mask-mod that the compiler accepts. Such code can read and write memory "
     "and end the process: use it only for trusted expressions. Without this option an expression can only "
     "be slow or wrong",
     AS_SWITCH(score_options, mods_unchecked)},
    {"buffer", "FILE...",
     "an array of 1 to 4 axes that an expression reads as buffer0(x0, ...); up to four times, for buffer0 to "
     "buffer3; f32, f16, bf16, bool, i32 or i64",
     AS_CALL(take_buffer)},
    {"kernel", "NAME", "auto, unfused, flash or decode", AS_CHOICE(score_options, kernel, names_kernels)},
    {"splits", "N",
     "how many ranges of keys the decode kernel runs in parallel; 0, the default, is automatic",
     AS_INTEGER(score_options, splits, 0, 65536)},
    {"dropout", "P", "drop each attention weight with this probability: 0 or more, below 1",
     AS_NUMBER(score_options, score.dropout)},
    {"seed", "S", "seed of --dropout; equal seeds keep equal weights on every device", AS_CALL(take_seed)},
};
#define PLAIN_ROWS ((int)(sizeof plain_rows / sizeof plain_rows[0]))
_Static_assert(sizeof plain_rows / sizeof plain_rows[0] + SCORE_FILES <= SCORE_ROWS, "room in score_options");

option_group score_group(score_options *o) {
    memcpy(o->rows, plain_rows, sizeof plain_rows);
    int rows = PLAIN_ROWS;
    for (int i = 0; i < SCORE_FILES; i++)
        if (score_files[i].help)
            o->rows[rows++] =
                (option_row){.name = score_files[i].option,
                             .value = "FILE",
                             .help = score_files[i].help,
                             .field = offsetof(score_options, file) + (size_t)i * sizeof o->file[0]};
    return (option_group){"scores and masks", o->rows, rows, o};
}

static int choose_alignment(score_options *o) {
    clattn_score *p = &o->score;
    char why[256];
    int causal = 0, align = 0;
    if (o->causal) option_choice(o->causal, causal_names, &causal, why);
    if (o->align) option_choice(o->align, align_names, &align, why);
    if (causal && o->align)
        return tool_wrong("--align: is for --causal none; --causal %s sets the alignment", o->causal);
    p->causal = causal != 0;
    p->alignment = (clattn_alignment)(causal ? causal - 1 : align);
    if (o->offset && p->alignment != CLATTN_ALIGN_OFFSET)
        return tool_wrong("--offset: needs --causal offset or --align offset");
    if (!o->offset && p->alignment == CLATTN_ALIGN_OFFSET)
        return tool_wrong("--%s offset: needs --offset N or --offset FILE", causal ? "causal" : "align");
    return -1;
}

int score_options_integers(const char *option, const char *spec, int64_t count, int32_t **result) {
    array a;
    if (!spec) return -1;
    int status = tensors_load(option, spec, 1, &a);
    if (status >= 0) return status;
    if ((a.type != ARRAY_I32 && a.type != ARRAY_I64) || a.shape[0] != count)
        status = tool_wrong("--%s: holds %s of size %lld: i32 or i64 of size %lld is needed", option,
                            array_type_name(a.type), (long long)a.shape[0], (long long)count);
    else if (!(*result = calloc((size_t)count + 1, sizeof **result)))
        status = tool_failed("no memory");
    for (int64_t i = 0; status < 0 && i < count; i++) {
        const int64_t x = a.type == ARRAY_I64 ? ((const int64_t *)a.data)[i] : ((const int32_t *)a.data)[i];
        if (x > INT32_MAX || x < INT32_MIN)
            status =
                tool_wrong("--%s: item %lld is %lld: must fit 32 bits", option, (long long)i, (long long)x);
        (*result)[i] = (int32_t)x;
    }
    array_free(&a);
    return status;
}

static bool is_float(array_type type) {
    return type == ARRAY_F32 || type == ARRAY_F16 || type == ARRAY_BF16;
}

static int load_floats(const char *option, const char *spec, int64_t count, float **result) {
    array a;
    if (!spec) return -1;
    int status = tensors_load(option, spec, 1, &a);
    if (status >= 0) return status;
    if (!is_float(a.type) || a.shape[0] != count)
        status = tool_wrong("--%s: holds %s of size %lld: floats of size H = %lld are needed", option,
                            array_type_name(a.type), (long long)a.shape[0], (long long)count);
    else if (!array_to_f32(&a, result))
        status = tool_failed("no memory");
    array_free(&a);
    return status;
}

static int load_offset(score_options *o, int64_t batch) {
    char why[256];
    int64_t n;
    if (!o->offset) return -1;
    if (option_integer(o->offset, INT32_MIN, INT32_MAX, &n, why)) {
        o->score.offset = (int32_t)n;
        return -1;
    }
    return score_options_integers("offset", o->offset, batch, &o->offsets);
}

// Load the file of one row of score_files. `o` owns the numbers, and o->score points to them.
static int load_file(score_options *o, int i, int64_t count) {
    const struct score_file *file = &score_files[i];
    char *field = (char *)&o->score + file->field;
    int32_t *integers = NULL;
    float *floats = NULL;
    int status = file->axis == AXIS_HEADS
                     ? load_floats(file->option, o->file[i], count, &floats)
                     : score_options_integers(file->option, o->file[i], count, &integers);
    if (floats) memcpy(field, &floats, sizeof floats), o->values[i] = floats;
    if (integers) memcpy(field, &integers, sizeof integers), o->values[i] = integers;
    return status;
}

// Load one buffer that an expression reads.
static int load_buffer(score_options *o, int n) {
    const int status = tensors_load("buffer", o->buffer[n], -1, &o->buffer_array[n]);
    return status >= 0 ? status : tensors_narrow("buffer", &o->buffer_array[n], false);
}

// Reject options that have no effect because another option is missing.
static int check_effects(const score_options *o) {
    const bool mods = o->score.score_mod || o->score.mask_mod;
    const bool positions = o->rope || o->score.window || o->file[SCORE_ALIBI] || mods;
    if (o->buffers && !mods) return tool_wrong("--buffer: has no effect without --score-mod or --mask-mod");
    if (o->mods_unchecked && !mods)
        return tool_wrong("--mods-unchecked: has no effect without --score-mod or --mask-mod");
    if (o->seeded && o->score.dropout == 0.0f) return tool_wrong("--seed: has no effect without --dropout P");
    if (o->align && !positions)
        return tool_wrong("--align: has no effect without --window, --alibi or --rope, which count "
                          "positions; or use --causal %s",
                          o->align);
    return -1;
}

int score_options_load(score_options *o, int64_t batch, int64_t heads) {
    int status = choose_alignment(o);
    if (status < 0) status = check_effects(o);
    if (status < 0) status = load_offset(o, batch);
    for (int i = 0; status < 0 && i < SCORE_FILES; i++)
        status = load_file(o, i, score_files[i].axis == AXIS_HEADS ? heads : batch);
    const bool maps = !o->maps_later;
    if (status < 0 && o->mask && maps) status = tensors_load("mask", o->mask, -1, &o->mask_array);
    if (status < 0 && o->bias && maps) status = tensors_load("bias", o->bias, -1, &o->bias_array);
    for (int n = 0; status < 0 && n < o->buffers; n++) status = load_buffer(o, n);
    return status < 0 && maps ? score_options_types(o) : status;
}

int score_options_types(const score_options *o) {
    if (o->mask && o->mask_array.type != ARRAY_BOOL)
        return tool_wrong(
            "--mask: holds %s: bool is needed, true keeps a key%s", array_type_name(o->mask_array.type),
            is_float(o->mask_array.type) ? "; --bias takes floats, which are added to the scores"
                                         : " (numpy: x.astype(bool))");
    if (o->bias && !is_float(o->bias_array.type))
        return tool_wrong(
            "--bias: holds %s: floats are needed, which are added to the scores; --mask takes bool",
            array_type_name(o->bias_array.type));
    return -1;
}

int score_options_upload(score_options *o, tensors *t) {
    int status = -1;
    o->score.offsets = o->offsets;
    if (o->mask) status = tensors_upload(t, &o->mask_array, &o->score.mask);
    if (status < 0 && o->bias) status = tensors_upload(t, &o->bias_array, &o->score.bias);
    for (int n = 0; status < 0 && n < o->buffers; n++)
        status = tensors_upload(t, &o->buffer_array[n], &o->score.mod_buffers[n]);
    return status;
}

void score_options_free(score_options *o) {
    array_free(&o->mask_array);
    array_free(&o->bias_array);
    for (int n = 0; n < o->buffers; n++) array_free(&o->buffer_array[n]);
    free(o->offsets);
    for (int i = 0; i < SCORE_FILES; i++) free(o->values[i]);
}
