// choose_device.h: which OpenCL device a --device option means. Leaves out listing the devices and saying why
// none is right. Used by the session and by what Python benchmarks load (bench/peer_shim.c).
#ifndef CLATTN_EVIDENCE_CHOOSE_DEVICE_H
#define CLATTN_EVIDENCE_CHOOSE_DEVICE_H
#include <clattn/clattn.h>

// spec: an index, "gpu", "cpu", or part of a device's or platform's name in any case, the first that matches;
// NULL: a GPU before a CPU before the rest. Returns one of the `count` devices; NULL: none matches.
const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec);
#endif
