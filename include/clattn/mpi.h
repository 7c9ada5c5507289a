/* mpi.h: attention over the ranks of an MPI communicator, each with its own OpenCL device, in a
 * library of its own (libclattn-mpi, pkg-config clattn-mpi). The letters and rules of clattn.h
 * apply. See docs/devices.md for the ways to share a call.
 *
 * Rules of every function that has a clattn_mpi argument:
 *   - Collective: all ranks of the communicator call the same functions in the same order.
 *   - Ranks may differ in device, context, queue, strides, offsets and number of rows (also 0). All
 *     else must be equal: B, H, Hkv, D, Dv, types, options and host arrays. A difference is
 *     INVALID_ARGUMENT on all ranks; the message names the ranks.
 *   - If a rank fails, all ranks return its status, and last_error names the rank. If it fails
 *     after the first exchanges, outputs are undefined.
 *   - A rank that hangs blocks all ranks, as in any MPI program. A rank that dies ends the job.
 *   - MPI errors are DRIVER with MPI's text (MPI_ERRORS_RETURN). MPI defines what works after one.
 *   - Blocking: until this rank's outputs are written.   Lifetime: no argument is used after the
 *     return.   Threads: one at a time for a clattn_mpi; with MPI_THREAD_FUNNELED that of MPI_Init.
 *   - Memory: MPI gets host memory only, no cl_mem or device pointer.
 *   - Bits: sums have a fixed order, so equal ranks, rows, piece_rows and devices make equal bits.
 */
#ifndef CLATTN_MPI_H
#define CLATTN_MPI_H

#include <mpi.h>

#include "clattn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the whole sequence, from 0: [start, start + count). */
typedef struct clattn_mpi_segment {
    int64_t start, count;
} clattn_mpi_segment;

/* The rows of a rank: row n is the n-th row of its segments. The segments of all ranks contain each
 * row of [0, N) once. count 0 on all ranks: consecutive blocks, as long as the tensors. */
typedef struct clattn_mpi_rows {
    const clattn_mpi_segment *segments; /* host memory */
    int32_t count;
} clattn_mpi_rows;

/* Share N rows among `ranks`. Each function returns the number of segments of `rank`, and writes up
 * to `capacity`.
 *    blocks  consecutive blocks whose sizes differ by at most one row; 1 segment, 0 if empty
 *    zigzag  chunks `rank` from either end of 2 * ranks chunks: causal work is equal; up to 2
 *            segments
 *            [Zhu 2024, "ring flash attention"; Llama 3, Dubey et al. 2024]
 *    pages   round robin, `page_rows` at a time: a growing cache stays even [vLLM, decode context
 *            parallel]
 *
 * Threads: any. They make no MPI call. */
CLATTN_API int32_t clattn_mpi_blocks(int rank, int ranks, int64_t n, clattn_mpi_segment *segments,
                                     int32_t capacity);
CLATTN_API int32_t clattn_mpi_zigzag(int rank, int ranks, int64_t n, clattn_mpi_segment *segments,
                                     int32_t capacity);
CLATTN_API int32_t clattn_mpi_pages(int rank, int ranks, int64_t n, int64_t page_rows,
                                    clattn_mpi_segment *segments, int32_t capacity);

/* One rank's part in the calls that all ranks of a communicator make together. */
typedef struct clattn_mpi clattn_mpi;

/* A rank's communicator and device, and what it knows of the network. */
typedef struct clattn_mpi_params {
    MPI_Comm comm;           /* duplicated; the caller initialises and finalises MPI */
    clattn_context *context; /* this rank's; outlives the clattn_mpi */
    cl_command_queue queue;  /* of that context, in order; a call waits for its earlier commands */
    /* Rates for plans, equal on all ranks. 0: measured at the first plan, on the slowest rank */
    double link_bytes_per_second; /* from one rank to the next, while all send */
    double link_seconds;          /* latency of a message */
    double flops_per_second;      /* of attention on one rank */
    double call_seconds;          /* of an attention call with next to no work */
    /* Allocation functions for the module's host memory on this rank. Without both functions:
     * malloc and free. */
    clattn_host_memory host_memory;
} clattn_mpi_params;

/* Create a rank's part. Collective.
 *    Returns   INVALID_ARGUMENT  a handle is missing or of another context, the queue is out of
 *                                order, host_memory has one function only, or rates differ between
 *                                ranks. MPI is not initialised: this rank alone returns
 *              OUT_OF_MEMORY, DRIVER */
