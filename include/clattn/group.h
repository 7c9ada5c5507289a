/* group.h: one attention call, or its gradients, over several devices of one process, such as a CPU and two GPUs, with what it reads
 * and writes in host memory. Included by clattn.h, which tells the letters and the rules. */
#ifndef CLATTN_GROUP_H
#define CLATTN_GROUP_H

#include "attention.h"
#include "backward.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- group --- */

/* Host memory as the buffer of a view in a group's call: clattn_tensor_bhsd(CLATTN_HOST(q), CLATTN_TYPE_F32, b, h, n, d). */
#define CLATTN_HOST(pointer) ((cl_mem)(uintptr_t)(const void *)(pointer))

/* Contexts of any devices and platforms that share the work of a call. */
typedef struct clattn_group clattn_group;

/* One device of a group, by its context. */
typedef struct clattn_group_member {
    clattn_context *context; /* the caller's, for as long as the group lives; two may be of one device */
    /* What a call holds of the device's memory at most, workspaces among it; 0: three quarters of the device's. What does not
     * fit is done in smaller pieces, one after the other; what cannot be cut so small is OUT_OF_MEMORY there. */
    uint64_t max_bytes;
} clattn_group_member;

/* What a group is made of. */
typedef struct clattn_group_params {
    const clattn_group_member *members; /* [count] */
    size_t count;                       /* 1 or more, at most 64 */
    clattn_log log; /* why a call failed, and at CLATTN_LOG_INFO what went to other devices */
} clattn_group_params;

/* Create a group: three command queues for each member, so that a piece of a call is copied while another is computed.
 * Memory    of the host through the functions of the first member's context (clattn_host_memory).
 * Lifetime  destroy it with clattn_group_destroy, before its contexts.
 * Threads   any.
 * Returns   INVALID_ARGUMENT  no members or more than 64, a NULL context
 *           OUT_OF_MEMORY, DRIVER, DEVICE_LOST of the context that failed */
CLATTN_API clattn_status clattn_group_create(const clattn_group_params *params, clattn_group **group);

/* NULL is allowed.   Threads: no other thread uses the group any more. */
CLATTN_API void clattn_group_destroy(clattn_group *group);

/* The message of the last call that failed on this group: as clattn_context_last_error. */
CLATTN_API size_t clattn_group_last_error(clattn_group *group, char *text, size_t size);

/* Along what a call is dealt. */
typedef enum clattn_deal {
    CLATTN_DEAL_AUTO =
        0, /* the planner decides: the first of the next three that keeps all devices busy; by keys it is as exact as DEAL_KEYS says */
    CLATTN_DEAL_HEADS, /* batch items and heads: each device gets the keys and values of its heads alone */
    CLATTN_DEAL_ROWS,  /* query rows: each device gets all keys */
    CLATTN_DEAL_KEYS, /* keys, as for a row that decodes: partial results are merged in the order of the keys, by their lse and
                             as exactly as clattn_merge_params says */
    CLATTN_DEAL_WHOLE, /* not at all: the fastest device does it, another where that fails */
    CLATTN_DEAL_COUNT
} clattn_deal;

/* Its word, such as "heads"; "(unknown)" for a number that is none.   Lifetime: static.   Threads: any. */
CLATTN_API const char *clattn_deal_name(clattn_deal deal);

/* One attention call. In `attention` every `buffer` is host memory (CLATTN_HOST), and all else is as in
 * clattn_attention_params: types, shapes, strides, offsets, and every option, whatever the devices. But:
 *   workspace   is NULL: a group's is its own
 *   progress    hears of each piece that is done; CANCELLED waits for the pieces that are on their way
 *   k_new       batch items and heads are dealt, and the caches k and v are read and written in host memory; of pages, heads alone
 *   dropout, score_mod, mask_mod    count items, heads, rows or keys of a call: it is done whole by one device (DEAL_WHOLE)
 *   cu_seqlens  of a ragged batch heads are dealt
 *   weights, scores, past keys and pages    keys are not dealt
 * Pointers are not looked at beyond NULL: memory must hold what the views say. What a call writes shares no byte with anything else
 * that it reads or writes, or it is refused. Views whose elements do not lie as they go to the device are packed first, in host
 * memory of their size.
 *   deal      one that is not possible for the call is UNSUPPORTED with the reason
 *   shares    [count of members], or NULL: how much of the work each gets, in any unit, 0: none. Given, the dealing is a pure
 *             function of the call, of shares and of the members' memory: the same shares give the same bits, where no device
 *             fails. Without them work is dealt by the rates that earlier calls of the group showed (by storage type, of few rows and
 *             of many, in operations a second from the first copy to a device to the last one from it); where a device has
 *             shown none, or had no work in 16 calls, an eighth of the call's work is dealt evenly first. */
typedef struct clattn_group_attention_params {
    clattn_attention_params attention;
    clattn_deal deal;
    const double *shares; /* [members] */
} clattn_group_attention_params;

