// opencl.h: the one door to OpenCL. Every file that calls it includes this header and no other, so that
// finding the library at run time one day is a change here alone.
#ifndef CLATTN_CORE_OPENCL_H
#define CLATTN_CORE_OPENCL_H
#include <clattn/clattn.h>

// The loader's own code for "no platform" (cl_khr_icd), and NVIDIA's for a kernel that touched a bad address.
#define OPENCL_PLATFORM_NOT_FOUND (-1001)
#define OPENCL_ILLEGAL_ACCESS (-9999)

#define OPENCL_DEVICE_MAX_NUM_SUB_GROUPS 0x105C // OpenCL 2.1
#define OPENCL_DEVICE_SUB_GROUP_SIZES 0x4108    // cl_intel_required_subgroup_size

// The name of an OpenCL error code, such as "CL_OUT_OF_RESOURCES"; "unknown" otherwise.
const char *cla_opencl_error_name(cl_int code);
#endif
