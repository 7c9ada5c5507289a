// provider.c: a plug-in execution provider, "clattn". It selects the nodes of a session that its
// operators can compute, and leaves refused ones to other providers. Its tensors are in host
// memory, like those of the custom operators.
#include <stdlib.h>
#include <string.h>

#include "onnxruntime/call.h"
#include "onnxruntime/library.h"
#include "onnxruntime/node.h"
#include "onnxruntime/provider_api.h"

static const char provider_name[] = "clattn";

// Objects that ONNX Runtime holds. Each begins with the struct that ONNX Runtime knows.
struct factory {
    OrtEpFactory ort;
    const OrtApi *api;
    const OrtEpApi *calls;
};
struct provider {
    OrtEp ort;
    const struct factory *factory;
    struct library *library;
    OrtKernelRegistry *registry;
};
struct provided {
    OrtKernelImpl ort;
    struct kernel *kernel;
};

static OrtStatus *provided_compute(OrtKernelImpl *kernel, OrtKernelContext *context) {
    return call_node(((struct provided *)kernel)->kernel, context);
}

static void provided_release(OrtKernelImpl *kernel) {
    free(((struct provided *)kernel)->kernel);
    free(kernel);
}

// `state` is the operator for its types.
static OrtStatus *provided_create(void *state, const OrtKernelInfo *info, OrtKernelImpl **made) {
    const struct op *op = state;
    struct provided *provided = calloc(1, sizeof *provided);
    *made = NULL;
    if (provided == NULL) return op->api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    OrtStatus *status = node_kernel(op, &(struct node){.api = op->api, .info = info}, &provided->kernel);
    if (status) free(provided);
    if (status) return status;
    provided->ort = (OrtKernelImpl){
        .version = ORT_API_OF_PROVIDERS, .Compute = provided_compute, .Release = provided_release};
    *made = &provided->ort;
    return NULL;
}

static OrtStatus *constrain(const OrtEpApi *calls, OrtKernelDefBuilder *builder, const struct op *op) {
    const bool two = strchr(op->is->inputs, '2') != NULL;
    OrtStatus *status = NULL;
    for (int n = 0; n < 1 + two && status == NULL; n++) {
        const OrtDataType *type = NULL;
        status = calls->GetTensorDataType(op->types[n], &type);
        if (status == NULL)
            status = calls->KernelDefBuilder_AddTypeConstraint(builder,
                                                               !two ? "T"
                                                               : n  ? "T2"
                                                                    : "T1",
                                                               &type, 1);
    }
    return status;
}

static OrtStatus *register_op(const OrtEpApi *calls, OrtKernelRegistry *registry, struct op *op) {
    OrtKernelDefBuilder *builder = NULL;
    OrtKernelDef *definition = NULL;
    OrtStatus *status = calls->CreateKernelDefBuilder(&builder);
    if (status == NULL) status = calls->KernelDefBuilder_SetOperatorType(builder, op->is->name);
    if (status == NULL) status = calls->KernelDefBuilder_SetDomain(builder, op->is->domain);
    if (status == NULL)
        status = calls->KernelDefBuilder_SetSinceVersion(builder, op->is->opsets[0], op->is->opsets[1]);
    if (status == NULL) status = calls->KernelDefBuilder_SetExecutionProvider(builder, provider_name);
    if (status == NULL) status = constrain(calls, builder, op);
    if (status == NULL) status = calls->KernelDefBuilder_Build(builder, &definition);
    if (status == NULL) status = calls->KernelRegistry_AddKernel(registry, definition, provided_create, op);
    if (definition) calls->ReleaseKernelDef(definition);
    if (builder) calls->ReleaseKernelDefBuilder(builder);
    return status;
}

static const char *provider_name_of(const OrtEp *ep) {
    (void)ep;
    return provider_name;
}

static OrtStatus *provider_registry(OrtEp *ep, const OrtKernelRegistry **registry) {
    *registry = ((struct provider *)ep)->registry;
    return NULL;
}

// Select a node if a kernel with its types exists and does not refuse it.
static OrtStatus *consider(const struct provider *provider, const OrtNode *node,
                           OrtEpGraphSupportInfo *info) {
    const OrtApi *api = provider->factory->api;
    const OrtEpApi *calls = provider->factory->calls;
    const OrtKernelDef *definition = NULL;
    struct kernel kernel = {.api = api};
    const struct node asked = {.api = api, .node = node};
    OrtStatus *status = calls->EpGraphSupportInfo_LookUpKernel(info, node, &definition);
    if (status || definition == NULL) return status;
    kernel.op = node_op(&asked, provider->library);
    if (kernel.op == NULL) return NULL;
    node_read(&asked, &kernel);
    return kernel.op->is->refuses(&kernel) ? NULL : calls->EpGraphSupportInfo_AddSingleNode(info, node);
}