/* What one member did. */
typedef struct clattn_group_share {
    double share;     /* of the call's work, 0 to 1: what it finished; in a plan, what it is to get */
    double gflops;    /* its rate in this call; 0: it did nothing, or its driver keeps no times */
    uint64_t time_ns; /* from its first copy to its last, by its own clock */
    uint64_t bytes_in, bytes_out; /* copied to and from the device */
    uint64_t device_bytes;        /* buffers and workspace at once, at most */
    int32_t pieces;               /* calls that it was given */
    clattn_status status;         /* why it handed its work to others; OK: it did not */
} clattn_group_share;

/* How a call was, or would be, dealt. */
typedef struct clattn_group_report {
    clattn_deal deal; /* HEADS, ROWS, KEYS or WHOLE */
    int32_t pieces;   /* of all members */
    int32_t handed;   /* that went to another device because theirs failed */
    int32_t merged;   /* partial results that were merged; shares of gradients that were added */
    double busy;      /* predicted: of the time of all devices together, how much they work */
    char why[256];    /* one line */
} clattn_group_report;

/* Do it. `report` and `shares` [count of members] may be NULL.
 * A call that fails or is cancelled has written nothing of the caller's: results stay in host memory of the group's until all are there.
 * A device that fails in the middle - its context says DEVICE_LOST, DRIVER, OUT_OF_MEMORY, BUILD_FAILED or UNSUPPORTED - does no
 * more in this call; its unfinished pieces go to the others, and report, shares and log tell of it. A later call tries it again,
 * unless its context is lost.
 * Lifetime  nothing of the caller's is used after the return.
 * Threads   any; calls on one group wait for one another. The contexts may do other calls meanwhile.
 * Blocking  until the results are in host memory.
 * Returns   INVALID_ARGUMENT  as clattn_attention_enqueue, or shares are negative, infinite, NaN, or all 0
 *           UNSUPPORTED       no member can do the call, or not dealt as `deal` says
 *           CANCELLED         by attention.progress
 *           OUT_OF_MEMORY     host memory; or what the last device said to fail, as DEVICE_LOST, DRIVER, BUILD_FAILED: all failed */
CLATTN_API clattn_status clattn_group_attention(clattn_group *group,
                                                const clattn_group_attention_params *params,
                                                clattn_group_report *report, clattn_group_share *shares);

/* How it would be dealt now, without doing it: host memory may be NULL.
 * Threads, returns: as clattn_group_attention.   Blocking: as clattn_attention_plan. */
CLATTN_API clattn_status clattn_group_plan(clattn_group *group, const clattn_group_attention_params *params,
                                           clattn_group_report *report, clattn_group_share *shares);

/* The gradients of one attention call. In `backward`, every `buffer` is host memory (CLATTN_HOST), and all else is as in
 * clattn_attention_backward_params. What clattn_group_attention_params says of its call holds here, too, with this:
 *   workspace    of `backward` is NULL
 *   progress     is that of `backward`
 *   DEAL_HEADS   dq, dk and dv are of their own heads. Where heads of one key/value head go to several devices, dk and dv are sums
 *   DEAL_ROWS    dk and dv are sums over the pieces of rows
 *   DEAL_KEYS    dq is a sum over the pieces of keys: a piece has its share of the gradients by out and lse of all keys, which are the
 *                forward call's
 *   dropout, score_mod, mask_mod    are done whole by one device; of a ragged batch key/value heads are dealt
 *   dsinks       alone: keys are not dealt
 * Gradients of what pieces share - so may dbias, dsinks, dalibi_slopes and dhead_scales be, too - are added in float32 on the host, in the
 * order of the items, heads, rows and keys of the pieces, and rounded once; a share and the sum take host memory of the result's size in
 * float32 until all is done. The same shares give the same bits. Where nothing is added, as of one device, they are the bits of
 * clattn_attention_backward_enqueue on dense tensors. */
typedef struct clattn_group_attention_backward_params {
    clattn_attention_backward_params backward;
    clattn_deal deal;
    const double *shares; /* [members]; rates are those of gradients */
} clattn_group_attention_backward_params;

/* Do it.   As clattn_group_attention: report, shares, what becomes of a device that fails, nothing written on failure, lifetime,
 * threads, blocking.
 * Returns   INVALID_ARGUMENT  as clattn_attention_backward_enqueue, or shares are negative, infinite, NaN, or all 0
 *           UNSUPPORTED, CANCELLED (by backward.progress), OUT_OF_MEMORY, DEVICE_LOST, DRIVER, BUILD_FAILED   as clattn_group_attention */
CLATTN_API clattn_status clattn_group_attention_backward(clattn_group *group,
                                                         const clattn_group_attention_backward_params *params,
                                                         clattn_group_report *report,
                                                         clattn_group_share *shares);

/* How they would be dealt now, without doing it: host memory may be NULL.
 * Threads, returns: as clattn_group_attention_backward.   Blocking: as clattn_attention_backward_plan. */
CLATTN_API clattn_status clattn_group_backward_plan(clattn_group *group,
                                                    const clattn_group_attention_backward_params *params,
                                                    clattn_group_report *report, clattn_group_share *shares);

#ifdef __cplusplus
}
#endif
#endif
