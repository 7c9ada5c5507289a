// library.c: what ONNX Runtime loads: RegisterCustomOps, which adds the operators, for each set of types, to a session's options.
// An option of the session, "clattn.device", names the device; operators of one device share a context, which stays for the process.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/call.h"

static const struct operator* const operators[] = {&operator_attention, &operator_rotary_embedding,
                                                   &operator_tensor_scatter, &operator_multi_head_attention,
                                                   &operator_group_query_attention};
static const char *const domains[] = {"", "com.microsoft"};
static const int types[] = {ORT_TYPE_F32, ORT_TYPE_F16, ORT_TYPE_BF16};
enum { OPERATORS = sizeof operators / sizeof operators[0], DOMAINS = 2, TYPES = 3 };

// The operators on one device. Sessions hold pointers into it for as long as they like, so that it is never freed.
struct library {
    struct library *next;
    struct device *device;
    OrtCustomOpDomain *domain[DOMAINS];
    struct op ops[OPERATORS * TYPES * TYPES];
    int count;
    int asked; // "clattn.device"; -1: none
};

static struct library *_Atomic libraries;

static const struct op *own(const OrtCustomOp *op) {
    return (const struct op *)op;
}

static int type_at(const struct op *op, char letter) {
    switch (letter) {
    case '1':
        return op->types[0];
    case '2':
        return op->types[1];
    case 'i':
        return ORT_TYPE_I32;
    case 'l':
        return ORT_TYPE_I64;
    case 'f':
        return ORT_TYPE_F32;
    default:
        return ORT_TYPE_ANY;
    }
}

static const char *op_name(const OrtCustomOp *op) {
    return own(op)->is->name;
}
static const char *op_provider(const OrtCustomOp *op) {
    (void)op;
    return NULL;
}
static int op_input_type(const OrtCustomOp *op, size_t index) {
    return type_at(own(op), own(op)->is->inputs[index]);
}
static size_t op_input_count(const OrtCustomOp *op) {
    return strlen(own(op)->is->inputs);
}
static int op_output_type(const OrtCustomOp *op, size_t index) {
    return type_at(own(op), own(op)->is->outputs[index]);
}
static size_t op_output_count(const OrtCustomOp *op) {
    return strlen(own(op)->is->outputs);
}
static int op_input_needed(const OrtCustomOp *op, size_t index) {
    return own(op)->is->required >> index & 1u ? ORT_REQUIRED : ORT_OPTIONAL;
}
static int op_output_needed(const OrtCustomOp *op, size_t index) {
    (void)op;
    return index == 0 ? ORT_REQUIRED : ORT_OPTIONAL;
}
static int op_memory(const OrtCustomOp *op, size_t index) { // the default: the host's
    (void)op, (void)index;
    return 0;
}
static int op_none(const OrtCustomOp *op) { // no input or output has as many tensors as a node likes
    (void)op;
    return 0;
}

