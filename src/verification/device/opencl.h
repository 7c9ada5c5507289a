// opencl.h: OpenCL for verification code and the program, called through the functions that the
// library found. The program is therefore not linked with OpenCL and can report that OpenCL is
// absent. Source files include this header; verification headers do not, because tests define
// functions with these names.
#ifndef CLATTN_VERIFICATION_DEVICE_OPENCL_H
#define CLATTN_VERIFICATION_DEVICE_OPENCL_H
#include <clattn/clattn.h>

typedef struct evidence_opencl_calls {
#define OPENCL_CALL(name) __typeof__(&name) name;
#include "verification/device/opencl_calls.def"
#undef OPENCL_CALL
} evidence_opencl_calls;

// Filled on first use, from any thread. Without OpenCL the pointers are NULL, and there is no
// context to call them for.
const evidence_opencl_calls *evidence_opencl(void);

#ifndef OPENCL_OWN_NAMES
#define clBuildProgram evidence_opencl()->clBuildProgram
#define clCreateBuffer evidence_opencl()->clCreateBuffer
#define clCreateCommandQueue evidence_opencl()->clCreateCommandQueue
#define clCreateKernel evidence_opencl()->clCreateKernel
#define clCreateProgramWithSource evidence_opencl()->clCreateProgramWithSource
#define clCreateUserEvent evidence_opencl()->clCreateUserEvent
#define clEnqueueFillBuffer evidence_opencl()->clEnqueueFillBuffer
#define clEnqueueMarkerWithWaitList evidence_opencl()->clEnqueueMarkerWithWaitList
#define clEnqueueNDRangeKernel evidence_opencl()->clEnqueueNDRangeKernel
#define clEnqueueReadBuffer evidence_opencl()->clEnqueueReadBuffer
#define clEnqueueWriteBuffer evidence_opencl()->clEnqueueWriteBuffer
#define clFinish evidence_opencl()->clFinish
#define clFlush evidence_opencl()->clFlush
#define clGetDeviceInfo evidence_opencl()->clGetDeviceInfo
#define clGetEventInfo evidence_opencl()->clGetEventInfo
#define clGetEventProfilingInfo evidence_opencl()->clGetEventProfilingInfo
#define clReleaseCommandQueue evidence_opencl()->clReleaseCommandQueue
#define clReleaseEvent evidence_opencl()->clReleaseEvent
#define clReleaseKernel evidence_opencl()->clReleaseKernel
#define clReleaseMemObject evidence_opencl()->clReleaseMemObject
#define clReleaseProgram evidence_opencl()->clReleaseProgram
#define clSetKernelArg evidence_opencl()->clSetKernelArg
#define clSetUserEventStatus evidence_opencl()->clSetUserEventStatus
#endif
#endif
