// bench_baseline.c: see bench_baseline.h. The reported peak memory does not include CLBlast's own
// temporary copies.
#include "cli/bench/bench_baseline.h"
#include "verification/device/opencl.h"

#include <math.h>

#ifdef CLATTN_HAVE_CLBLAST
#include <clblast_c.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

// CLBlast is loaded when a bench first needs it. It links with OpenCL, and the program does not.
static struct {
    __typeof__(&CLBlastSgemmStridedBatched) multiply;
    __typeof__(&CLBlastClearCache) clear;
} clblast;

#ifdef _WIN32
static void *look_in(const char *library, const char *name) {
    const HMODULE module = LoadLibraryExA(library, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    const FARPROC function = module ? GetProcAddress(module, name) : NULL;
    void *symbol = NULL;
    memcpy(&symbol, &function, sizeof symbol);
    return symbol;
}
#else
static void *look_in(const char *library, const char *name) {
    void *module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return module ? dlsym(module, name) : NULL;
}
#endif

static bool have_clblast(void) {
    static const char *const names[] = {"libclblast.so.1", "libclblast.so", "libclblast.1.dylib",
                                        "libclblast.dylib", "clblast.dll"};
    for (size_t i = 0; !clblast.clear && i < sizeof names / sizeof names[0]; i++) {
        void *multiply = look_in(names[i], "CLBlastSgemmStridedBatched"),
             *clear = look_in(names[i], "CLBlastClearCache");
        if (!multiply || !clear) continue;
        // ISO C has no cast from an object pointer to a function pointer
        memcpy(&clblast.multiply, &multiply, sizeof multiply);
        memcpy(&clblast.clear, &clear, sizeof clear);
    }
    return clblast.clear != NULL;
}

struct composition {
    session *session;
    struct test_case c;
    composition_buffers buffers;
    cl_kernel softmax;
    size_t group;
};

// The softmax: one work-group a row. A masked score becomes the weight 0. With WIDTH 1, loads are
// scalar.
static const char softmax_source[] =
    "#if WIDTH == 1\n"
    "#define VEC float\n"
    "#define LOAD(k, x) (x)[k]\n"
    "#define STORE(v, k, x) (x)[k] = (v)\n"
    "#else\n"
    "#define JOIN_(a, b) a##b\n"
    "#define JOIN(a, b) JOIN_(a, b)\n"
    "#define VEC JOIN(float, WIDTH)\n"
    "#define LOAD(k, x) JOIN(vload, WIDTH)(k, x)\n"
    "#define STORE(v, k, x) JOIN(vstore, WIDTH)(v, k, x)\n"
    "#endif\n"
    "float reduce_group(__local float *part, float own, int is_sum) {\n"
    "  const int item = (int)get_local_id(0);\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n" // the previous reduction's partial values have been read
    "  part[item] = own;\n"
    "  for (int half_group = GROUP / 2; half_group > 0; half_group /= 2) {\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (item < half_group) {\n"
    "      const float other = part[item + half_group];\n"
    "      part[item] = is_sum ? part[item] + other : fmax(part[item], other);\n"
    "    }\n"
    "  }\n"
    "  barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  return part[0];\n"
    "}\n"
    "__kernel void softmax_rows(__global float *x, float scale, int n, int n_kv, int causal) {\n"
    "  __local float part[GROUP];\n"
    "  const int item = (int)get_local_id(0), i = (int)(get_group_id(0) % (size_t)n);\n"
    "  const int keys = causal ? clamp(i + 1 + n_kv - n, 0, n_kv) : n_kv, whole = keys / WIDTH;\n"
    "  float lanes[WIDTH], most = -INFINITY, sum = 0.0f;\n"
    "  VEC mosts = (VEC)(-INFINITY), sums = (VEC)(0.0f);\n"
    "  x += get_group_id(0) * (size_t)n_kv;\n"
    "  for (int k = item; k < whole; k += GROUP) mosts = fmax(mosts, LOAD(k, x));\n"
    "  for (int j = whole * WIDTH + item; j < keys; j += GROUP) most = fmax(most, x[j]);\n"
    "  STORE(mosts, 0, lanes);\n"
    "  for (int w = 0; w < WIDTH; w++) most = fmax(most, lanes[w]);\n"
    "  most = reduce_group(part, most, 0);\n"
    "  for (int k = item; k < whole; k += GROUP) {\n"
    "    const VEC e = exp((LOAD(k, x) - most) * scale);\n"
    "    sums += e;\n"
    "    STORE(e, k, x);\n"
    "  }\n"
    "  for (int j = whole * WIDTH + item; j < keys; j += GROUP) sum += x[j] = exp((x[j] - most) * scale);\n"
    "  STORE(sums, 0, lanes);\n"
    "  for (int w = 0; w < WIDTH; w++) sum += lanes[w];\n"
    "  const float factor = 1.0f / reduce_group(part, sum, 1);\n"
    "  for (int k = item; k < whole; k += GROUP) STORE(LOAD(k, x) * factor, k, x);\n"
    "  for (int j = whole * WIDTH + item; j < keys; j += GROUP) x[j] *= factor;\n"
    "  for (int j = keys + item; j < n_kv; j += GROUP) x[j] = 0.0f;\n"
    "}\n";

static bool cannot(char why[256], const char *what) {
    snprintf(why, 256, "%s", what);
    return false;
}

bool composition_can(const struct test_case *c, char why[256]) {
    if (!have_clblast()) return cannot(why, "CLBlast's composition: libclblast was not found");
    const double heads = (double)c->batch * (double)c->heads;
    const double rows = heads * (double)c->n_q, keys = heads * (double)c->n_kv;
    struct test_case plain = {.op = c->op, .composed = true, .no_lse = true};
    char name[CASE_NAME_SIZE], wanted[CASE_NAME_SIZE];
    plain.batch = c->batch, plain.heads = c->heads, plain.kv_heads = c->kv_heads;
    plain.n_q = c->n_q, plain.n_kv = c->n_kv, plain.head_dim = c->head_dim, plain.head_dim_v = c->head_dim_v;
    plain.q_type = plain.kv_type = plain.out_type = c->q_type;
    plain.seed = c->seed;
    plain.score.causal = c->score.causal;
    plain.score.alignment = c->score.alignment;
    if (strcmp(case_name(c, name), case_name(&plain, wanted)) != 0 ||
        (c->score.causal && c->score.alignment != CLATTN_ALIGN_BOTTOM_RIGHT))
        return cannot(why,
                      "CLBlast's composition: supports sizes and bottom-right causality, no other option");
    if (c->q_type != CLATTN_TYPE_F32)
        return cannot(
            why,
            "CLBlast's composition: supports float32 only, because its half product accumulates in half");
    if (c->kv_heads != c->heads)
        return cannot(why, "CLBlast's composition: needs as many key/value heads as heads, because its "
                           "batches cannot share a matrix");
    if (fmax(rows * (double)c->n_kv,
             fmax(rows, keys) * (double)(c->head_dim > c->head_dim_v ? c->head_dim : c->head_dim_v)) >
        INT32_MAX)
        return cannot(why, "CLBlast's composition: supports only matrices below 2^31 elements");
    return true;
}

// On a CPU, a group is one work-item that uses the device's vector width. On other devices, a group
// is the largest power of two up to 256 work-items that the device allows.
static void shape_of(const clattn_capabilities *of, size_t *group, unsigned *width) {
    *group = 1, *width = 1;
    while (of->is_cpu && *width < 16 && *width * 2 <= of->float_vector_width) *width *= 2;
    while (!of->is_cpu && *group < 256 && *group * 2 <= of->max_work_group) *group *= 2;
}

static bool build_softmax(composition *c, char why[256]) {
    const cl_device_id device = c->session->device.device;
    const char *source = softmax_source;
    char options[64];
    unsigned width;
    cl_int code;
    shape_of(c->session->capabilities, &c->group, &width);
    snprintf(options, sizeof options, "-DGROUP=%zu -DWIDTH=%u", c->group, width);
    cl_program program =
        clCreateProgramWithSource(clattn_context_opencl(c->session->context), 1, &source, NULL, &code);
    if (program) code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (program && code == CL_SUCCESS) c->softmax = clCreateKernel(program, "softmax_rows", &code);
    if (program) clReleaseProgram(program);
    if (c->softmax) return true;
    snprintf(why, 256, "CLBlast's composition: its softmax does not build: OpenCL error %d", (int)code);
    return false;
}

composition *composition_create(session *s, const struct test_case *c, const composition_buffers *buffers,
                                char why[256]) {
    composition *made = malloc(sizeof *made);
    if (!made) {
        cannot(why, "no memory");
        return NULL;
    }
    *made = (composition){.session = s, .c = *c, .buffers = *buffers};
    if (build_softmax(made, why)) return made;
    free(made);
    return NULL;
}

// c[rows, columns] = a[rows, inner] b, one product for each head. b is [inner, columns], or
// [columns, inner] if transposed (`transposed`).
typedef struct product {
    cl_mem a, b, c;
    bool transposed;
    int64_t rows, columns, inner;
} product;

static bool multiply(composition *c, const product *p, cl_event *event, char why[256]) {
    const size_t m = (size_t)p->rows, n = (size_t)p->columns, k = (size_t)p->inner;
    cl_command_queue queue = c->session->queue;
    const CLBlastStatusCode code = clblast.multiply(
        CLBlastLayoutRowMajor, CLBlastTransposeNo, p->transposed ? CLBlastTransposeYes : CLBlastTransposeNo,
        m, n, k, 1.0f, p->a, 0, k, m * k, p->b, 0, p->transposed ? k : n, n * k, 0.0f, p->c, 0, n, m * n,
        (size_t)(c->c.batch * c->c.heads), &queue, event);
    if (code != CLBlastSuccess) snprintf(why, 256, "CLBlastSgemmStridedBatched: error %d", (int)code);
    return code == CLBlastSuccess;
}

static bool enqueue_softmax(composition *c, char why[256]) {
    const size_t global = (size_t)(c->c.batch * c->c.heads * c->c.n_q) * c->group;
    const cl_float scale = 1.0f / sqrtf((float)c->c.head_dim);
    const cl_int n = (cl_int)c->c.n_q, n_kv = (cl_int)c->c.n_kv, causal = c->c.score.causal;
    clSetKernelArg(c->softmax, 0, sizeof c->buffers.scores, &c->buffers.scores);
    clSetKernelArg(c->softmax, 1, sizeof scale, &scale);
    clSetKernelArg(c->softmax, 2, sizeof n, &n);
    clSetKernelArg(c->softmax, 3, sizeof n_kv, &n_kv);
    clSetKernelArg(c->softmax, 4, sizeof causal, &causal);
    const cl_int code =
        clEnqueueNDRangeKernel(c->session->queue, c->softmax, 1, NULL, &global, &c->group, 0, NULL, NULL);
    if (code != CL_SUCCESS) snprintf(why, 256, "softmax: OpenCL error %d", (int)code);
    return code == CL_SUCCESS;
}

bool composition_enqueue(composition *c, cl_event *event, char why[256]) {
    const composition_buffers *b = &c->buffers;
    const product scores = {b->q, b->k, b->scores, true, c->c.n_q, c->c.n_kv, c->c.head_dim};
    const product values = {b->scores, b->v, b->out, false, c->c.n_q, c->c.head_dim_v, c->c.n_kv};
    return multiply(c, &scores, NULL, why) && enqueue_softmax(c, why) && multiply(c, &values, event, why);
}

void composition_destroy(composition *c) {
    if (!c) return;
    clReleaseKernel(c->softmax);
    clblast.clear();
    free(c);
}
#else
bool composition_can(const struct test_case *c, char why[256]) {
    (void)c;
    snprintf(why, 256, "CLBlast's composition: this build has no CLBlast");
    return false;
}
composition *composition_create(session *s, const struct test_case *c, const composition_buffers *buffers,
                                char why[256]) {
    (void)s, (void)buffers;
    composition_can(c, why);
    return NULL;
}
bool composition_enqueue(composition *c, cl_event *event, char why[256]) {
    (void)c, (void)event;
    return composition_can(NULL, why);
}
void composition_destroy(composition *c) {
    (void)c;
}
#endif
