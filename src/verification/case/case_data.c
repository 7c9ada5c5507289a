// case_data.c: random inputs; see case_data.h. case_contents.c has the hostile ones.
#include "verification/case/case_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/allocate.h"
#include "verification/case/case_kv.h"
#include "verification/case/case_layer.h"
#include "verification/case/case_positions.h"
#include "verification/case/case_shape.h"
#include "verification/reference/reference.h"
#include "verification/reference/storage.h"

double *case_random(struct random *random, int64_t count, clattn_type type, double size) {
    double *values = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) values[n] = storage_round(type, random_uniform(random, -size, size));
    if (clattn_type_numbers(type) > 1) storage_round_blocks(type, values, count);
    return values;
}

// Keep three keys in four; every nonzero byte is true.
static double *random_mask(struct random *random, int64_t count) {
    static const double bytes[] = {0, 1, 2, 255};
    double *mask = reference_alloc(count);
    for (int64_t n = 0; n < count; n++) mask[n] = bytes[(int)random_uniform(random, 0, 4)];
    return mask;
}

// The range of a tensor's random numbers, chosen so that the results of every stage are about 1 in
// size.
static double size_of(const struct test_case *t, int tensor) {
    // Larger, so that gates are not all close to 1/2.
    if (tensor == CASE_GATE) return 4 / sqrt((double)t->width);
    if (tensor >= CASE_MATRIX_BIAS && tensor < CASE_MASK) return 1;
    if (tensor < CASE_MATRIX || tensor >= CASE_MASK) return 2;
    return 2 / sqrt((double)case_matrix_columns(t, tensor - CASE_MATRIX));
}

// Make one input. A large tensor's table is longer than its period by one row.
static double *random_input(const struct test_case *t, int tensor, struct random *random) {
    const struct guarded_shape shape = case_shape(t, tensor);
    const int64_t numbers = clattn_type_numbers(shape.type), count = guarded_shape_count(&shape) * numbers;
    if (shape.rank == 0) return NULL;
    const int64_t period = GUARDED_PERIOD_OF(shape.type), table = count < period ? count : period,
                  more = count > table ? shape.shape[shape.rank - 1] * numbers : 0;
    double *x = tensor == CASE_MASK ? random_mask(random, table)
                                    : case_random(random, table, shape.type, size_of(t, tensor));
    double *whole = more > 0 ? realloc(x, (size_t)(table + more) * sizeof *x) : x;
    if (whole == NULL) {
        free(x);
        return reference_alloc(table + more);
    }
    for (int64_t n = table; n < table + more; n++) whole[n] = whole[n - table];
    return whole;
}

static double host_value(const struct test_case *t, int host, int64_t n, struct random *random) {
    const struct case_host_row *row = &case_hosts[host];
    const double per = row->per == CASE_PER_ROWS   ? (double)t->n_q
                       : row->per == CASE_PER_KEYS ? (double)t->n_kv
                                                   : 1.0;
    if (t->given[host].count > 0) return t->given[host].x[n];
    const double x = random_uniform(random, row->low, row->high * per + (row->of_heads ? 0 : 1));
    return row->of_heads ? x : floor(x);
}

static void make_host(struct case_data *data, int host, struct random *random) {
    const struct test_case *t = &data->test;
    const bool of_heads = case_hosts[host].of_heads;
    const int64_t count = of_heads ? t->heads : t->batch;
    char *field = (char *)&data->test.score + case_hosts[host].field;
    float *floats = NULL;
    int32_t *integers = NULL;
    if (!(t->hosts & CASE_HOST_BIT(host))) return;
    if (of_heads)
        floats = data->floats[host] = calloc((size_t)count + 1, sizeof *floats);
    else
        integers = data->integers[host] = calloc((size_t)count + 1, sizeof *integers);
    for (int64_t n = 0; (floats != NULL || integers != NULL) && n < count; n++) {
        const double x = host_value(t, host, n, random);
        if (of_heads)
            floats[n] = (float)x;
        else
            integers[n] = (int32_t)x;
    }
    memcpy(field, of_heads ? (void *)&floats : (void *)&integers, sizeof floats);
}

struct case_data *case_make(const struct test_case *test) {
    struct case_data *data = evidence_zeros(1, sizeof *data);
    struct random random = {test->seed + 1};
    data->test = case_complete(test);
    for (int n = 0; n < CASE_INPUTS; n++) data->input[n] = random_input(&data->test, n, &random);
    for (int host = 0; host < CASE_HOSTS; host++) make_host(data, host, &random);
    case_kv_make(data);
    case_layer_make(data);
    case_positions_make(data);
    case_contents_fill(data);
    case_kv_hide(data);
    case_kv_store(data);
    return data;
}

void case_free(struct case_data *data) {
    for (int n = 0; n < CASE_INPUTS; n++) free(data->input[n]);
    for (int host = 0; host < CASE_HOSTS; host++) {
        free(data->floats[host]);
        free(data->integers[host]);
    }
    case_kv_free(data);
    for (int n = 0; n < 2; n++) free(data->positions[n]);
    free(data);
}
