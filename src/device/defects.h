// defects.h: defects of drivers that would end the process, by the version that a platform tells of itself: rows of data, each
// with its source, and never a reason to choose a kernel.
#ifndef CLATTN_DEVICE_DEFECTS_H
#define CLATTN_DEVICE_DEFECTS_H
#include <stddef.h>

// Why this platform (clattn_capabilities.platform) must not be asked for a program's binary; NULL: it may.
const char *cla_defect_of_binaries(const char *platform);
#endif
