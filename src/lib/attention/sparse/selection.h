// selection.h: what clattn_topk_enqueue and clattn_index_enqueue share: the checks of a
// clattn_selection, its table, and the launches of a selection.
#ifndef CLATTN_ATTENTION_SPARSE_SELECTION_H
#define CLATTN_ATTENTION_SPARSE_SELECTION_H
#include "args/select_args.h"
#include "attention/call/tensor.h"
#include "attention/call/views.h"
#include "attention/sparse/selection_plan.h"
#include "launch/chain.h"

// The sizes of a call's tensors.
typedef struct selection_sizes {
    int64_t batch, heads, rows;   // of the tensors of rows: [batch, ..., rows, ...]
    int64_t entries, keys;        // of an item, at most
    const int32_t *cu_seqlens_kv; // of packed keys; NULL: none
    int64_t packed_keys;          // rows of the packed keys
} selection_sizes;

typedef struct selection {
    clattn_context *context;
    const char *rows_name, *keys_name; // tensors, for messages
    clattn_selection *s;               // the job's copy
    selection_sizes sizes;
    int flags;                    // SELECT_* of the call alone
    int64_t items;                // batch items
    int64_t rows_most, keys_most; // of the longest item
    int32_t *words;               // owned table of select_args.h; NULL: planning
    selection_shares shares;
} selection;

// Resolve the views of the job's copy.
void cla_selection_given(const given_views *g, clattn_selection *s);
// The keys of an entry.
int cla_selection_block(const clattn_selection *s);
// The count of batch items.
int64_t cla_selection_items(const clattn_selection *s, int64_t batch);
// Check everything but the memory, and plan.
clattn_status cla_selection_check(selection *job, bool planning);
void cla_selection_add_views(call_views *v, const clattn_selection *s);
void cla_selection_release(selection *job);
void cla_selection_describe(const selection *job, const char *kernel, clattn_selection_plan *plan);
bool cla_selection_is_empty(const selection *job);

// One kernel that selects. `tensors` are its arguments before the table.
typedef struct selection_kernel {
    enum kernel_id id;
    knobs knobs;
    const cl_mem *tensors[5];
    int count;
    // The kernel's last argument, whose first member is a select_args.
    launch_argument args;
    double flops; // of a unit
} selection_kernel;

clattn_status cla_selection_prepare(const selection *job, const selection_kernel *kernel);
// `select` is the first member of the kernel's arguments.
clattn_status cla_selection_enqueue(const selection *job, chain *steps, const selection_kernel *kernel,
                                    select_args *select, const clattn_progress *progress);
#endif
