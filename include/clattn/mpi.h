/* mpi.h: attention over the ranks of an MPI communicator, each with an OpenCL device of its own. A module beside the library
 * (libclattn-mpi, pkg-config clattn-mpi); not included by clattn.h, whose letters and rules hold here, too.
 *
 * Rules that hold for every function that takes a clattn_mpi:
 *   - Collective: all ranks of the communicator call the same functions in the same order, as MPI's own collectives.
 *   - What may differ between ranks: device, vendor, driver, context, queue, strides and offsets of views, and how many rows a
 *     rank has (also none). All else must be the same: B, H, Hkv, D, Dv, types, options and what their host arrays hold. A first
 *     small exchange compares that, and refuses on all ranks, with the ranks named, before anything large is sent.
 *   - A rank that cannot do its part (an argument, memory, a kernel that does not compile) says so in a second small exchange,
 *     before any large transfer: all ranks return that rank's status, and last_error names it on each. One that fails in
 *     the middle goes on to send and receive, so that none waits for ever, and all return its status at the end; what the
 *     call was to write is then undefined.
 *   - A rank that hangs, in a driver or because somebody stopped its process, is waited for without end, as MPI does: to find that out
 *     and to end the job is for a watchdog of the application, or for the job's time limit.
 *   - MPI's own errors are returned (the communicator is a duplicate with MPI_ERRORS_RETURN): DRIVER, with MPI's text. What such
 *     a communicator is good for afterwards is MPI's to say. A rank that dies ends the job as MPI does it.
 *   - Blocking: always, until this rank's outputs are written.
 *   - Threads: one at a time for one clattn_mpi; MPI_THREAD_FUNNELED is enough where that is the thread of MPI_Init.
 *   - Buffers are copied through host memory; MPI is handed no cl_mem and no device pointer.
 *   - Bits: the order of all sums is fixed, so that the same ranks with the same rows on the same devices give the same bits.
 *   - Lifetime: buffers and host arrays are the caller's again when the call returns.
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

/* Which rows of the whole a rank has: row n of its tensors is the n-th of these segments, taken one behind the other. Segments of
 * all ranks together are each row of [0, N) once, whoever has it. count 0 with segments NULL, on all ranks: consecutive blocks
 * in the order of the ranks, of as many rows as the tensors have. */
typedef struct clattn_mpi_rows {
    const clattn_mpi_segment *segments; /* host memory */
    int32_t count;
} clattn_mpi_rows;

/* Ways to share N rows among `ranks`; each returns how many segments `rank` has, and writes them where there is room.
 *   blocks  consecutive blocks whose sizes differ by one row at most; 1 segment (0 where it is empty)
 *   zigzag  of 2 * ranks chunks the rank's-th from either end, so that causal work is the same for all; up to 2 segments
 *           [Zhu 2024, "ring flash attention"; Llama 3, Dubey et al. 2024, context parallelism]
 *   pages   round robin, `page_rows` at a time, so that a cache that grows stays even [vLLM's decode context parallel]
 * Threads: any.   They make no MPI call. */
CLATTN_API int32_t clattn_mpi_blocks(int rank, int ranks, int64_t n, clattn_mpi_segment *segments,
                                     int32_t capacity);
CLATTN_API int32_t clattn_mpi_zigzag(int rank, int ranks, int64_t n, clattn_mpi_segment *segments,
                                     int32_t capacity);
CLATTN_API int32_t clattn_mpi_pages(int rank, int ranks, int64_t n, int64_t page_rows,
                                    clattn_mpi_segment *segments, int32_t capacity);

/* One rank's part in the calls that all ranks of a communicator make together. */
typedef struct clattn_mpi clattn_mpi;

