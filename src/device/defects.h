// defects.h: defects of drivers that end the process or give wrong numbers, by the version that a platform tells of itself: rows of
// data, each with its source. They say what the library does without there, and never which kernel is taken.
#ifndef CLATTN_DEVICE_DEFECTS_H
#define CLATTN_DEVICE_DEFECTS_H

// The things that a platform may do badly.
typedef enum defect_of {
    DEFECT_OF_BINARIES,  // asking it for a program's binary is fatal, or costs more than it saves
    DEFECT_OF_SUBGROUPS, // its sub-groups must not be used
} defect_of;

// Why this platform (clattn_capabilities.platform) must not do it; NULL: it may.
const char *cla_defect(defect_of what, const char *platform);
#endif
