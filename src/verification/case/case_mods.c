// case_mods.c: see case_mods.h.
#include "verification/case/case_mods.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/case/case_ragged.h"
#include "verification/reference/reference.h"
#include "verification/device/opencl.h"

#if defined(__GNUC__)
__attribute__((__format__(__printf__, 2, 3)))
#endif
static void
add(char text[CASE_MOD_SIZE], const char *format, ...) {
    const size_t used = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + used, CASE_MOD_SIZE - used, format, list);
    va_end(list);
}

// The arguments of bufferN for a map's last axes.
static const char *of_map(int rank) {
    static const char *const axes[] = {"", "j", "row, j", "h, row, j", "b, h, row, j"};
    return axes[rank];
}

// Bind one number for each head or batch item.
static clattn_tensor bind_numbers(struct place *place, struct guarded *to, clattn_type type, int64_t count,
                                  const double *values) {
    const struct guarded_shape shape = {type, 1, {count}, LAYOUT_LOOSE};
    *to = guarded_input(place, &shape, values);
    return to->view;
}

static void bind_slopes(const struct case_data *data, struct place *place, struct case_arrays *a,
                        clattn_score *s, int *buffers) {
    const int64_t heads = data->test.heads;
    double *values = reference_alloc(heads);
    for (int64_t h = 0; h < heads; h++) values[h] = (double)s->alibi_slopes[h];
    s->mod_buffers[*buffers] = bind_numbers(place, &a->mods[*buffers], CLATTN_TYPE_F32, heads, values);
    free(values);
    add(a->score_mod, " - buffer%d(h) * (float)abs(i - j)", (*buffers)++);
    s->alibi_slopes = NULL;
}

static void bind_lengths(const struct case_data *data, struct place *place, struct case_arrays *a,
                         clattn_score *s, int *buffers) {
    double *values = reference_alloc(data->test.batch);
    for (int64_t b = 0; b < data->test.batch; b++) values[b] = s->kv_lengths[b];
    s->mod_buffers[*buffers] =
        bind_numbers(place, &a->mods[*buffers], CLATTN_TYPE_I32, data->test.batch, values);
    free(values);
    add(a->mask_mod, " && j < buffer%d(b)", (*buffers)++);
    s->kv_lengths = NULL;
}

static void bind_intervals(struct case_arrays *a, clattn_score *s) {
    if (s->causal) add(a->mask_mod, " && j <= i");
    s->causal = false;
    if (s->window && s->window_left >= 0) add(a->mask_mod, " && i - j <= %d", (int)s->window_left);
    if (s->window && s->window_right >= 0) add(a->mask_mod, " && j - i <= %d", (int)s->window_right);
    s->window = false;
}

// Put window, causality and lengths into one buffer. All cases with equal other options then share
// one text and one kernel.
static void bind_read(const struct case_data *data, struct place *place, struct case_arrays *a,
                      clattn_score *s, bool lengths, int n) {
    const struct test_case *t = &data->test;
    const double all = 1 << 29, right = s->window && s->window_right >= 0 ? s->window_right : all;
    double *values = reference_alloc(t->batch + 2);
    values[0] = s->window && s->window_left >= 0 ? s->window_left : all;
    values[1] = s->causal && right > 0 ? 0 : right;
    for (int64_t b = 0; b < t->batch; b++) values[b + 2] = lengths ? s->kv_lengths[b] : (double)t->n_kv;
    s->mod_buffers[n] = bind_numbers(place, &a->mods[n], CLATTN_TYPE_I32, t->batch + 2, values);
    free(values);
    add(a->mask_mod, " && i - j <= buffer%d(0) && j - i <= buffer%d(1) && j < buffer%d(b + 2)", n, n, n);
    s->causal = s->window = false;
    if (lengths) s->kv_lengths = NULL;
}

void case_mods_bind(const struct case_data *data, struct place *place, struct case_arrays *a,
                    clattn_score *s) {
    const struct test_case *t = &data->test;
    int buffers = 0;
    strcpy(a->score_mod, "score");
    strcpy(a->mask_mod, "true");
    strcpy(a->score_mod_gradient, "1.0f");
    // Keep the softcap if the case returns scores: a tap before the softcap must not contain it.
    if (s->softcap > 0.0f && !t->scores) {
        snprintf(a->score_mod, CASE_MOD_SIZE, "(float)%.9g * tanh(score / (float)%.9g)", (double)s->softcap,
                 (double)s->softcap);
        snprintf(a->score_mod_gradient, CASE_MOD_SIZE,
                 "1 - tanh(score / (float)%.9g) * tanh(score / (float)%.9g)", (double)s->softcap,
                 (double)s->softcap);
        s->softcap = 0.0f;
    }
    if (guarded_given(&a->bias.view)) {
        s->mod_buffers[buffers] = s->bias;
        s->bias = (clattn_tensor){0};
        add(a->score_mod, " + buffer%d(%s)", buffers++, of_map(t->bias.rank));
    }
    if (s->alibi_slopes) bind_slopes(data, place, a, s, &buffers);
    if (guarded_given(&a->mask.view)) {
        s->mod_buffers[buffers] = s->mask;
        s->mask = (clattn_tensor){0};
        add(a->mask_mod, " && buffer%d(%s)", buffers++, of_map(t->mask.rank));
    }
    // Key lengths also determine row positions, the place of appended rows and the end of a
    // sequence. Keep them in these cases.
    const bool needed = t->append || case_ragged_has_gaps(t);
    const bool lengths = s->kv_lengths && !needed && s->alignment != CLATTN_ALIGN_BOTTOM_RIGHT && !t->scores;
    if (t->mods_read) {
        bind_read(data, place, a, s, lengths, buffers);
    } else {
        bind_intervals(a, s);
        if (lengths) bind_lengths(data, place, a, s, &buffers);
    }
    s->score_mod = a->score_mod;
    s->mask_mod = a->mask_mod;
}

void case_blocks_bind(const struct case_data *data, struct place *place, struct case_arrays *a) {
    const struct test_case *t = &data->test;
    const bool shared = t->seed % 2 == 0; // all heads have the same block mask
    const struct guarded_shape shape = {CLATTN_TYPE_BOOL,
                                        4,
                                        {t->batch, shared ? 1 : t->heads,
                                         (t->n_q + CLATTN_BLOCK_ROWS - 1) / CLATTN_BLOCK_ROWS,
                                         (t->n_kv + CLATTN_BLOCK_KEYS - 1) / CLATTN_BLOCK_KEYS},
                                        t->layout};
    clattn_attention_params *p = &a->params;
    a->blocks = guarded_output(place, &shape);
    p->score.block_mask = a->blocks.view;
    case_blocks_fill(place, p);
}

void case_blocks_fill(struct place *place, const clattn_attention_params *p) {
    char why[256];
    const clattn_status status = clattn_block_mask_enqueue(place->context, place->queue, p, 0, NULL, NULL);
    if (status != CLATTN_OK) place_broken(place, place_message(place, status, why), 0);
    clFinish(place->queue); // the call may run on another queue
}
