// opencl.h: calls OpenCL through the functions that the library found, so that the module does not
// link with OpenCL.
#ifndef CLATTN_MPI_OPENCL_H
#define CLATTN_MPI_OPENCL_H
#include <clattn/clattn.h>

typedef struct mpi_opencl_calls {
#define OPENCL_CALL(name) __typeof__(&name) name;
#include "mpi/opencl_calls.def"
#undef OPENCL_CALL
} mpi_opencl_calls;

// Filled on first use, from any thread. OpenCL is present, because a context exists.
const mpi_opencl_calls *cla_mpi_opencl(void);

#ifndef OPENCL_OWN_NAMES
#define clCreateBuffer cla_mpi_opencl()->clCreateBuffer
#define clCreateCommandQueue cla_mpi_opencl()->clCreateCommandQueue
#define clEnqueueReadBuffer cla_mpi_opencl()->clEnqueueReadBuffer
#define clEnqueueReadBufferRect cla_mpi_opencl()->clEnqueueReadBufferRect
#define clEnqueueWriteBuffer cla_mpi_opencl()->clEnqueueWriteBuffer
#define clEnqueueWriteBufferRect cla_mpi_opencl()->clEnqueueWriteBufferRect
#define clFinish cla_mpi_opencl()->clFinish
#define clFlush cla_mpi_opencl()->clFlush
#define clGetCommandQueueInfo cla_mpi_opencl()->clGetCommandQueueInfo
#define clGetEventInfo cla_mpi_opencl()->clGetEventInfo
#define clReleaseCommandQueue cla_mpi_opencl()->clReleaseCommandQueue
#define clReleaseEvent cla_mpi_opencl()->clReleaseEvent
#define clReleaseMemObject cla_mpi_opencl()->clReleaseMemObject
#endif
#endif