static const struct {
    const char *name;
    size_t offset;
    int64_t missing; // the value of a node that does not say
} numbers[] = {
#define NUMBER(name, missing)                                                                                \
    { #name, offsetof(struct attributes, name), missing }
    NUMBER(q_num_heads, 0),
    NUMBER(kv_num_heads, 0),
    NUMBER(num_heads, 0),
    NUMBER(is_causal, 0),
    NUMBER(unidirectional, 0),
    NUMBER(left_window_size, -1),
    NUMBER(right_window_size, -1),
    NUMBER(local_window_size, -1),
    NUMBER(qk_matmul_output_mode, 0),
    NUMBER(softmax_precision, 1),
    NUMBER(qk_output, 0),
    NUMBER(interleaved, 0),
    NUMBER(do_rotary, 0),
    NUMBER(rotary_embedding_dim, 0),
    NUMBER(rotary_interleaved, 0),
    NUMBER(axis, -2),
    NUMBER(smooth_softmax, 0),
#undef NUMBER
};

// Whether a node says it; a failure of ONNX Runtime's means that it does not.
static bool said(const OrtApi *api, OrtStatus *status) {
    if (status) api->ReleaseStatus(status);
    return status == NULL;
}

static void text_attribute(const OrtApi *api, const OrtKernelInfo *info, const char *name, char text[16]) {
    size_t size = 16;
    text[0] = '\0';
    if (said(api, api->KernelInfoGetAttribute_string(info, name, text, &size))) return;
    snprintf(text, 16, "%s", size > 16 ? "(longer)" : "");
}

static void read_attributes(const OrtApi *api, const OrtKernelInfo *info, struct attributes *to) {
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
        int64_t value = 0;
        if (!said(api, api->KernelInfoGetAttribute_int64(info, numbers[n].name, &value)))
            value = numbers[n].missing;
        memcpy((char *)to + numbers[n].offset, &value, sizeof value);
    }
    to->scale_given = said(api, api->KernelInfoGetAttribute_float(info, "scale", &to->scale));
    if (!to->scale_given) to->scale = 0;
    if (!said(api, api->KernelInfoGetAttribute_float(info, "softcap", &to->softcap))) to->softcap = 0;
    if (!said(api, api->KernelInfoGetAttribute_float(info, "mask_filter_value", &to->mask_filter_value)))
        to->mask_filter_value = -10000;
    text_attribute(api, info, "mode", to->mode);
    text_attribute(api, info, "k_quant_type", to->k_quant_type);
    text_attribute(api, info, "v_quant_type", to->v_quant_type);
}

typedef OrtStatus *count_of(const OrtKernelInfo *info, size_t *count);
typedef OrtStatus *name_of(const OrtKernelInfo *info, size_t index, char *text, size_t *size);

// A bit for each input or output that has a name.
static unsigned present(const OrtApi *api, const OrtKernelInfo *info, count_of *counts, name_of *names) {
    unsigned bits = 0;
    size_t count = 0, size = 0;
    if (!said(api, counts(info, &count))) return 0;
    for (size_t n = 0; n < count && n < 32; n++)
        if (said(api, names(info, n, NULL, &size)) && size > 1)
            bits |= 1u << n; // size counts the 0 at its end
    return bits;
}

static OrtStatus *op_create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                            void **made) {
    char text[LINE];
    struct kernel *kernel = calloc(1, sizeof *kernel);
    *made = NULL;
    if (kernel == NULL) return api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    kernel->op = own(op);
    kernel->api = api;
    read_attributes(api, info, &kernel->attributes);
    kernel->inputs = present(api, info, api->KernelInfo_GetInputCount, api->KernelInfo_GetInputName);
    kernel->outputs = present(api, info, api->KernelInfo_GetOutputCount, api->KernelInfo_GetOutputName);
    const char *const why = own(op)->is->refuses(kernel);
    if (why) {
        snprintf(text, sizeof text, "clattn %s: %s", own(op)->is->name, why);
        free(kernel);
        return api->CreateStatus(ORT_NOT_IMPLEMENTED, text);
    }
    *made = kernel;
    return NULL;
}

static void op_destroy(void *kernel) {
    free(kernel);
}

// Called from any number of threads at once, also for one kernel.
static OrtStatus *op_compute(void *given, OrtKernelContext *context) {
    const struct kernel *kernel = given;
    const OrtApi *api = kernel->api;
    struct call call = {.kernel = kernel, .device = kernel->op->device, .context = context};
    call.status = api->KernelContext_GetInputCount(context, &call.inputs);
    if (call_good(&call)) call.status = api->KernelContext_GetOutputCount(context, &call.outputs);
    if (call_good(&call)) call.queue = device_take_queue(call.device);
    if (call_good(&call) && call.queue == NULL) call_refuse(&call, "clCreateCommandQueue failed");
    if (call_good(&call)) kernel->op->is->compute(&call);
    return call_end(&call);
}

