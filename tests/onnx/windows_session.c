// windows_session.c: ONNX Runtime's own DLL with clattn's library of custom operators, as Windows
// programs use them (check_windows.sh). Runs one Attention node of each model on [1, 2, 3, 8] rows,
// and compares with a result in double precision.
//
//   windows_session ONNXRUNTIME_DLL LIBRARY MODEL REFUSED
//
// REFUSED: a model that the library recognises and refuses.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

enum { HEADS = 2, ROWS = 3, WIDTH = 8, COUNT = HEADS * ROWS * WIDTH };

// Slots of OrtApi's table, whose positions are stable (src/bindings/onnxruntime/api.h).
enum {
    GET_ERROR_MESSAGE = 2,
    CREATE_ENV = 3,
    CREATE_SESSION_FROM_ARRAY = 8,
    RUN = 9,
    CREATE_SESSION_OPTIONS = 10,
    REGISTER_CUSTOM_OPS_LIBRARY = 29,
    CREATE_TENSOR_WITH_DATA = 49,
    GET_TENSOR_MUTABLE_DATA = 51,
    CREATE_CPU_MEMORY_INFO = 69
};
typedef void function(void); // any function
typedef struct api_base {
    function *const *(*get)(uint32_t version);
} api_base;
static function *const *api;
static char said[1024];

// The message of a status. NULL: no error.
static const char *words(void *status) {
    if (!status) return NULL;
    snprintf(said, sizeof said, "%s", ((const char *(*)(void *))api[GET_ERROR_MESSAGE])(status));
    return said;
}

static void held(void *status, const char *what) {
    if (!words(status)) return;
    printf("%s: %s\n", what, said);
    exit(1);
}

// Run a model's node. Returns NULL, or the error message.
static const char *run(void *env, void *options, const char *path, float in[3][COUNT], float out[COUNT]) {
    static char model[4096];
    static const int64_t sizes[] = {1, HEADS, ROWS, WIDTH};
    static const char *const inputs[] = {"q", "k", "v"}, *const outputs[] = {"y"};
    void *session = NULL, *info = NULL, *values[3] = {NULL}, *result = NULL, *data = NULL;
    FILE *file = fopen(path, "rb");
    const size_t bytes = file ? fread(model, 1, sizeof model, file) : 0;
    if (file) fclose(file);
    void *status = ((void *(*)(void *, const void *, size_t, void *, void **))api[CREATE_SESSION_FROM_ARRAY])(
        env, model, bytes, options, &session);
    if (status) return words(status);
    held(((void *(*)(int, int, void **))api[CREATE_CPU_MEMORY_INFO])(0, 0, &info), "memory");
    for (int i = 0; i < 3; i++)
        held(((void *(*)(void *, void *, size_t, const int64_t *, size_t, int, void **))
                  api[CREATE_TENSOR_WITH_DATA])(info, in[i], sizeof in[i], sizes, 4, 1, &values[i]),
             "tensor");
    status = ((void *(*)(void *, void *, const char *const *, void *const *, size_t, const char *const *,
                         size_t, void **))api[RUN])(session, NULL, inputs, values, 3, outputs, 1, &result);
    if (status) return words(status);
    held(((void *(*)(void *, void **))api[GET_TENSOR_MUTABLE_DATA])(result, &data), "result");
    memcpy(out, data, COUNT * sizeof *out);
    return NULL;
}

static double error_of(float in[3][COUNT], const float out[COUNT]) {
    double worst = 0;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < ROWS; i++) {
            double weight[ROWS], sum = 0;
            for (int j = 0; j < ROWS; j++) {
                double score = 0;
                for (int d = 0; d < WIDTH; d++)
                    score +=
                        (double)in[0][(h * ROWS + i) * WIDTH + d] * (double)in[1][(h * ROWS + j) * WIDTH + d];
                sum += weight[j] = exp(score / sqrt(WIDTH));
            }
            for (int d = 0; d < WIDTH; d++) {
                double wanted = 0;
                for (int j = 0; j < ROWS; j++)
                    wanted += weight[j] / sum * (double)in[2][(h * ROWS + j) * WIDTH + d];
                const double error = fabs(wanted - (double)out[(h * ROWS + i) * WIDTH + d]);
                worst = error <= worst ? worst : error; // a NaN error also becomes the worst
            }
        }
    return worst;
}

int main(int argc, char **argv) {
    static float in[3][COUNT], out[COUNT];
    void *env = NULL, *options = NULL, *library = NULL;
    if (argc != 5) return 2;
    HMODULE module = LoadLibraryA(argv[1]);
    const FARPROC found = module ? GetProcAddress(module, "OrtGetApiBase") : NULL;
    if (!found) {
        printf("%s is not loaded\n", argv[1]);
        return 77;
    }
    const api_base *(*base)(void);
    memcpy(&base, &found, sizeof base);
    api = base()->get(17);
    held(((void *(*)(int, const char *, void **))api[CREATE_ENV])(4, "clattn", &env), "environment");
    held(((void *(*)(void **))api[CREATE_SESSION_OPTIONS])(&options), "options");
    held(((void *(*)(void *, const char *, void **))api[REGISTER_CUSTOM_OPS_LIBRARY])(options, argv[2],
                                                                                      &library),
         "library");
    for (int i = 0; i < 3; i++)
        for (int n = 0; n < COUNT; n++) in[i][n] = (float)((n * 7 + i * 5) % 11 - 5) / 4;
    const char *why = run(env, options, argv[3], in, out);
    const double error = error_of(in, out);
    if (why || !(error < 1e-5)) {
        printf("Attention: %s, error %g\n", why ? why : "ran", error);
        return 1;
    }
    why = run(env, options, argv[4], in, out);
    if (!why || !strstr(why, "clattn")) {
        printf("what is refused does not name clattn: %s\n", why ? why : "it ran");
        return 1;
    }
    printf("Attention by clattn in ONNX Runtime, error %g; refused: %.100s\n", error, why);
    return 0;
}
