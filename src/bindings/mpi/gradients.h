// gradients.h: accumulates the gradients of this rank's rows and keys, in float32 on the host. A
// local call computes those of some rows and keys, from the rows' final out and lse. Its results
// are added in the order of the calls. dk and dv of other ranks' keys are shares, which are sent to
// those ranks (ring.c).
#ifndef CLATTN_MPI_GRADIENTS_H
#define CLATTN_MPI_GRADIENTS_H
#include "mpi/copy.h"

#include <stddef.h>

// Gradients, in the order of "tables/views.def". From OF_HEADS on they have one number for each
// head.
enum { OF_Q, OF_K, OF_V, OF_BIAS, OF_HEADS, GRADIENTS = OF_HEADS + 3 };
enum { OF_READ = 2 }; // rows of the table before them: dout and dlse
static inline const clattn_tensor *cla_mpi_gradient(const clattn_mpi_attention_backward_params *b, int n) {
    static const size_t fields[] = {
#define GRADIENT(field, like, of, shape, types, axes, use)                                                   \
    offsetof(clattn_mpi_attention_backward_params, field),
#include "tables/views.def"
    };
    return (const clattn_tensor *)((const char *)b + fields[OF_READ + n]);
}

// Layout of one call's dense float32 results, for its numbers of rows and keys. Absent results have
// 0 bytes.
typedef struct gradient_layout {
    size_t at[GRADIENTS], bytes; // offsets and size in bytes
    int64_t shape[GRADIENTS][4]; // padded with leading ones
} gradient_layout;

typedef struct gradients {
    job *j;
    const span *q; // the rows, in spans with positions of their own
    int q_count;
    span whole;  // all rows as one span, if positions do not matter
    bool *begun; // [q_count]: the span's first call, which includes the sinks, was made
    int32_t *arrays;
    int calls;              // calls made so far: an index of the mods' rows of numbers (mods.c)
    size_t most;            // bytes of the largest local call's results
    cl_mem device;          // results of the running call
    float *host;            // the same results, read back
    float *sums[GRADIENTS]; // for this rank's rows and keys; from OF_HEADS on for this rank's rows
    cl_mem floats;          // sums being converted for the caller's tensors
    cl_event event;         // event of the newest command
    size_t bytes, host_bytes;
} gradients;

clattn_status cla_mpi_gradients_open(gradients *g, job *j, const span_list *q, int most);
// The meaning of these functions is that of cla_mpi_partial_expect, ready, sees and end.
clattn_status cla_mpi_gradients_expect(gradients *g, const span *keys,
                                       const clattn_tensor views[PIECE_PARTS]);
clattn_status cla_mpi_gradients_ready(gradients *g);
bool cla_mpi_gradients_sees(const gradients *g, const span *keys);
// Compute and add the gradients of the rows with these keys. dk and dv are added to `share`, with
// the layout of cla_mpi_gradients_share. `meanwhile` is called while the device computes.
clattn_status cla_mpi_gradients_add(gradients *g, const span *keys, const clattn_tensor views[PIECE_PARTS],
                                    float *share, void (*meanwhile)(void *user), void *user);
clattn_status cla_mpi_gradients_end(gradients *g);
// Sum the heads' gradients over ranks, in the order of the ranks, into the caller's tensors. `sums`
// have room for all ranks' behind this rank's. Collective, so it is called with any status.
clattn_status cla_mpi_gradients_of_heads(job *j, float *const sums[3], clattn_status status);
void cla_mpi_gradients_close(gradients *g);

// Number of floats in a share for `keys` keys: dk, then dv, both dense. The second function adds a
// share to the sums of the keys' rank.
size_t cla_mpi_gradients_share(const job *j, int64_t keys);
void cla_mpi_gradients_take(gradients *g, const span *keys, const float *share);
#endif
