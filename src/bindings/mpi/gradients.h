// gradients.h: the gradients of this rank's rows and of its keys as they grow, in float32 on the host: what a local call of some rows and
// some keys gives, which has all of a row's out and lse, is added in the order in which calls are made. Of other ranks' keys dk and dv are
// shares, which go home (ring.c).
#ifndef CLATTN_MPI_GRADIENTS_H
#define CLATTN_MPI_GRADIENTS_H
#include "mpi/copy.h"

#include <stddef.h>

// Results, in the order of "tables/views.def"; from OF_HEADS on a number a head.
enum { OF_Q, OF_K, OF_V, OF_BIAS, OF_HEADS, GRADIENTS = OF_HEADS + 3 };
enum { OF_READ = 2 }; // rows before them: dout and dlse
static inline const clattn_tensor *cla_mpi_gradient(const clattn_mpi_attention_backward_params *b, int n) {
    static const size_t fields[] = {
#define GRADIENT(field, like, of, shape, types, axes, use)                                                   \
    offsetof(clattn_mpi_attention_backward_params, field),
#include "tables/views.def"
    };
    return (const clattn_tensor *)((const char *)b + fields[OF_READ + n]);
}

// Where the results of a call of so many rows and keys lie in one block of memory, dense float32; those that are not there have no bytes.
typedef struct gradient_layout {
    size_t at[GRADIENTS], bytes; // in bytes
    int64_t shape[GRADIENTS][4]; // padded by ones in front
} gradient_layout;

typedef struct gradients {
    job *j;
    const span *q; // the rows, in parts that have positions of their own
    int q_count;
    span whole;  // where positions do not matter: one part
    bool *begun; // [q_count]: it had the first of its calls, which has the sinks
    int32_t *arrays;
    int calls;              // so far: rows of numbers of mods are in this order
    size_t most;            // bytes of a local call's results
    cl_mem device;          // those of the call that runs
    float *host;            // and as they were read back
    float *sums[GRADIENTS]; // of this rank's rows and keys; of heads of this rank's rows
    cl_mem floats;          // sums on their way to the caller's tensors
    cl_event event;         // of the last command
    size_t bytes, host_bytes;
} gradients;

clattn_status cla_mpi_gradients_open(gradients *g, job *j, const span_list *q, int most);
// As cla_mpi_partial_expect, ready, sees, and end.
clattn_status cla_mpi_gradients_expect(gradients *g, const span *keys,
                                       const clattn_tensor views[PIECE_PARTS]);
clattn_status cla_mpi_gradients_ready(gradients *g);
bool cla_mpi_gradients_sees(const gradients *g, const span *keys);
// Add what the rows see of these keys: dk and dv to `share`, which lies as cla_mpi_gradients_share says. `meanwhile` is called while the
// device computes.
clattn_status cla_mpi_gradients_add(gradients *g, const span *keys, const clattn_tensor views[PIECE_PARTS],
                                    float *share, void (*meanwhile)(void *user), void *user);
clattn_status cla_mpi_gradients_end(gradients *g);
// Gradients of heads, whose sums have room for those of all ranks behind them: the sum over ranks, in their order, to the caller's
// tensors. Collective, whatever this rank's status is.
clattn_status cla_mpi_gradients_of_heads(job *j, float *const sums[3], clattn_status status);
void cla_mpi_gradients_close(gradients *g);

// Floats of a share of so many keys: dk, then dv, each dense; and its way into the sums of the rank whose keys they are.
size_t cla_mpi_gradients_share(const job *j, int64_t keys);
void cla_mpi_gradients_take(gradients *g, const span *keys, const float *share);
#endif