static const OrtCustomOp calls = {
    .version = ORT_API_WANTED,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_input_type,
    .GetInputTypeCount = op_input_count,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_output_count,
    .KernelDestroy = op_destroy,
    .GetInputCharacteristic = op_input_needed,
    .GetOutputCharacteristic = op_output_needed,
    .GetInputMemoryType = op_memory,
    .GetVariadicInputMinArity = op_none,
    .GetVariadicInputHomogeneity = op_none,
    .GetVariadicOutputMinArity = op_none,
    .GetVariadicOutputHomogeneity = op_none,
    .CreateKernelV2 = op_create,
    .KernelComputeV2 = op_compute,
};

static void add_op(struct library *library, const struct operator* is, int first, int second) {
    library->ops[library->count++] =
        (struct op){.ort = calls, .is = is, .device = library->device, .types = {first, second}};
}

static OrtStatus *fill(struct library *library, const OrtApi *api) {
    OrtStatus *status = NULL;
    for (int n = 0; n < OPERATORS; n++) {
        const bool two = strchr(operators[n]->inputs, '2') != NULL;
        for (int i = 0; i < TYPES * (two ? TYPES : 1); i++)
            add_op(library, operators[n], types[i % TYPES], types[two ? i / TYPES : i]);
    }
    for (int d = 0; d < DOMAINS && status == NULL; d++)
        status = api->CreateCustomOpDomain(domains[d], &library->domain[d]);
    for (int n = 0; n < library->count && status == NULL; n++)
        for (int d = 0; d < DOMAINS && status == NULL; d++)
            if (strcmp(library->ops[n].is->domain, domains[d]) == 0)
                status = api->CustomOpDomain_Add(library->domain[d], &library->ops[n].ort);
    return status;
}

// Two threads may each make one for the same device, and both stay.
static OrtStatus *library_of(const OrtApi *api, int asked, struct library **found) {
    char why[LINE], text[LINE + 32];
    struct library *library = atomic_load(&libraries);
    while (library && library->asked != asked) library = library->next;
    *found = library;
    if (library) return NULL;
    library = calloc(1, sizeof *library);
    if (library == NULL) return api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    library->asked = asked;
    library->device = device_open(asked, why);
    if (library->device == NULL) {
        snprintf(text, sizeof text, "clattn: %s", why);
        free(library);
        return api->CreateStatus(ORT_FAIL, text);
    }
    OrtStatus *status = fill(library, api);
    if (status) return status; // what the domains hold stays
    library->next = atomic_load(&libraries);
    while (!atomic_compare_exchange_weak(&libraries, &library->next, library)) continue;
    *found = library;
    return NULL;
}

// The session's wish, a number of `clattn devices`; -1 where it has none.
static OrtStatus *asked_device(const OrtApi *api, const OrtSessionOptions *options, int *number) {
    char text[8] = "";
    size_t size = sizeof text;
    int has = 0;
    *number = -1;
    OrtStatus *status = api->HasSessionConfigEntry(options, "clattn.device", &has);
    if (status || !has) return status;
    const bool read = said(api, api->GetSessionConfigEntry(options, "clattn.device", text, &size));
    const size_t digits = strspn(text, "0123456789");
    for (size_t n = 0; n < digits && n < 2; n++) *number = (n ? 10 * *number : 0) + text[n] - '0';
    if (!read || digits == 0 || digits > 2 || text[digits] != '\0' || *number >= DEVICES)
        return api->CreateStatus(ORT_INVALID_ARGUMENT,
                                 "clattn.device: the number of a device is wanted, 0 to 63");
    return NULL;
}

CLATTN_API OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);
CLATTN_API OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    struct library *library = NULL;
    int number = -1;
    const OrtApi *api = base->GetApi(ORT_API_WANTED);
    if (api == NULL)
        return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED,
                                             "clattn: ONNX Runtime 1.17 or later is wanted");
    OrtStatus *status = asked_device(api, options, &number);
    if (status == NULL) status = library_of(api, number, &library);
    for (int d = 0; d < DOMAINS && status == NULL; d++)
        status = api->AddCustomOpDomain(options, library->domain[d]);
    return status;
}
