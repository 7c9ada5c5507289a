// choose_device.h: select the OpenCL device that a --device option means. Used by session.c and by
// the library that Python benchmarks load (bench/peer_shim.c).
#ifndef CLATTN_VERIFICATION_DEVICE_CHOOSE_DEVICE_H
#define CLATTN_VERIFICATION_DEVICE_CHOOSE_DEVICE_H
#include <clattn/clattn.h>

// Select one of `count` devices. `spec` is an index, "gpu", "cpu", a device's name, or part of a
// device's or platform's name; NULL prefers a GPU to a CPU to others. If all best matches have the
// same name, the first is returned. If their names differ, the result is NULL, and *other is the
// second match.
const clattn_device *choose_device(const clattn_device *devices, size_t count, const char *spec,
                                   const clattn_device **other);
// As choose_device, for described devices. Returns an index, or -1.
int choose_capabilities(const clattn_capabilities *all, size_t count, const char *spec, int *other);
// 0: spec does not mean this device. Otherwise the device with the highest score is selected.
int choose_device_score(const char *spec, size_t index, const clattn_capabilities *c);
#endif
