// linear_check.c: the checks that single projections and layers share.
#include "layer/projection/linear.h"

// Rows of a matrix in blocks consist of whole blocks.
static clattn_status check_sides(clattn_context *c, const linear_given *m, const tensor_rule *rule) {
    const int numbers = clattn_type_numbers(m->w->type);
    if (m->shape[1] % numbers)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: %lld columns in blocks of %s: must be a multiple of %d", rule->name,
                                (long long)m->shape[1], clattn_type_name(m->w->type), numbers);
    return cla_tensor_check_shape(c, m->w, (const int64_t[2]){m->shape[0], m->shape[1] / numbers}, rule);
}

// One scale for each row, or for each group of numbers in a row.
static clattn_status check_scale_shape(clattn_context *c, const linear_given *m) {
    const clattn_tensor *t = m->scale;
    const int64_t groups = t->rank == 2 ? t->shape[1] : 1;
    if (t->shape[0] != m->shape[0])
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: %lld rows of scales: %s has %lld rows",
                                m->names[2], (long long)t->shape[0], m->names[0], (long long)m->shape[0]);
    if (groups >= 1 && m->shape[1] % groups == 0 && (groups == 1 || m->shape[1] / groups % 32 == 0))
        return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                            "%s: %lld groups of rows of %lld numbers: each must have a multiple of 32",
                            m->names[2], (long long)groups, (long long)m->shape[1]);
}

static clattn_status check_zero(clattn_context *c, const linear_given *m, const tensor_rule *scale) {
    const clattn_tensor *t = m->zero, *of = m->scale;
    tensor_rule rule = *scale;
    rule.name = m->names[3];
    TRY(cla_tensor_check(c, t, of->rank, &rule));
    bool same = t->type == of->type;
    for (int i = 0; i < t->rank; i++)
        same = same && t->shape[i] == of->shape[i] && (t->shape[i] <= 1 || t->stride[i] == of->stride[i]);
    return same ? CLATTN_OK
                : cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                   "%s: its type, shape and strides must be those of %s", m->names[3],
                                   m->names[2]);
}

// Scales and zero points are allowed only for types that use them.
static clattn_status check_scales(clattn_context *c, const linear_given *m, bool planning) {
    const bool scaled = CLATTN_TYPE_IS_SCALED(m->w->type), zero = cla_tensor_given(m->zero);
    tensor_rule rule = {m->names[2], "[M] or [M, groups]", TYPES_FLOAT, false, planning};
    if (!scaled && !cla_tensor_given(m->scale) && !zero) return CLATTN_OK;
    if (!scaled)
        return cla_context_fail(
            c, CLATTN_INVALID_ARGUMENT, "%s: is for weights of i8, float8, i4 and u4, %s is of %s",
            m->names[cla_tensor_given(m->scale) ? 2 : 3], m->names[0], clattn_type_name(m->w->type));
    if (m->scale->rank != 2) rule.types |= ANY_LAST_STRIDE;
    TRY(cla_tensor_check(c, m->scale, m->scale->rank == 2 ? 2 : 1, &rule));
    TRY(check_scale_shape(c, m));
    return zero ? check_zero(c, m, &rule) : CLATTN_OK;
}

clattn_status cla_linear_check_matrix(clattn_context *c, const linear_given *m, bool planning) {
    const tensor_rule weight = {m->names[0], "[out, in]", TYPES_WEIGHTS, false, planning};
    const tensor_rule bias = {m->names[1], "[out]", TYPES_FLOAT, false, planning};
    const int64_t longest = m->shape[0] > m->shape[1] ? m->shape[0] : m->shape[1];
    TRY(cla_tensor_check(c, m->w, 2, &weight));
    TRY(check_sides(c, m, &weight));
    if (longest > ARGS_MOST_ROWS)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: a side of %lld: at most %d are possible",
                                m->names[0], (long long)longest, ARGS_MOST_ROWS);
    if (m->scale) TRY(check_scales(c, m, planning));
    if (!cla_tensor_given(m->b)) return CLATTN_OK;
    TRY(cla_tensor_check(c, m->b, 1, &bias));
    return cla_tensor_check_shape(c, m->b, m->shape, &bias);
}

int cla_linear_scale_group(const clattn_tensor *w, const clattn_tensor *scale) {
    if (!CLATTN_TYPE_IS_SCALED(w->type)) return 0;
    return scale->rank == 2 && scale->shape[1] > 1 ? (int)(cla_tensor_width(w) / scale->shape[1]) : 1;
}

clattn_status cla_linear_check_projection(clattn_context *c, clattn_projection wanted) {
    if ((unsigned)wanted >= CLATTN_PROJECTION_COUNT)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "projection: %d is none of CLATTN_PROJECTION_*",
                                (int)wanted);
    const bool without = wanted == CLATTN_PROJECTION_CLBLAST && !cla_clblast_available(c);
    return without ? cla_clblast_refuse(c) : CLATTN_OK;
}

clattn_status cla_linear_check_precision(clattn_context *c, clattn_precision precision) {
    if ((unsigned)precision < CLATTN_PRECISION_COUNT) return CLATTN_OK;
    return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "precision: %d is none of CLATTN_PRECISION_*",
                            (int)precision);
}

view_use cla_linear_output_use(clattn_projection wanted) {
    return wanted == CLATTN_PROJECTION_NATIVE ? VIEW_WRITE : VIEW_BOTH;
}
