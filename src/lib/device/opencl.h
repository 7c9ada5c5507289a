// opencl.h: the library's only interface to OpenCL. Every file that calls OpenCL includes this
// header and no other. The functions are pointers in one table, which opencl_load.c fills once,
// when the library first needs a device. The library does not link with OpenCL, unless it was built
// with CLATTN_LINK_OPENCL.
#ifndef CLATTN_DEVICE_OPENCL_H
#define CLATTN_DEVICE_OPENCL_H
#include <clattn/clattn.h>

// The loader's code for "no platform" (cl_khr_icd), and NVIDIA's for an illegal address in a
// kernel.
#define OPENCL_PLATFORM_NOT_FOUND (-1001)
#define OPENCL_ILLEGAL_ACCESS (-9999)

#define OPENCL_DEVICE_UNIFIED_MEMORY 0x1035           // OpenCL 1.1, deprecated by 2.0
#define OPENCL_DEVICE_MAX_NUM_SUB_GROUPS 0x105C       // OpenCL 2.1
#define OPENCL_DEVICE_SVM_CAPABILITIES 0x1053         // OpenCL 2.0
#define OPENCL_DEVICE_COMPUTE_CAPABILITY_MAJOR 0x4000 // cl_nv_device_attribute_query
#define OPENCL_DEVICE_COMPUTE_CAPABILITY_MINOR 0x4001
#define OPENCL_DEVICE_WAVEFRONT_WIDTH 0x4043 // cl_amd_device_attribute_query
#define OPENCL_DEVICE_SUB_GROUP_SIZES 0x4108 // cl_intel_required_subgroup_size

// The name of an OpenCL error code, such as "CL_OUT_OF_RESOURCES". "unknown" if it has none.
const char *cla_opencl_error_name(cl_int code);

// Find OpenCL, once. Every function that creates a context or has a device as its argument calls
// this first. Returns UNSUPPORTED if there is no OpenCL, and logs which libraries were tried.
clattn_status cla_opencl_open(const clattn_log *log);

typedef struct opencl_calls {
#define OPENCL_CALL(name) __typeof__(&name) name;
#include "tables/opencl_calls.def"
#undef OPENCL_CALL
} opencl_calls;

// Written once, before any device or context exists. Read without a lock.
extern opencl_calls cla_opencl;

#if !defined(CLATTN_LINK_OPENCL) && !defined(OPENCL_OWN_NAMES)
#define clBuildProgram cla_opencl.clBuildProgram
#define clCompileProgram cla_opencl.clCompileProgram
#define clCreateBuffer cla_opencl.clCreateBuffer
#define clCreateCommandQueue cla_opencl.clCreateCommandQueue
#define clCreateContext cla_opencl.clCreateContext
#define clCreateKernel cla_opencl.clCreateKernel
#define clCreateProgramWithBinary cla_opencl.clCreateProgramWithBinary
#define clCreateProgramWithSource cla_opencl.clCreateProgramWithSource
#define clEnqueueBarrierWithWaitList cla_opencl.clEnqueueBarrierWithWaitList
#define clEnqueueFillBuffer cla_opencl.clEnqueueFillBuffer
#define clEnqueueMarkerWithWaitList cla_opencl.clEnqueueMarkerWithWaitList
#define clEnqueueNDRangeKernel cla_opencl.clEnqueueNDRangeKernel
#define clEnqueueReadBuffer cla_opencl.clEnqueueReadBuffer
#define clEnqueueWriteBuffer cla_opencl.clEnqueueWriteBuffer
#define clFinish cla_opencl.clFinish
#define clFlush cla_opencl.clFlush
#define clGetCommandQueueInfo cla_opencl.clGetCommandQueueInfo
#define clGetContextInfo cla_opencl.clGetContextInfo
#define clGetDeviceIDs cla_opencl.clGetDeviceIDs
#define clGetDeviceInfo cla_opencl.clGetDeviceInfo
#define clGetEventInfo cla_opencl.clGetEventInfo
#define clGetEventProfilingInfo cla_opencl.clGetEventProfilingInfo
#define clGetKernelWorkGroupInfo cla_opencl.clGetKernelWorkGroupInfo
#define clGetMemObjectInfo cla_opencl.clGetMemObjectInfo
#define clGetPlatformIDs cla_opencl.clGetPlatformIDs
#define clGetPlatformInfo cla_opencl.clGetPlatformInfo
#define clGetProgramBuildInfo cla_opencl.clGetProgramBuildInfo
#define clGetProgramInfo cla_opencl.clGetProgramInfo
#define clLinkProgram cla_opencl.clLinkProgram
#define clReleaseCommandQueue cla_opencl.clReleaseCommandQueue
#define clReleaseContext cla_opencl.clReleaseContext
#define clReleaseDevice cla_opencl.clReleaseDevice
#define clReleaseEvent cla_opencl.clReleaseEvent
#define clReleaseKernel cla_opencl.clReleaseKernel
#define clReleaseMemObject cla_opencl.clReleaseMemObject
#define clReleaseProgram cla_opencl.clReleaseProgram
#define clRetainCommandQueue cla_opencl.clRetainCommandQueue
#define clRetainContext cla_opencl.clRetainContext
#define clRetainDevice cla_opencl.clRetainDevice
#define clRetainEvent cla_opencl.clRetainEvent
#define clRetainMemObject cla_opencl.clRetainMemObject
#define clSetKernelArg cla_opencl.clSetKernelArg
#define clWaitForEvents cla_opencl.clWaitForEvents
#endif
#endif
