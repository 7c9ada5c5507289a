/* Tuned rows: a text, and some bytes that select a problem to plan with the rows. Accepted rows
 * must lead to a plan, or to a refusal with a message, for every problem. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "plan/families/family.h"

static void check_rows(const tuned_rows *rows) {
    FUZZ_CHECK(rows->count >= 0 && (rows->count == 0) == (rows->rows == NULL));
    for (int i = 0; i < rows->count; i++) {
        FUZZ_CHECK((unsigned)rows->rows[i].id < TUNED_CLBLAST_KERNELS + CLBLAST_KERNELS);
        for (int k = 0; k < CONDITION_COUNT; k++)
            FUZZ_CHECK(rows->rows[i].when[k].least <= rows->rows[i].when[k].most);
    }
}

static problem make_problem(fuzz_bytes *b) {
    static const int rows[] = {1, 2, 16, 33, 97, 1000, 70000, INT32_MAX - 65536};
    static const int heads[] = {1, 2, 8, 64, 96, 128, 257, 4096};
    problem p = {.batch = 1 + fuzz_below(b, 3), .kv_heads = 1 + fuzz_below(b, 3)};
    p.heads = p.kv_heads * (1 + fuzz_below(b, 4));
    p.n_q = rows[fuzz_below(b, 8)], p.n_kv = rows[fuzz_below(b, 8)];
    p.head_dim = heads[fuzz_below(b, 8)], p.head_dim_v = heads[fuzz_below(b, 8)];
    p.type_q = p.type_out = (clattn_type)fuzz_below(b, 3);
    p.type_kv = (clattn_type)fuzz_below(b, 3);
    p.kernel = (clattn_kernel)fuzz_below(b, CLATTN_KERNEL_COUNT);
    p.wants_weights = fuzz_byte(b) & 1;
    p.splits = fuzz_below(b, 5);
    return p;
}

static void plan(const tuned_rows *rows, fuzz_bytes *b) {
    const clattn_capabilities device = {.is_cpu = fuzz_byte(b) & 1,
                                        .float_vector_width = 1u << fuzz_below(b, 5),
                                        .compute_units = 2,
                                        .max_work_group = 1u << (6 + fuzz_below(b, 7)),
                                        .max_work_item = {4096, 4096, 4096},
                                        .local_memory_bytes = 1u << (14 + fuzz_below(b, 7)),
                                        .max_allocation_bytes = UINT64_C(1) << 34,
                                        .address_bits = 64};
    const problem p = make_problem(b);
    const plan_input in = {.device = &device, .own = rows};
    const linear_problem linear = {.rows = p.n_q, .columns = p.n_kv, .reduction = p.head_dim};
    linear_choice choice;
    variant v;
    char why[256] = "";
    if (cla_variant_choose(&in, &p, &v) == CLATTN_OK)
        cla_variant_explain(&in, &p, &v, why);
    else
        cla_variant_refusal(&v, why);
    FUZZ_CHECK(why[0]);
    (void)cla_variant_choose_linear(&in, &linear, true, &choice);
}

bool fuzz_one(const uint8_t *data, size_t size) {
    char why[256] = "";
    tuned_rows rows;
    fuzz_bytes b = {data, size};
    /* The text comes first, so that a seed is readable. The problem follows its first NUL. */
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t length = nul ? (size_t)(nul - data) : size;
    char *text = malloc(length + 1);
    if (!text) return false;
    if (length) memcpy(text, data, length);
    text[length] = '\0';
    const bool good = cla_tuned_parse(text, &rows, why, sizeof why);
    free(text);
    FUZZ_CHECK(good == (why[0] == '\0'));
    check_rows(&rows);
    b.at += length, b.left -= length;
    (void)fuzz_byte(&b);
    if (good) plan(&rows, &b);
    const bool any = good && rows.count > 0;
    cla_tuned_free(&rows);
    return any;
}