static OrtStatus *provider_capability(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info) {
    const struct provider *provider = (const struct provider *)ep;
    const OrtApi *api = provider->factory->api;
    size_t count = 0;
    OrtStatus *status = api->Graph_GetNumNodes(graph, &count);
    if (status || count == 0) return status;
    const OrtNode **nodes = calloc(count, sizeof *nodes);
    if (nodes == NULL) return api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    status = api->Graph_GetNodes(graph, nodes, count);
    for (size_t n = 0; n < count && status == NULL; n++) status = consider(provider, nodes[n], info);
    free(nodes);
    return status;
}

static void provider_release(OrtEpFactory *factory, OrtEp *ep) {
    struct provider *provider = (struct provider *)ep;
    if (provider && provider->registry)
        ((struct factory *)factory)->calls->ReleaseKernelRegistry(provider->registry);
    free(provider);
}

static OrtStatus *provider_create(OrtEpFactory *given, const OrtHardwareDevice *const *devices,
                                  const OrtKeyValuePairs *const *pairs, size_t count,
                                  const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **made) {
    const struct factory *factory = (const struct factory *)given;
    struct provider *provider = calloc(1, sizeof *provider);
    (void)devices, (void)pairs, (void)count, (void)logger;
    *made = NULL;
    if (provider == NULL) return factory->api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    provider->ort = (OrtEp){.version = ORT_API_OF_PROVIDERS,
                            .GetName = provider_name_of,
                            .GetCapability = provider_capability,
                            .GetKernelRegistry = provider_registry};
    provider->factory = factory;
    OrtStatus *status = library_of(factory->api, options, "ep.clattn.device", true, &provider->library);
    if (status == NULL) status = factory->calls->CreateKernelRegistry(&provider->registry);
    for (int n = 0; status == NULL && n < provider->library->count; n++)
        status = register_op(factory->calls, provider->registry, &provider->library->ops[n]);
    if (status)
        provider_release(given, &provider->ort);
    else
        *made = &provider->ort;
    return status;
}

static const char *factory_name(const OrtEpFactory *factory) {
    (void)factory;
    return provider_name;
}

static uint32_t factory_vendor_id(const OrtEpFactory *factory) {
    (void)factory;
    return 0;
}

static const char *factory_version(const OrtEpFactory *factory) {
    (void)factory;
    return CLATTN_VERSION_STRING;
}

// Offer the host CPU, because tensors are in its memory. The session's option selects the OpenCL
// device that computes.
static OrtStatus *factory_devices(OrtEpFactory *given, const OrtHardwareDevice *const *devices, size_t count,
                                  OrtEpDevice **found, size_t most, size_t *found_count) {
    const struct factory *factory = (const struct factory *)given;
    OrtStatus *status = NULL;
    *found_count = 0;
    for (size_t n = 0; n < count && *found_count < most && status == NULL; n++) {
        if (factory->api->HardwareDevice_Type(devices[n]) != ORT_DEVICE_CPU) continue;
        status = factory->calls->CreateEpDevice(given, devices[n], NULL, NULL, &found[*found_count]);
        if (status == NULL) ++*found_count;
    }
    return status;
}

static OrtStatus *no_allocator(OrtEpFactory *factory, const void *memory, const OrtKeyValuePairs *options,
                               void **allocator) {
    (void)factory, (void)memory, (void)options;
    *allocator = NULL; // the host's
    return NULL;
}

static void no_release(OrtEpFactory *factory, void *allocator) {
    (void)factory, (void)allocator;
}

static OrtStatus *no_transfer(OrtEpFactory *factory, void **transfer) {
    (void)factory;
    *transfer = NULL;
    return NULL;
}

static bool no_streams(const OrtEpFactory *factory) {
    (void)factory;
    return false;
}

ORT_EXPORTED OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                          OrtEpFactory **factories, size_t most, size_t *count);
ORT_EXPORTED OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base, const OrtLogger *logger,
                                          OrtEpFactory **factories, size_t most, size_t *count) {
    const OrtApi *api = base->GetApi(ORT_API_OF_PROVIDERS);
    (void)name, (void)logger;
    *count = 0;
    if (api == NULL)
        return base->GetApi(1)->CreateStatus(ORT_NOT_IMPLEMENTED,
                                             "clattn: ONNX Runtime 1.24 or later is wanted");
    struct factory *factory = most ? calloc(1, sizeof *factory) : NULL;
    if (factory == NULL) return api->CreateStatus(ORT_FAIL, "clattn: out of memory");
    factory->ort = (OrtEpFactory){.version = ORT_API_OF_PROVIDERS,
                                  .GetName = factory_name,
                                  .GetVendor = factory_name,
                                  .GetSupportedDevices = factory_devices,
                                  .CreateEp = provider_create,
                                  .ReleaseEp = provider_release,
                                  .GetVendorId = factory_vendor_id,
                                  .GetVersion = factory_version,
                                  .CreateAllocator = no_allocator,
                                  .ReleaseAllocator = no_release,
                                  .CreateDataTransfer = no_transfer,
                                  .IsStreamAware = no_streams};
    factory->api = api;
    factory->calls = api->GetEpApi();
    factories[(*count)++] = &factory->ort;
    return NULL;
}

ORT_EXPORTED OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);
ORT_EXPORTED OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
    free(factory);
    return NULL;
}
