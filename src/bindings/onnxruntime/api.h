// api.h: the part of ONNX Runtime's C interface that the module uses. No wheel contains the header,
// so the used part is declared here: the slots of OrtApi's table, whose positions never change, and
// all of OrtCustomOp.
//
// Source: onnxruntime_c_api.h, and the table ort_api_1_to_25 in onnxruntime_c_api.cc, of ONNX
// Runtime 1.25.
#ifndef CLATTN_ONNXRUNTIME_API_H
#define CLATTN_ONNXRUNTIME_API_H
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

// Marks functions that ONNX Runtime finds by name. The module exports nothing else. CLATTN_API
// marks exports of clattn.
#ifdef _WIN32
#define ORT_EXPORTED __declspec(dllexport)
#else
#define ORT_EXPORTED CLATTN_API
#endif

// Since version 17 (ONNX Runtime 1.17), operators with one name and several types share one schema.
#define ORT_API_WANTED 17

typedef struct OrtStatus OrtStatus; // NULL: success
typedef struct OrtValue OrtValue;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtCustomOp OrtCustomOp;
// Types of graphs, for provider_api.h.
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtHardwareDevice OrtHardwareDevice;
struct OrtEpApi;

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9 };

// Element types: the numbers of TensorProto::DataType.
enum {
    ORT_TYPE_ANY = 0,
    ORT_TYPE_F32 = 1,
    ORT_TYPE_I32 = 6,
    ORT_TYPE_I64 = 7,
    ORT_TYPE_BOOL = 9,
    ORT_TYPE_F16 = 10,
    ORT_TYPE_BF16 = 16
};

enum { ORT_ATTRIBUTE_INT = 1, ORT_ATTRIBUTE_FLOAT = 3, ORT_ATTRIBUTE_STRING = 5 };

enum { ORT_REQUIRED = 0, ORT_OPTIONAL = 1 };

typedef void ort_unused(void);

typedef struct OrtApi {
    OrtStatus *(*CreateStatus)(int code, const char *message);
    ort_unused *unused1[25];
    OrtStatus *(*CreateCustomOpDomain)(const char *name, OrtCustomOpDomain **domain);
    OrtStatus *(*CustomOpDomain_Add)(OrtCustomOpDomain *domain, const OrtCustomOp *op);
    OrtStatus *(*AddCustomOpDomain)(OrtSessionOptions *options, OrtCustomOpDomain *domain);
    ort_unused *unused29[22];
    OrtStatus *(*GetTensorMutableData)(OrtValue *value, void **data);
    ort_unused *unused52[3];
    OrtStatus *(*CastTypeInfoToTensorInfo)(const OrtTypeInfo *info, const OrtTensorTypeAndShapeInfo **tensor);
    ort_unused *unused56[1];
    OrtStatus *(*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo **info);
    OrtStatus *(*SetTensorElementType)(OrtTensorTypeAndShapeInfo *info, int type);
    OrtStatus *(*SetDimensions)(OrtTensorTypeAndShapeInfo *info, const int64_t *sizes, size_t count);
    OrtStatus *(*GetTensorElementType)(const OrtTensorTypeAndShapeInfo *info, int *type);
    OrtStatus *(*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo *info, size_t *count);
    OrtStatus *(*GetDimensions)(const OrtTensorTypeAndShapeInfo *info, int64_t *sizes, size_t count);
    OrtStatus *(*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo *info, const char **names,
                                        size_t count);
    ort_unused *unused64[1];
    OrtStatus *(*GetTensorTypeAndShape)(const OrtValue *value, OrtTensorTypeAndShapeInfo **info);
    ort_unused *unused66[19];
    OrtStatus *(*KernelInfoGetAttribute_float)(const OrtKernelInfo *info, const char *name, float *value);
    OrtStatus *(*KernelInfoGetAttribute_int64)(const OrtKernelInfo *info, const char *name, int64_t *value);
    OrtStatus *(*KernelInfoGetAttribute_string)(const OrtKernelInfo *info, const char *name, char *text,
                                                size_t *size);
    OrtStatus *(*KernelContext_GetInputCount)(const OrtKernelContext *context, size_t *count);
    OrtStatus *(*KernelContext_GetOutputCount)(const OrtKernelContext *context, size_t *count);
    OrtStatus *(*KernelContext_GetInput)(const OrtKernelContext *context, size_t index,
                                         const OrtValue **value);
    OrtStatus *(*KernelContext_GetOutput)(OrtKernelContext *context, size_t index, const int64_t *sizes,
                                          size_t rank, OrtValue **value);
    ort_unused *unused92[1];
    void (*ReleaseStatus)(OrtStatus *status);
    ort_unused *unused94[5];
    void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo *info);
    ort_unused *unused100[130];
    OrtStatus *(*KernelInfo_GetInputCount)(const OrtKernelInfo *info, size_t *count);
    OrtStatus *(*KernelInfo_GetOutputCount)(const OrtKernelInfo *info, size_t *count);
    OrtStatus *(*KernelInfo_GetInputName)(const OrtKernelInfo *info, size_t index, char *text, size_t *size);
    OrtStatus *(*KernelInfo_GetOutputName)(const OrtKernelInfo *info, size_t index, char *text, size_t *size);
    ort_unused *unused234[3];
    OrtStatus *(*HasSessionConfigEntry)(const OrtSessionOptions *options, const char *key, int *found);
    OrtStatus *(*GetSessionConfigEntry)(const OrtSessionOptions *options, const char *key, char *text,
                                        size_t *size);
    ort_unused *unused239[28];
    OrtStatus *(*ShapeInferContext_GetInputCount)(const OrtShapeInferContext *context, size_t *count);
    OrtStatus *(*ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext *context, size_t index,
                                                      OrtTensorTypeAndShapeInfo **info);
    OrtStatus *(*ShapeInferContext_GetAttribute)(const OrtShapeInferContext *context, const char *name,
                                                 const OrtOpAttr **attribute);
    OrtStatus *(*ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext *context, size_t index,
                                                       const OrtTensorTypeAndShapeInfo *info);
    OrtStatus *(*SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo *info, const char *names[], size_t count);
    // The entries after ReadOpAttr need version 24. Only the provider uses them.
    OrtStatus *(*ReadOpAttr)(const OrtOpAttr *attribute, int type, void *value, size_t most, size_t *bytes);
    ort_unused *unused273[17];
    OrtStatus *(*GetValueInfoTypeInfo)(const OrtValueInfo *value, const OrtTypeInfo **type);
    ort_unused *unused291[16];
    int (*HardwareDevice_Type)(const OrtHardwareDevice *device);
    ort_unused *unused308[9];
    const struct OrtEpApi *(*GetEpApi)(void);
    ort_unused *unused318[26];
    OrtStatus *(*Graph_GetNumNodes)(const OrtGraph *graph, size_t *count);
    OrtStatus *(*Graph_GetNodes)(const OrtGraph *graph, const OrtNode **nodes, size_t count);
    ort_unused *unused346[4];
    OrtStatus *(*Node_GetOperatorType)(const OrtNode *node, const char **name);
    OrtStatus *(*Node_GetDomain)(const OrtNode *node, const char **name);
    ort_unused *unused352[1];
    OrtStatus *(*Node_GetNumInputs)(const OrtNode *node, size_t *count);
    OrtStatus *(*Node_GetInputs)(const OrtNode *node, const OrtValueInfo **values, size_t count);
    OrtStatus *(*Node_GetNumOutputs)(const OrtNode *node, size_t *count);
    OrtStatus *(*Node_GetOutputs)(const OrtNode *node, const OrtValueInfo **values, size_t count);
    ort_unused *unused357[4];
    OrtStatus *(*Node_GetAttributeByName)(const OrtNode *node, const char *name, const OrtOpAttr **attribute);
} OrtApi;

