// library.h: the operators on one device, for all their types.
#ifndef CLATTN_ONNXRUNTIME_LIBRARY_H
#define CLATTN_ONNXRUNTIME_LIBRARY_H
#include "onnxruntime/operator.h"

enum { DOMAINS = 2, TYPES = 3, OPERATORS = 5 };

// Never freed, because sessions may keep pointers into it.
struct library {
    struct library *next;
    struct device *device;
    OrtCustomOpDomain *domain[DOMAINS];
    struct op ops[OPERATORS * TYPES * TYPES];
    int count;
    int asked; // the requested number of the device; -1: none
    bool infers;
};

// Return the library for the device in the session's options: `entry` holds a number of `clattn
// devices`. Without an entry, it is the first CPU, or the first device. Threads: any. Two threads
// may each create a library for one device; both are kept. `infers`: the operators infer shapes,
// which older versions of ONNX Runtime do not survive.
OrtStatus *library_of(const OrtApi *api, const OrtSessionOptions *options, const char *entry, bool infers,
                      struct library **library);

#endif
