// provider_api.h: the interface of a plug-in execution provider, version 24: the structs that it
// fills, and the functions that it calls in addition to those of api.h. Functions that the provider
// lacks, and fields of later versions, are NULL.
//
// Source: onnxruntime_ep_c_api.h of ONNX Runtime 1.24.
#ifndef CLATTN_ONNXRUNTIME_PROVIDER_API_H
#define CLATTN_ONNXRUNTIME_PROVIDER_API_H
#include <stdbool.h>

#include "onnxruntime/api.h"

#define ORT_API_OF_PROVIDERS 24 // the first version with kernels in providers

typedef struct OrtLogger OrtLogger;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtDataType OrtDataType;
typedef struct OrtKernelImpl OrtKernelImpl;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;

enum { ORT_DEVICE_CPU = 0 };

struct OrtKernelImpl {
    uint32_t version, flags;
    OrtStatus *(*Compute)(OrtKernelImpl *kernel, OrtKernelContext *context);
    void (*Release)(OrtKernelImpl *kernel);
    ort_unused *others[6];
};

typedef OrtStatus *ort_create_kernel(void *state, const OrtKernelInfo *info, OrtKernelImpl **kernel);

struct OrtEp {
    uint32_t version;
    const char *(*GetName)(const OrtEp *ep);
    OrtStatus *(*GetCapability)(OrtEp *ep, const OrtGraph *graph, OrtEpGraphSupportInfo *info);
    ort_unused *others[10];
    OrtStatus *(*GetKernelRegistry)(OrtEp *ep, const OrtKernelRegistry **registry);
    ort_unused *later[16];
};

struct OrtEpFactory {
    uint32_t version;
    const char *(*GetName)(const OrtEpFactory *factory);
    const char *(*GetVendor)(const OrtEpFactory *factory);
    OrtStatus *(*GetSupportedDevices)(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                                      size_t count, OrtEpDevice **found, size_t most, size_t *found_count);
    OrtStatus *(*CreateEp)(OrtEpFactory *factory, const OrtHardwareDevice *const *devices,
                           const OrtKeyValuePairs *const *pairs, size_t count,
                           const OrtSessionOptions *options, const OrtLogger *logger, OrtEp **ep);
    void (*ReleaseEp)(OrtEpFactory *factory, OrtEp *ep);
    uint32_t (*GetVendorId)(const OrtEpFactory *factory);
    const char *(*GetVersion)(const OrtEpFactory *factory);
    ort_unused *compatibility;
    OrtStatus *(*CreateAllocator)(OrtEpFactory *factory, const void *memory, const OrtKeyValuePairs *options,
                                  void **allocator);
    void (*ReleaseAllocator)(OrtEpFactory *factory, void *allocator);
    OrtStatus *(*CreateDataTransfer)(OrtEpFactory *factory, void **transfer);
    bool (*IsStreamAware)(const OrtEpFactory *factory);
    ort_unused *later[16];
};

typedef struct OrtEpApi {
    OrtStatus *(*CreateEpDevice)(OrtEpFactory *factory, const OrtHardwareDevice *device,
                                 const OrtKeyValuePairs *metadata, const OrtKeyValuePairs *options,
                                 OrtEpDevice **made);
    ort_unused *unused1[2];
    OrtStatus *(*EpGraphSupportInfo_AddSingleNode)(OrtEpGraphSupportInfo *info, const OrtNode *node);
    ort_unused *unused4[14];
    OrtStatus *(*CreateKernelRegistry)(OrtKernelRegistry **registry);
    void (*ReleaseKernelRegistry)(OrtKernelRegistry *registry);
    OrtStatus *(*KernelRegistry_AddKernel)(OrtKernelRegistry *registry, const OrtKernelDef *kernel,
                                           ort_create_kernel *create, void *state);
    OrtStatus *(*CreateKernelDefBuilder)(OrtKernelDefBuilder **builder);
    void (*ReleaseKernelDefBuilder)(OrtKernelDefBuilder *builder);
    OrtStatus *(*KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder *builder, const char *name);
    OrtStatus *(*KernelDefBuilder_SetDomain)(OrtKernelDefBuilder *builder, const char *domain);
    OrtStatus *(*KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder *builder, int first, int last);
    OrtStatus *(*KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder *builder, const char *name);
    ort_unused *unused27[2];
    OrtStatus *(*KernelDefBuilder_AddTypeConstraint)(OrtKernelDefBuilder *builder, const char *name,
                                                     const OrtDataType *const *types, size_t count);
    ort_unused *unused30[2];
    OrtStatus *(*KernelDefBuilder_Build)(OrtKernelDefBuilder *builder, OrtKernelDef **kernel);
    void (*ReleaseKernelDef)(OrtKernelDef *kernel);
    ort_unused *unused34[6];
    OrtStatus *(*GetTensorDataType)(int element, const OrtDataType **type);
    OrtStatus *(*EpGraphSupportInfo_LookUpKernel)(OrtEpGraphSupportInfo *info, const OrtNode *node,
                                                  const OrtKernelDef **kernel);
} OrtEpApi;

#define ORT_EP_SLOT(name, number)                                                                            \
    static_assert(offsetof(OrtEpApi, name) == (number) * sizeof(ort_unused *), "the place of " #name)
ORT_EP_SLOT(CreateKernelRegistry, 18);
ORT_EP_SLOT(KernelDefBuilder_AddTypeConstraint, 29);
ORT_EP_SLOT(KernelDefBuilder_Build, 32);
ORT_EP_SLOT(EpGraphSupportInfo_LookUpKernel, 41);
#endif