CLATTN_API clattn_status clattn_mpi_create(const clattn_mpi_params *params, clattn_mpi **world);
/* Destroy it, before MPI_Finalize; NULL is allowed. Collective. */
CLATTN_API void clattn_mpi_destroy(clattn_mpi *world);
/* Copy the line that says why the last call failed. Never blocks. */
CLATTN_API void clattn_mpi_last_error(const clattn_mpi *world, char *text, size_t size);

/* How ranks share a prefill. See docs/devices.md for the bytes that each way sends. */
typedef enum clattn_mpi_strategy {
    CLATTN_MPI_AUTO = 0, /* the way with the least predicted time */
    /* Keys and values travel from rank to rank in pieces; results merge by lse [Liu et al. 2023,
     * "Ring Attention"; Brandon et al. 2023, "Striped Attention"] */
    CLATTN_MPI_RING,
    /* Each of P ranks computes H/P heads of all rows. H and Hkv are multiples of P; no mask or bias
     * [Jacobs et al. 2023, "DeepSpeed Ulysses"] */
    CLATTN_MPI_ALL_TO_ALL,
    /* Every rank gets all keys and values, in device memory [Llama 3, Dubey et al. 2024] */
    CLATTN_MPI_ALL_GATHER,
    CLATTN_MPI_STRATEGY_COUNT
} clattn_mpi_strategy;
/* The way's word, such as "ring". The name contract applies. */
CLATTN_API const char *clattn_mpi_strategy_name(clattn_mpi_strategy strategy);

/* One attention call with shared rows: this rank has nq rows of q and out, nkv of k and v. */
typedef struct clattn_mpi_attention_params {
    clattn_tensor q;                /* [B, H, nq, D] */
    clattn_tensor k, v;             /* [B, Hkv, nkv, D], [B, Hkv, nkv, Dv]; any type but blocks */
    clattn_tensor k_scale, v_scale; /* as in clattn_kv, for these rows */
    clattn_tensor k_zero, v_zero;   /* optional on all ranks, as in clattn_kv */
    clattn_tensor out;              /* [B, H, nq, Dv] */
    clattn_tensor lse;              /* optional on all ranks: f32 [B, H, nq] */
    clattn_mpi_rows q_rows, kv_rows;
    /* Positions, lengths, i and j count the whole sequence; mask and bias are
     * [.., nq or 1, Nkv or 1]. Expressions may use three mod_buffers: see docs/devices.md. Dropout
     * is UNSUPPORTED, block_mask ignored. */
    clattn_score score;
    clattn_kernel kernel; /* of the local calls */
    clattn_mpi_strategy strategy;
    /* RING: most rows of a piece; 0: as many as 32 MiB of keys and values. Two pieces are in
     * memory, on host and device. */
    int64_t piece_rows;
} clattn_mpi_attention_params;

/* The selected way, and why. Times are predictions for the slowest rank. */
typedef struct clattn_mpi_plan {
    clattn_mpi_strategy strategy;
    char why[256];                                  /* one line */
    double seconds[CLATTN_MPI_STRATEGY_COUNT];      /* infinity if impossible; 0 for AUTO */
    uint64_t sent_bytes[CLATTN_MPI_STRATEGY_COUNT]; /* by the rank that sends most */
    double link_bytes_per_second, link_seconds, flops_per_second, call_seconds;
    int64_t piece_rows;
    size_t device_bytes, host_bytes; /* scratch memory of this rank, beside the call's tensors */
} clattn_mpi_plan;

/* The work and times of this rank. */
typedef struct clattn_mpi_report {
    clattn_mpi_plan plan;
    double seconds;         /* from the end of the first exchanges to the outputs */
    double compute_seconds; /* while the device computed */
    /* time in which pieces were sent: host copies, MPI, and waiting for other ranks */
    double transfer_seconds;
    double exposed_seconds; /* the part of transfer_seconds in which the device was idle */
    uint64_t sent_bytes, received_bytes;
    int64_t calls;         /* attention calls on the device */
    int64_t calls_skipped; /* pairs of query segment and piece that no row sees */
    int64_t pieces_unsent; /* hops of the ring that no later rank needed */
} clattn_mpi_report;

/* Plan a call: check, compare and measure, but do not run it.   Collective. */
CLATTN_API clattn_status clattn_mpi_attention_plan(clattn_mpi *world,
                                                   const clattn_mpi_attention_params *params,
                                                   clattn_mpi_plan *plan);

/* Run the call. `report` may be NULL.   Collective.
 *    Returns   INVALID_ARGUMENT  an argument is wrong, or differs between ranks
 *              UNSUPPORTED       an option that cannot be shared, or that a device cannot do; or an
 *                                impossible way
 *              OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER  of the rank that last_error
 *              names */