/* What a rank brings: its communicator, its device, and what it knows of the network. */
typedef struct clattn_mpi_params {
    MPI_Comm comm;           /* duplicated; MPI was initialised by the caller, who also finalises it */
    clattn_context *context; /* this rank's; it must outlive the clattn_mpi */
    cl_command_queue
        queue; /* of that context, in order; what was enqueued on it before a call is waited for */
    /* What the plan reckons with, the same on all ranks (compared); 0: measured when a plan first needs it, the slowest rank's. */
    double link_bytes_per_second; /* of one rank to the next, while all send */
    double link_seconds;          /* latency of a message */
    double flops_per_second;      /* of attention on one rank */
    double call_seconds;          /* of a call of attention that has next to nothing to do */
    /* Host memory of the module itself (plan.host_bytes, and small tables); of this rank alone. NULL functions: malloc and free. Device
     * memory (plan.device_bytes) is clCreateBuffer's: the context's `memory` is asked by the local calls alone. */
    clattn_host_memory host_memory;
} clattn_mpi_params;

/* Collective.   Returns   INVALID_ARGUMENT  a handle is missing or of another context, the queue is out of order, host_memory has one
 *                                           function alone, rates differ between ranks, or MPI is not initialised
 *                                           (which alone is told to this rank and no other)
 *                         OUT_OF_MEMORY, DRIVER */
CLATTN_API clattn_status clattn_mpi_create(const clattn_mpi_params *params, clattn_mpi **world);
/* Collective; NULL is allowed. Before MPI_Finalize. */
CLATTN_API void clattn_mpi_destroy(clattn_mpi *world);
/* Why the last call failed: one line, the same on all ranks where they agreed on it. Never blocks. */
CLATTN_API void clattn_mpi_last_error(const clattn_mpi *world, char *text, size_t size);

/* How a prefill is shared. With N rows, P ranks, b bytes of a key and value row of all heads:
 *   RING        rows stay where they are; keys and values travel from rank to rank in pieces, while the piece at hand is
 *               computed; partial results merge by their lse in float32 on the device. Pieces that no row of a
 *               rank sees (causality, window, lengths) are not computed there, and sent no further than the last rank
 *               that sees them. Each rank sends up to (P - 1)/P N b. [Liu et al. 2023, "Ring Attention"; Brandon et al. 2023,
 *               "Striped Attention"]
 *   ALL_TO_ALL  heads in place of rows: each rank computes H/P heads of all rows; H and Hkv must be multiples of P, and mask
 *               and bias absent. Sent: about (P - 1)/P of a rank's rows of q, k, v and out. [Jacobs et al. 2023, "DeepSpeed Ulysses"]
 *   ALL_GATHER  every rank gets all keys and values, and computes its rows; device memory for all of them. [Llama 3, Dubey et
 *               al. 2024] */
typedef enum clattn_mpi_way {
    CLATTN_MPI_AUTO = 0, /* the one that takes the least time, as the model has it */
    CLATTN_MPI_RING,
    CLATTN_MPI_ALL_TO_ALL,
    CLATTN_MPI_ALL_GATHER,
    CLATTN_MPI_WAY_COUNT
} clattn_mpi_way;
/* Its word, such as "ring"; "(unknown)" for a number that is none.   Lifetime: static. */
CLATTN_API const char *clattn_mpi_way_name(clattn_mpi_way way);

/* One attention call whose rows are shared: nq rows of q and out, nkv of k and v are this rank's. */
typedef struct clattn_mpi_attention_params {
    clattn_tensor q;                /* [B, H, nq, D] */
    clattn_tensor k, v;             /* [B, Hkv, nkv, D], [B, Hkv, nkv, Dv]; of any type but blocks */
    clattn_tensor k_scale, v_scale; /* as clattn_kv's, of these rows */
    clattn_tensor k_zero, v_zero;   /* optional on all ranks, likewise */
    clattn_tensor out;              /* [B, H, nq, Dv] */
    clattn_tensor lse;              /* optional on all ranks: f32 [B, H, nq] */
    clattn_mpi_rows q_rows, kv_rows;
    /* As for one device that has the whole: positions, offsets, lengths, i and j of score_mod and mask_mod are those of the whole
     * sequence; bottom_right is of Nkv and Nq, the sums over ranks. mask and bias have this rank's rows and all Nkv keys,
     * [.., nq or 1, Nkv or 1], and the same sizes otherwise on all ranks. score_mod and mask_mod take one of the four
     * mod_buffers, which are the same on all ranks; names of rows, keys and heads count for 6 or 7 of a text's 1024 words and
     * operators, places that are told are those of the longer text. Not looked at: block_mask. UNSUPPORTED: dropout. */
    clattn_score score;
    clattn_kernel kernel; /* of the local calls */
    clattn_mpi_way way;
    /* RING: a piece's most rows; 0: as many as 32 MiB of keys and values hold. Two pieces are in memory, on host and device. */
    int64_t piece_rows;
} clattn_mpi_attention_params;

