// library.h: the operators on a device, with all their types.
#ifndef CLATTN_ONNXRUNTIME_LIBRARY_H
#define CLATTN_ONNXRUNTIME_LIBRARY_H
#include "onnxruntime/operator.h"

enum { DOMAINS = 2, TYPES = 3, OPERATORS = 5 };

// Sessions hold pointers into it for as long as they like, so that it is never freed.
struct library {
    struct library *next;
    struct device *device;
    OrtCustomOpDomain *domain[DOMAINS];
    struct op ops[OPERATORS * TYPES * TYPES];
    int count;
    int asked; // the number of the device; -1: none
    bool infers;
};

// The library for the device that an entry of the session's options names: a number of `clattn devices`; without one the first CPU,
// or the first of all.   Threads: any: two may each make one for the same device, and both stay.
// `infers`: its operators tell shapes, for an ONNX Runtime that bears it.
OrtStatus *library_of(const OrtApi *api, const OrtSessionOptions *options, const char *entry, bool infers,
                      struct library **library);

#endif
