// peer_shim.h: the functions that peers_clattn.py calls through ctypes: a device, and calls that
// can be run repeatedly. Options that no peer has are left out. Errors are text: peer_error() of
// the device, "" if there is none.
#ifndef PEER_SHIM_H
#define PEER_SHIM_H

#include "verification/limits/limits.h"

typedef struct peer_device {
    clattn_context *context;
    cl_command_queue queue;
    struct place place; // for the limits
    char error[1024];
} peer_device;

enum { PEER_FULL, PEER_CAUSAL_TOP_LEFT, PEER_CAUSAL_BOTTOM_RIGHT };

// Dense host arrays: q [b, h, nq, d], k [b, hkv, nkv, d], v [b, hkv, nkv, dv]; for gradients dout
// [b, h, nq, dv].
typedef struct peer_attention {
    int32_t type; // a clattn_type: f32, f16, bf16
    int32_t causal;
    int64_t b, h, hkv, nq, nkv, d, dv;
    const void *q, *k, *v, *dout;
} peer_attention;

// Host arrays of a torch.nn.MultiheadAttention: x [b, n, m], in_weight [3m, m], out_weight [m, m];
// for gradients dout [b, n, m].
typedef struct peer_layer {
    int32_t type, heads, causal, weights;
    int64_t b, n, m;
    const void *x, *in_weight, *in_bias, *out_weight, *out_bias, *dout;
} peer_layer;

// Host arrays of a torch.nn.Linear: x [b, n, m], weight [columns, m], bias [columns].
typedef struct peer_linear {
    int32_t type;
    int64_t b, n, m, columns;
    const void *x, *weight, *bias;
} peer_linear;

typedef struct peer_call peer_call;

#define PEER_API __attribute__((visibility("default")))

// Open the device that `spec` selects, as the program's --device does
// (verification/device/choose_device.h). A NULL `spec` selects the first CPU. The result is NULL
// only without memory.
PEER_API peer_device *peer_open(const char *spec, const char *cache_dir);
PEER_API void peer_close(peer_device *device);
PEER_API const char *peer_error(const peer_device *device);
PEER_API const clattn_capabilities *peer_capabilities(const peer_device *device);
PEER_API const char *peer_text(const peer_device *device,
                               int which); // 0 name, 1 driver, 2 platform, 3 clattn's version

// The name of engine `which` (clattn_context_engines), and its rate in GFLOP/s of one work-item; 0:
// the engine does not work. NULL past the last engine.
PEER_API const char *peer_engine(peer_device *device, int which, float *gflops);
PEER_API int peer_units(const peer_device *device); // compute units

// Copy the arrays to the device and compile. NULL: an error.
PEER_API peer_call *peer_attention_create(peer_device *device, const peer_attention *a);
// The gradients of attention. The forward call runs once here, so that a run needs only its out and
// lse.
PEER_API peer_call *peer_backward_create(peer_device *device, const peer_attention *a);
PEER_API peer_call *peer_layer_create(peer_device *device, const peer_layer *l);
// A training step: the layer, then the gradients of x, of all matrices and of all biases.
PEER_API peer_call *peer_train_create(peer_device *device, const peer_layer *l);
PEER_API peer_call *peer_linear_create(peer_device *device, const peer_linear *l);
PEER_API void peer_destroy(peer_call *call);
PEER_API const char *peer_kernel(const peer_call *call);
// Enqueue once and wait for the device. Returns 0 or a status.
PEER_API int peer_run(peer_call *call);
// Read the output, and with non-NULL `weights` the attention weights. Returns 0 or a status.
PEER_API int peer_read(peer_call *call, void *out, void *weights);
// Read dq, dk and dv. For a training step: out, dx, and the gradients of in_weight, in_bias,
// out_weight and out_bias.
PEER_API int peer_read_gradients(peer_call *call, void *const *to);

// Work at the device's limits (verification/limits/limits.h): a loop of fused multiply-adds in
// registers, and the sum over an array of `bytes`. NULL: an error.
typedef struct limit peer_limit;
PEER_API peer_limit *peer_fma_create(peer_device *device);
// Multiply-adds with the L1 loads of a matrix product; NULL on devices that are no CPU.
PEER_API peer_limit *peer_fma_loads_create(peer_device *device);
// The register-only loop with x86's bfloat16 dot products; NULL if the processor or the driver has
// none.
PEER_API peer_limit *peer_bf16_create(peer_device *device);
PEER_API peer_limit *peer_read_create(peer_device *device, size_t bytes);
PEER_API void peer_limit_destroy(peer_limit *limit);
PEER_API int peer_limit_run(peer_device *device, peer_limit *limit);
// Floating-point operations, or bytes, of one run.
PEER_API double peer_limit_work(const peer_limit *limit);

#endif