/* What is done, and why. Times are the model's: the slowest rank's seconds. */
typedef struct clattn_mpi_plan {
    clattn_mpi_way way;
    char why[256];                             /* one line */
    double seconds[CLATTN_MPI_WAY_COUNT];      /* of each way; infinity where it cannot be; 0 of AUTO */
    uint64_t sent_bytes[CLATTN_MPI_WAY_COUNT]; /* by the rank that sends most */
    double link_bytes_per_second, link_seconds, flops_per_second, call_seconds;
    int64_t piece_rows;
    size_t device_bytes, host_bytes; /* scratch memory of this rank, beside the call's tensors */
} clattn_mpi_plan;

/* What happened on this rank. */
typedef struct clattn_mpi_report {
    clattn_mpi_plan plan;
    double seconds;          /* from the end of the first exchanges to the outputs */
    double compute_seconds;  /* while the device computed pieces */
    double transfer_seconds; /* while pieces travelled: host copies, MPI, and waiting for another rank */
    double exposed_seconds;  /* the part of those in which the device had nothing to do */
    uint64_t sent_bytes, received_bytes;
    int64_t calls;         /* of attention on the device */
    int64_t calls_skipped; /* pairs of query segment and piece that no row sees */
    int64_t pieces_unsent; /* hops of the ring that nobody behind needed */
} clattn_mpi_report;

/* Plan a call without doing it: checks, compares and measures as the run does, and enqueues nothing of it.   Collective. */
CLATTN_API clattn_status clattn_mpi_attention_plan(clattn_mpi *world,
                                                   const clattn_mpi_attention_params *params,
                                                   clattn_mpi_plan *plan);

/* Do it.   report   may be NULL
 * Returns   INVALID_ARGUMENT  an argument is wrong, or differs between ranks
 *           UNSUPPORTED       an option that cannot be shared, or that a rank's device cannot do, or a way that cannot be
 *           OUT_OF_MEMORY, BUILD_FAILED, DEVICE_LOST, DRIVER  of the rank that last_error names */
CLATTN_API clattn_status clattn_mpi_attention_run(clattn_mpi *world,
                                                  const clattn_mpi_attention_params *params,
                                                  clattn_mpi_report *report);

/* The gradients of a call whose rows are shared, of clattn_attention_backward_params' formulas for the whole sequence. `forward` is the
 * call as it was run; its out and lse, which are needed, hold what that wrote, and all of it is only read.
 *   RING        keys and values travel as before, and where a rank has computed its share of a piece's dk and dv, that goes straight
 *               home to the rank whose keys they are, in float32, while the next piece is computed; it adds the shares in the order of
 *               the ring's steps. dq is a sum over pieces. Sums are made on the host in float32, of all rows and keys of the rank, and
 *               rounded once: memory of the results' sizes in float32. Sent, beside what attention sends: up to (P - 1) times a
 *               rank's keys and values in float32. [Liu et al. 2023]
 *   ALL_TO_ALL  q, k, v, out, lse, dout and dlse become heads of all rows, and dq, dk and dv rows again
 *   ALL_GATHER  UNSUPPORTED; AUTO chooses among the others
 * The same ranks with the same rows and piece_rows on the same devices give the same bits.
 * UNSUPPORTED: keys of a byte, a `kernel` of its own, dropout. */
