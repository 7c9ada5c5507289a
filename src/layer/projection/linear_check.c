// linear_check.c: the checks that one projection and a layer's projections share.
#include "layer/projection/linear.h"

#define MAX_SIDE                                                                                             \
    (INT32_MAX - 65536) // of W: kernels count its columns in 32 bits, and step past the end by a tile

// A matrix of blocks has rows of whole ones.
static clattn_status check_sides(clattn_context *c, const clattn_tensor *w, const int64_t shape[2],
                                 const tensor_rule *rule) {
    const int numbers = clattn_type_numbers(w->type);
    if (shape[1] % numbers)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT,
                                "%s: %lld columns in blocks of %s: must be a multiple of %d", rule->name,
                                (long long)shape[1], clattn_type_name(w->type), numbers);
    return cla_tensor_check_shape(c, w, (const int64_t[2]){shape[0], shape[1] / numbers}, rule);
}

clattn_status cla_linear_check_matrix(clattn_context *c, const clattn_tensor *w, const clattn_tensor *b,
                                      const int64_t shape[2], const char *const names[2], bool planning) {
    const tensor_rule weight = {names[0], "[out, in]", TYPES_WEIGHTS, false, planning};
    const tensor_rule bias = {names[1], "[out]", TYPES_FLOAT, false, planning};
    const int64_t longest = shape[0] > shape[1] ? shape[0] : shape[1];
    TRY(cla_tensor_check(c, w, 2, &weight));
    TRY(check_sides(c, w, shape, &weight));
    if (longest > MAX_SIDE)
        return cla_context_fail(c, CLATTN_INVALID_ARGUMENT, "%s: a side of %lld: at most %d are possible",
                                names[0], (long long)longest, MAX_SIDE);
    if (!cla_tensor_given(b)) return CLATTN_OK;
    TRY(cla_tensor_check(c, b, 1, &bias));
    return cla_tensor_check_shape(c, b, shape, &bias);
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
