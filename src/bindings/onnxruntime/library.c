// library.c: see library.h; also RegisterCustomOps, which ONNX Runtime calls to add the operators
// to a session's options.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/call.h"
#include "onnxruntime/library.h"
#include "onnxruntime/node.h"

static const struct operation *const operators[] = {&operator_attention, &operator_rotary_embedding,
                                                    &operator_tensor_scatter, &operator_multi_head_attention,
                                                    &operator_group_query_attention};
static const char *const domains[DOMAINS] = {"", "com.microsoft"};
static const int types[TYPES] = {ORT_TYPE_F32, ORT_TYPE_F16, ORT_TYPE_BF16};
static_assert(sizeof operators / sizeof operators[0] == OPERATORS, "library.h counts them");

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
// Returns ONNX Runtime's default memory type, 0: host memory.
static int op_memory(const OrtCustomOp *op, size_t index) {
    (void)op, (void)index;
    return 0;
}
// No operator has a variable number of inputs or outputs.
static int op_none(const OrtCustomOp *op) {
    (void)op;
    return 0;
}

static OrtStatus *op_create(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                            void **made) {
    struct kernel *kernel = NULL;
    OrtStatus *status = node_kernel(own(op), &(struct node){.api = api, .info = info}, &kernel);
    *made = kernel;
    return status;
}

static void op_destroy(void *kernel) {
    free(kernel);
}

static OrtStatus *op_compute(void *kernel, OrtKernelContext *context) {
    return call_node(kernel, context);
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

static void add_op(struct library *library, const OrtApi *api, const struct operation *is, int first,
                   int second) {
    struct op *op = &library->ops[library->count++];
    *op =
        (struct op){.ort = calls, .is = is, .api = api, .device = library->device, .types = {first, second}};
    op->ort.InferOutputShapeFn = library->infers ? shapes_infer : NULL;
}

static OrtStatus *fill(struct library *library, const OrtApi *api) {
    OrtStatus *status = NULL;
    for (int n = 0; n < OPERATORS; n++) {
        const bool two = strchr(operators[n]->inputs, '2') != NULL;
        for (int i = 0; i < TYPES * (two ? TYPES : 1); i++)
            add_op(library, api, operators[n], types[i % TYPES], types[two ? i / TYPES : i]);
    }
    for (int d = 0; d < DOMAINS && status == NULL; d++)
        status = api->CreateCustomOpDomain(domains[d], &library->domain[d]);
    for (int n = 0; n < library->count && status == NULL; n++)
        for (int d = 0; d < DOMAINS && status == NULL; d++)
            if (strcmp(library->ops[n].is->domain, domains[d]) == 0)
                status = api->CustomOpDomain_Add(library->domain[d], &library->ops[n].ort);
    return status;
}

static OrtStatus *open_library(const OrtApi *api, int asked, bool infers, struct library **found) {
    char why[LINE], text[LINE + 32];
    struct library *library = calloc(1, sizeof *library);
    if (library == NULL) return api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    library->asked = asked;
    library->infers = infers;
    library->device = device_open(asked, why);
    if (library->device == NULL) {
        snprintf(text, sizeof text, "clattn: %s", why);
        free(library);
        return api->CreateStatus(ORT_FAIL, text);
    }
    OrtStatus *status = fill(library, api);
    if (status) return status; // the library is never freed, because the domains may refer to it
    library->next = atomic_load(&libraries);
    while (!atomic_compare_exchange_weak(&libraries, &library->next, library)) continue;
    *found = library;
    return NULL;
}

// The device in the session's options; -1: none.
static OrtStatus *asked_device(const OrtApi *api, const OrtSessionOptions *options, const char *entry,
                               int *number) {
    char text[8] = "", line[LINE];
    size_t size = sizeof text;
    int has = 0;
    *number = -1;
    OrtStatus *status = api->HasSessionConfigEntry(options, entry, &has);
    if (status || !has) return status;
    status = api->GetSessionConfigEntry(options, entry, text, &size);
    if (status) api->ReleaseStatus(status); // the entry is too long
    const size_t digits = strspn(text, "0123456789");
    for (size_t n = 0; n < digits && n < 2; n++) *number = (n ? 10 * *number : 0) + text[n] - '0';
    if (status == NULL && digits > 0 && digits <= 2 && text[digits] == '\0' && *number < DEVICES) return NULL;
    snprintf(line, sizeof line, "%s: the number of a device is wanted, 0 to %d", entry, DEVICES - 1);
    return api->CreateStatus(ORT_INVALID_ARGUMENT, line);
}

OrtStatus *library_of(const OrtApi *api, const OrtSessionOptions *options, const char *entry, bool infers,
                      struct library **found) {
    int asked = -1;
    OrtStatus *status = asked_device(api, options, entry, &asked);
    if (status) return status;
    *found = atomic_load(&libraries);
    while (*found && (*found)->asked != asked) *found = (*found)->next;
    return *found ? NULL : open_library(api, asked, infers, found);
}

// ONNX Runtime 1.22 and earlier crash when they infer the shapes of a node that leaves out an
// input. 1.24 does not.
static bool bears_shapes(const OrtApiBase *base) {
    const char *version = base->GetVersionString(); // such as 1.24.1
    if (strncmp(version, "1.", 2) != 0) return true;
    const size_t digits = strspn(version + 2, "0123456789");
    return digits > 2 || (digits == 2 && strncmp(version + 2, "24", 2) >= 0);
}

ORT_EXPORTED OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base);
ORT_EXPORTED OrtStatus *RegisterCustomOps(OrtSessionOptions *options, const OrtApiBase *base) {
    struct library *library = NULL;
    const OrtApi *api = base->GetApi(ORT_API_WANTED);
    if (api == NULL)
        return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED,
                                             "clattn: ONNX Runtime 1.17 or later is wanted");
    OrtStatus *status = library_of(api, options, "clattn.device", bears_shapes(base), &library);
    for (int d = 0; d < DOMAINS && status == NULL; d++)
        status = api->AddCustomOpDomain(options, library->domain[d]);
    return status;
}
