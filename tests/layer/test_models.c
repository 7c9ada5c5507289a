// test_models.c: one attention layer each of MiniLM and SmolLM2, compared with stored results.
// Random layers are in test_layer.c. Needs CLATTN_TEST_DATA, the folder of the .npy and
// .safetensors files.
#include "support/harness.h"
#include "support/case_assert.h"
#include "support/model_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Tolerances that float32 implementations meet.
#define OUT_TOLERANCE 1e-5
#define WEIGHTS_TOLERANCE 2e-6

static struct model_tensor load(const char *file, const char *tensor) {
    char path[1024];
    harness_data_path(file, path, sizeof path);
    struct model_tensor loaded = tensor == NULL ? model_load_npy(path) : model_load_safetensors(path, tensor);
    ck_assert_msg(loaded.values != NULL, "cannot read %s %s", path, tensor != NULL ? tensor : "");
    return loaded;
}

static void replace(double **values, const char *file, const char *tensor) {
    free(*values);
    *values = load(file, tensor).values;
}

// Results [B, heads, N, size] (heads may be 1). Rows of item b from lengths[b] on are padding.
struct stored {
    const double *got, *want;
    const double *lengths; // NULL: all rows are compared
    int64_t batch, heads, n, size;
    double tolerance;
};

static void compare(const struct stored *s, const char *what) {
    double largest = 0;
    for (int64_t c = 0; c < s->batch * s->heads * s->n * s->size; c++) {
        int64_t i = c / s->size % s->n, b = c / s->size / s->n / s->heads;
        if (s->lengths == NULL || (double)i < s->lengths[b])
            largest = fmax(largest, fabs(s->got[c] - s->want[c]));
    }
    printf("%s: largest difference %.2g\n", what, largest);
    ck_assert_msg(largest <= s->tolerance, "%s differs by %g, may by %g", what, largest, s->tolerance);
}

static void check(const struct case_data *data, const char *model, const double *lengths) {
    const struct test_case *t = &data->test;
    char name[64];
    snprintf(name, sizeof name, "%s_layer0_out.npy", model);
    struct model_tensor out = load(name, NULL);
    snprintf(name, sizeof name, "%s_layer0_weights.npy", model);
    struct model_tensor weights = load(name, NULL);
    struct case_result got = case_run(data, harness()->queue);
    ck_assert_msg(got.status == CLATTN_OK, "%s", harness_log_text());
    ck_assert_msg(got.intact, "bytes around an output changed");
    compare(&(struct stored){got.out, out.values, lengths, t->batch, 1, t->n_q, t->width_out, OUT_TOLERANCE},
            model);
    if (got.weights != NULL)
        compare(&(struct stored){got.weights, weights.values, lengths, t->batch, t->heads, t->n_q, t->n_kv,
                                 WEIGHTS_TOLERANCE},
                "its weights");
    case_result_free(&got);
    model_free(&out);
    model_free(&weights);
}

// With weights (unfused), without weights (the planner's kernel), and with each kernel by name.
static void check_kernels(struct case_data *data, const char *model, const double *lengths) {
    data->test.weights = true;
    check(data, model, lengths);
    data->test.weights = false;
    for (int n = 0; n < CLATTN_KERNEL_DECODE; n++) {
        data->test.kernel = (clattn_kernel)n;
        check(data, model, lengths);
    }
}

START_TEST(minilm) {
    static const char file[] = "minilm_layer0.safetensors";
    static const char *const names[] = {"self.query", "self.key", "self.value", "output.dense"};
    struct test_case test = {
        .op = CASE_LAYER, .name = "MiniLM", .batch = 3, .n_q = 24, .width = 384, .heads = 12, .head_dim = 32};
    int32_t lengths[3];
    test.biases = LAYER_ALL_BIASES;
    if (harness_data_folder() == NULL) return;
    struct case_data *data = case_make(&test);
    replace(&data->x, "minilm_layer0_x.npy", NULL);
    for (int m = 0; m < LAYER_MATRICES; m++) {
        char name[128];
        snprintf(name, sizeof name, "encoder.layer.0.attention.%s.weight", names[m]);
        replace(&data->matrix[m], file, name);
        snprintf(name, sizeof name, "encoder.layer.0.attention.%s.bias", names[m]);
        replace(&data->matrix_bias[m], file, name);
    }
    struct model_tensor stored = load("minilm_layer0_lengths.npy", NULL);
    for (int b = 0; b < 3; b++) lengths[b] = (int32_t)stored.values[b];
    data->test.score.kv_lengths = lengths;
    check_kernels(data, "minilm", stored.values);
    data->test.score.q_lengths = lengths;
    check(data, "minilm", stored.values);
    model_free(&stored);
    case_free(data);
}
END_TEST

START_TEST(smollm2) {
    static const char file[] = "smollm2_layer0.safetensors";
    static const char *const names[] = {"q_proj", "k_proj", "v_proj", "o_proj"};
    struct test_case test = {
        .op = CASE_LAYER, .name = "SmolLM2", .n_q = 40, .width = 576, .heads = 9, .kv_heads = 3};
    test.head_dim = 64;
    test.score.causal = true;
    test.rope.layout = CLATTN_ROPE_HALF;
    test.rope.base = 100000;
    if (harness_data_folder() == NULL) return;
    struct case_data *data = case_make(&test);
    replace(&data->x, "smollm2_layer0_x.npy", NULL);
    for (int m = 0; m < LAYER_MATRICES; m++) {
        char name[128];
        snprintf(name, sizeof name, "model.layers.0.self_attn.%s.weight", names[m]);
        replace(&data->matrix[m], file, name);
    }
    check_kernels(data, "smollm2", NULL);
    case_free(data);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {minilm, smollm2, NULL};
    if (harness_data_folder() == NULL) {
        printf("skipped: CLATTN_TEST_DATA is not set\n");
        return HARNESS_SKIP;
    }
    Suite *suite = suite_create("models");
    harness_add(suite, "models", tests);
    return harness_run(suite);
}