#define ORT_SLOT(name, number)                                                                               \
    static_assert(offsetof(OrtApi, name) == (number) * sizeof(ort_unused *), "the place of " #name)
ORT_SLOT(CreateCustomOpDomain, 26);
ORT_SLOT(GetTensorMutableData, 51);
ORT_SLOT(CastTypeInfoToTensorInfo, 55);
ORT_SLOT(CreateTensorTypeAndShapeInfo, 57);
ORT_SLOT(SetDimensions, 59);
ORT_SLOT(GetTensorElementType, 60);
ORT_SLOT(GetSymbolicDimensions, 63);
ORT_SLOT(GetTensorTypeAndShape, 65);
ORT_SLOT(KernelInfoGetAttribute_float, 85);
ORT_SLOT(KernelContext_GetOutput, 91);
ORT_SLOT(ReleaseStatus, 93);
ORT_SLOT(ReleaseTensorTypeAndShapeInfo, 99);
ORT_SLOT(KernelInfo_GetInputCount, 230);
ORT_SLOT(GetSessionConfigEntry, 238);
ORT_SLOT(ShapeInferContext_GetInputCount, 267);
ORT_SLOT(SetSymbolicDimensions, 271);
ORT_SLOT(ReadOpAttr, 272);
ORT_SLOT(GetValueInfoTypeInfo, 290);
ORT_SLOT(HardwareDevice_Type, 307);
ORT_SLOT(GetEpApi, 317);
ORT_SLOT(Graph_GetNumNodes, 344);
ORT_SLOT(Node_GetInputs, 354);
ORT_SLOT(Node_GetAttributeByName, 361);

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version); // NULL: ONNX Runtime does not know this version
    const char *(*GetVersionString)(void);
} OrtApiBase;

// An operator for one set of types. Fields that are newer than `version` are ignored. Comments name
// the version that added a field.
struct OrtCustomOp {
    uint32_t version;
    void *(*CreateKernel)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info);
    const char *(*GetName)(const OrtCustomOp *op);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *op); // NULL: the CPU's
    int (*GetInputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp *op);
    int (*GetOutputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *op);
    void (*KernelCompute)(void *kernel, OrtKernelContext *context);
    void (*KernelDestroy)(void *kernel);
    int (*GetInputCharacteristic)(const OrtCustomOp *op, size_t index); // 8
    int (*GetOutputCharacteristic)(const OrtCustomOp *op, size_t index);
    int (*GetInputMemoryType)(const OrtCustomOp *op, size_t index); // 13
    int (*GetVariadicInputMinArity)(const OrtCustomOp *op);         // 14
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp *op);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *op);
    // Version 16, like the next field: both replace the functions without V2.
    OrtStatus *(*CreateKernelV2)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info,
                                 void **kernel);
    OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(*InferOutputShapeFn)(const OrtCustomOp *op, OrtShapeInferContext *context); // 17
    int (*GetStartVersion)(const OrtCustomOp *op);                                          // 18
    int (*GetEndVersion)(const OrtCustomOp *op);
    size_t (*GetMayInplace)(int **inputs, int **outputs);
    void (*ReleaseMayInplace)(int *inputs, int *outputs);
    size_t (*GetAliasMap)(int **inputs, int **outputs);
    void (*ReleaseAliasMap)(int *inputs, int *outputs);
};
#endif