typedef struct clattn_mpi_attention_backward_params {
    clattn_mpi_attention_params forward;
    const char *
        score_mod_gradient; /* as clattn_attention_backward_params; the same on all ranks, in names of the whole */
    clattn_tensor dout; /* [B, H, nq, Dv], f32, f16 or bf16 */
    clattn_tensor dlse; /* optional on all ranks: f32 [B, H, nq] */
    /* Results, each optional on all ranks, but one at least. Their types are the same on all ranks. */
    clattn_tensor dq;     /* [B, H, nq, D] */
    clattn_tensor dk, dv; /* [B, Hkv, nkv, D] and [B, Hkv, nkv, Dv], of one type */
    clattn_tensor
        dbias; /* f32, the sizes of this rank's bias: over this rank's rows alone, where it repeats over rows, too */
    /* f32 [H]: of all rows, the same on all ranks; summed in the order of the ranks */
    clattn_tensor dsinks, dalibi_slopes, dhead_scales;
} clattn_mpi_attention_backward_params;

/* Plan them without doing it: as clattn_mpi_attention_plan.   Collective. */
CLATTN_API clattn_status clattn_mpi_attention_backward_plan(
    clattn_mpi *world, const clattn_mpi_attention_backward_params *params, clattn_mpi_plan *plan);

/* Do it: as clattn_mpi_attention_run. The report's compute_seconds are until the device is idle last; of a ring, the host's sums are
 * among them.
 * Returns   as clattn_mpi_attention_run, and INVALID_ARGUMENT where lse or dout is absent, or no gradient is asked for */
CLATTN_API clattn_status clattn_mpi_attention_backward_run(clattn_mpi *world,
                                                           const clattn_mpi_attention_backward_params *params,
                                                           clattn_mpi_report *report);

/* Decode: keys and values are shared (kv_rows), the query rows are the same on all ranks, and so is the result:
 *   each rank   out_r, lse_r over the keys that it has
 *   allreduce   (out, lse) of all ranks by clattn_merge_enqueue's formula, H * (Dv + 1) floats a query row, with an MPI operation
 *               that does not commute: in the order of the ranks
 * q_rows, way and piece_rows must be zero; mask and bias have all Nq rows and all Nkv keys on each rank. A rank's keys are one call
 * where nothing depends on their positions (and for one query row with causality, which then is a length), else a call a segment.
 * Otherwise as clattn_mpi_attention_run; plan.way is AUTO. */
CLATTN_API clattn_status clattn_mpi_decode_run(clattn_mpi *world, const clattn_mpi_attention_params *params,
                                               clattn_mpi_report *report);

/* How a layer is shared.
 *   HEADS  each rank has some heads: rows of wq, wk, wv (and of w_gate, bq, bk, bv), columns of wo, and of what is per head
 *          (alibi_slopes, sinks) its part; layer.heads and kv_heads are its own. x, y and bo are the same on all ranks, and so is
 *          out, the sum over ranks in one allreduce of B * Nq * Mo float32, in the order of the ranks; bo is added once. With 16-bit x each
 *          rank's part is rounded to x's type before the sum. Caches (kv) are of its heads. [Shoeybi et al. 2019, "Megatron-LM"]
 *   ROWS   each rank has some rows of x and out, and all weights; keys and values travel as in clattn_mpi_attention_run.
 *          UNSUPPORTED: y, kv, append, w_gate, weights, scores, ragged batches, rope.positions, dropout */
typedef enum clattn_mpi_layer_way {
    CLATTN_MPI_LAYER_HEADS = 0,
    CLATTN_MPI_LAYER_ROWS,
    CLATTN_MPI_LAYER_WAY_COUNT
} clattn_mpi_layer_way;

/* A layer that the ranks share: this rank's part of it. */
typedef struct clattn_mpi_layer_params {
    clattn_layer_params layer; /* HEADS: lse absent */
    clattn_mpi_layer_way way;
    /* ROWS alone; HEADS: zero. */
    clattn_mpi_rows rows;
    clattn_mpi_way attention;
    int64_t piece_rows;
} clattn_mpi_layer_params;

/* One layer.   Collective; blocking, errors and the rest as clattn_mpi_attention_run; norm and RoPE as clattn_layer_enqueue. Of HEADS
 * the report has seconds, those of the allreduce as transfer_seconds, and its bytes. */
CLATTN_API clattn_status clattn_mpi_layer_run(clattn_mpi *world, const clattn_mpi_layer_params *params,
                                              clattn_mpi_report *report);
#ifdef __cplusplus
}
#endif
#endif