CLATTN_API clattn_status clattn_mpi_attention_run(clattn_mpi *world,
                                                  const clattn_mpi_attention_params *params,
                                                  clattn_mpi_report *report);

/* Gradients of a call with shared rows, by the formulas of clattn_attention_backward_params for the
 * whole sequence. AUTO selects RING or ALL_TO_ALL. See docs/devices.md. [Liu et al. 2023]
 *    UNSUPPORTED: ALL_GATHER, quantised keys, a `kernel`, dropout */
typedef struct clattn_mpi_attention_backward_params {
    /* the call as it ran, with out and lse; all of it is read only */
    clattn_mpi_attention_params forward;
    /* as in clattn_attention_backward_params, equal on all ranks */
    const char *score_mod_gradient;
    clattn_tensor dout; /* [B, H, nq, Dv], f32, f16 or bf16 */
    clattn_tensor dlse; /* optional on all ranks: f32 [B, H, nq] */
    /* Results, each optional on all ranks, but one is required. Types are equal on all ranks. */
    clattn_tensor dq;     /* [B, H, nq, D] */
    clattn_tensor dk, dv; /* [B, Hkv, nkv, D] and [B, Hkv, nkv, Dv], of one type */
    clattn_tensor dbias;  /* f32, the sizes of this rank's bias; sums over this rank's rows only */
    /* f32 [H]: sums over all rows in the order of the ranks, equal on all ranks */
    clattn_tensor dsinks, dalibi_slopes, dhead_scales;
} clattn_mpi_attention_backward_params;

/* Plan gradients. As clattn_mpi_attention_plan.   Collective. */
CLATTN_API clattn_status clattn_mpi_attention_backward_plan(
    clattn_mpi *world, const clattn_mpi_attention_backward_params *params, clattn_mpi_plan *plan);

/* Run the call. As clattn_mpi_attention_run; INVALID_ARGUMENT also without lse, dout or a result.
 * compute_seconds include the host's sums of a ring.   Collective. */
CLATTN_API clattn_status clattn_mpi_attention_backward_run(clattn_mpi *world,
                                                           const clattn_mpi_attention_backward_params *params,
                                                           clattn_mpi_report *report);

/* Decode: ranks share keys and values (kv_rows); all have the same query rows and get the same
 * result. One allreduce merges by clattn_merge_enqueue's formula, in the order of the ranks: H *
 * (Dv + 1) floats a query row.
 *
 * q_rows, way and piece_rows are 0. mask and bias have all Nq rows and Nkv keys on each rank.
 * plan.strategy is AUTO. Otherwise as clattn_mpi_attention_run. */
CLATTN_API clattn_status clattn_mpi_decode_run(clattn_mpi *world, const clattn_mpi_attention_params *params,
                                               clattn_mpi_report *report);

/* How ranks share a layer. */
typedef enum clattn_mpi_layer_strategy {
    /* Each rank has some heads: rows of wq, wk, wv, w_gate and biases, columns of wo, its part of
     * arrays [H], caches, heads and kv_heads. x, y, bo and out are equal. One allreduce adds out in
     * float32, of parts rounded to x's type. [Shoeybi et al. 2019, "Megatron-LM"] */
    CLATTN_MPI_LAYER_HEADS = 0,
    /* Each rank has some rows of x and out, and all weights; attention as clattn_mpi_attention_run.
     * UNSUPPORTED: y, kv, append, w_gate, weights, scores, ragged batches, rope.positions,
     * dropout */
    CLATTN_MPI_LAYER_ROWS,
    CLATTN_MPI_LAYER_STRATEGY_COUNT
} clattn_mpi_layer_strategy;

/* This rank's part of a shared layer. */
typedef struct clattn_mpi_layer_params {
    clattn_layer_params layer; /* HEADS: without lse */
    clattn_mpi_layer_strategy strategy;
    /* ROWS only; with HEADS these are 0. */
    clattn_mpi_rows rows;
    clattn_mpi_strategy attention;
    int64_t piece_rows;
} clattn_mpi_layer_params;

/* Run one layer. As clattn_mpi_attention_run, with norm and RoPE as clattn_layer_enqueue. HEADS
 * reports seconds, the allreduce as transfer_seconds, and its bytes.   Collective. */
CLATTN_API clattn_status clattn_mpi_layer_run(clattn_mpi *world, const clattn_mpi_layer_params *params,
                                              clattn_mpi_report *report);
#ifdef __cplusplus
}
#endif
#endif
