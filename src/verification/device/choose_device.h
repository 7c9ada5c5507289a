// choose_device.h: which OpenCL device a --device option means. Leaves out listing the devices and saying why
// none is right. Used by the session and by what Python benchmarks load (bench/peer_shim.c).
#ifndef CLATTN_EVIDENCE_DEVICE_CHOOSE_DEVICE_H
#define CLATTN_EVIDENCE_DEVICE_CHOOSE_DEVICE_H
#include <clattn/clattn.h>

// spec: an index, "gpu", "cpu", a device's whole name, or part of a device's or platform's name, in any case; NULL: a
// GPU before a CPU before the rest. Returns one of the `count` devices, of several that match as well and have the same
// names the first; NULL: none matches, or devices of different names do, and *other (unless NULL) is then the second.
const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec,
                                   const clattn_device **other);
// The same of what devices tell of themselves: an index, or -1.
int choose_capabilities(const clattn_capabilities *all, size_t count, const char *spec, int *other);
// 0: the device is not what spec means, else the better the higher.
int choose_device_score(const char *spec, size_t index, const clattn_capabilities *c);
#endif
