/* group.h: one attention call, or its gradients, over several devices of one process. Tensors are
 * in host memory. Included by clattn.h (letters, rules, contracts). */
#ifndef CLATTN_GROUP_H
#define CLATTN_GROUP_H

#include "attention.h"
#include "backward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------ group --- */

/* Host memory as a view's buffer: clattn_tensor_bhsd(CLATTN_HOST(q), CLATTN_TYPE_F32, b, h, n,
 * d). */
#define CLATTN_HOST(pointer) ((cl_mem)(uintptr_t)(const void *)(pointer))

/* Contexts, of any devices and platforms, that share the work of a call. */
typedef struct clattn_group clattn_group;

/* One device of a group, by its context. */
typedef struct clattn_group_member {
    clattn_context *context; /* the caller's; outlives the group; two may be of one device */
    /* Most bytes of device memory for a call, workspaces included; 0: three quarters of the
     * device's. Larger work is cut; OUT_OF_MEMORY here if no piece fits. */
    uint64_t max_bytes;
} clattn_group_member;

/* The members of a group. */
typedef struct clattn_group_params {
    const clattn_group_member *members; /* [count] */
    size_t count;                       /* 1 to 64 */
    clattn_log log; /* why a call failed; with CLATTN_LOG_INFO, work that moved to another device */
} clattn_group_params;

/* Create a group, with three command queues a member. Host memory comes from the first member's
 * context (clattn_host_memory).
 *    Lifetime  destroy it with clattn_group_destroy, before its contexts
 *    Threads   any
 *    Returns   INVALID_ARGUMENT  no members or more than 64, or a NULL context
 *              OUT_OF_MEMORY, DRIVER, DEVICE_LOST of the context that failed */
CLATTN_API clattn_status clattn_group_create(const clattn_group_params *params, clattn_group **group);

/* Destroy a group; NULL is allowed.   Threads: no other thread uses the group any more. */
CLATTN_API void clattn_group_destroy(clattn_group *group);

/* As clattn_context_last_error, for the last failed call on this group. */
CLATTN_API size_t clattn_group_last_error(clattn_group *group, char *text, size_t size);

/* The axis along which a call is partitioned. */
typedef enum clattn_partition {
    CLATTN_PARTITION_AUTO = 0, /* the first of the next three that keeps all devices busy */
    /* batch items and heads: a device reads the keys and values of its heads */
    CLATTN_PARTITION_HEADS,
    CLATTN_PARTITION_ROWS, /* query rows: each device reads all keys */
    /* keys: partial results are merged in order, as exactly as by clattn_merge_enqueue */
    CLATTN_PARTITION_KEYS,
    CLATTN_PARTITION_WHOLE, /* none: the fastest device runs the call, another one if that fails */
    CLATTN_PARTITION_COUNT
} clattn_partition;

/* The axis's word, such as "heads". The name contract applies. */
CLATTN_API const char *clattn_partition_name(clattn_partition partition);

/* One attention call over a group. Every `buffer` of `attention` is host memory (CLATTN_HOST) that
 * holds the whole view. `workspace` is NULL. Outputs must not overlap other tensors. See
 * docs/devices.md for options that limit the partition, for rates, and for host memory. */
typedef struct clattn_group_attention_params {
    /* progress reports each finished piece; CANCELLED waits for the pieces that are running. */
    clattn_attention_params attention;
    clattn_partition partition; /* UNSUPPORTED, with the reason, if the call does not allow it */
    /* [members]: the share of each member, in any unit. Equal shares and memory make equal bits, if
     * no device fails. NULL: by the rates of earlier calls. */
    const double *shares;
} clattn_group_attention_params;

/* The work of one member. */
typedef struct clattn_group_share {
    /* the member's part of the call's work, 0 to 1; in a plan the expected part */
    double share;
    /* its rate in this call; 0: no work, or the driver records no times */
    double gflops;
    uint64_t time_ns;             /* from its first copy to its last, by the device's clock */
    uint64_t bytes_in, bytes_out; /* copied to and from the device */
    uint64_t device_bytes;        /* most bytes of buffers and workspace at once */
    int32_t pieces;               /* calls that it ran */
    clattn_status status;         /* why it passed its work to others; OK: it did not */
} clattn_group_share;

/* How a call was, or would be, partitioned. */
typedef struct clattn_group_report {
    clattn_partition partition; /* HEADS, ROWS, KEYS or WHOLE */
    int32_t pieces;             /* of all members */
    int32_t handed;             /* pieces that another device ran, since their own device failed */
    int32_t merged;             /* partial results merged, or parts of gradients added */
    double busy;                /* predicted share of all devices' time in which they work */
    char why[256];              /* one line */
} clattn_group_report;

/* Run the call. `report` and `shares` [members] may be NULL. A call that fails or is cancelled has
 * written no output.
 *
 * If a device's context returns DEVICE_LOST, DRIVER, OUT_OF_MEMORY, BUILD_FAILED or UNSUPPORTED,
 * other devices run its unfinished pieces. A later call uses the device again, unless it is lost.
 *    Lifetime  no argument is used after the return
 *    Threads   any; calls on one group wait for one another. Its contexts may run other calls
 *              meanwhile
 *    Blocking  until the results are in host memory
 *    Returns   INVALID_ARGUMENT  as clattn_attention_enqueue; shares that are negative, infinite,
 *                                NaN, or all 0
 *              UNSUPPORTED       no member can run the call, or it cannot be partitioned by
 *              `partition` CANCELLED         by attention.progress
 *              OUT_OF_MEMORY     no host memory
 *              DEVICE_LOST, DRIVER, BUILD_FAILED, OUT_OF_MEMORY  all devices failed; the status of
 *              the last */
CLATTN_API clattn_status clattn_group_attention(clattn_group *group,
                                                const clattn_group_attention_params *params,
                                                clattn_group_report *report, clattn_group_share *shares);

/* Return how the call would be partitioned now, without running it. Host memory may be NULL.
 *    Threads, returns: as clattn_group_attention.   Blocking: as clattn_attention_plan. */
CLATTN_API clattn_status clattn_group_plan(clattn_group *group, const clattn_group_attention_params *params,
                                           clattn_group_report *report, clattn_group_share *shares);

/* The gradients of one attention call over a group. As clattn_group_attention_params: every
 * `buffer` of `backward` is host memory, its `workspace` NULL.
 *
 * Gradients that pieces share are added in float32 on the host, in the order of the pieces, and
 * rounded once. Equal shares make equal bits. */
typedef struct clattn_group_attention_backward_params {
    clattn_attention_backward_params backward; /* with its progress */
    clattn_partition partition;
    const double *shares; /* [members]; NULL: by the rates of earlier gradients */
} clattn_group_attention_backward_params;

/* Run the call. As clattn_group_attention; INVALID_ARGUMENT as clattn_attention_backward_enqueue,
 * CANCELLED by backward.progress. */
CLATTN_API clattn_status clattn_group_attention_backward(clattn_group *group,
                                                         const clattn_group_attention_backward_params *params,
                                                         clattn_group_report *report,
                                                         clattn_group_share *shares);

/* As clattn_group_plan, for gradients.   Blocking: as clattn_attention_backward_plan. */
CLATTN_API clattn_status clattn_group_backward_plan(clattn_group *group,
                                                    const clattn_group_attention_backward_params *params,
                                                    clattn_group_report *report, clattn_group_share *shares);

#ifdef __cplusplus
}
#endif
#endif
