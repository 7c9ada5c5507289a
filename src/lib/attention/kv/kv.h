// kv.h: keys and values of a call. kv.c checks them and passes them to kernels. kv_append.c appends
// new rows to the caches before the call reads them.
#ifndef CLATTN_ATTENTION_KV_KV_H
#define CLATTN_ATTENTION_KV_KV_H
#include "attention/call/call.h"

clattn_status cla_kv_check_unsupported(clattn_context *context, const clattn_attention_params *p,
                                       bool keys_roped);
clattn_status cla_kv_check(clattn_context *context, const clattn_kv *kv, const int64_t q[4], int64_t items,
                           bool planning);

// Scales and zero points of stored rows. `rule` describes the scales; zero points must have the
// same shape and strides.
typedef struct kv_scales {
    const clattn_tensor *scale, *zero;
    tensor_rule rule;
    const char *zero_name;
} kv_scales;
#define KV_SCALE_TYPES (TYPES_FLOAT | ANY_LAST_STRIDE)
// Check scales and zero points of tensor `of`: required for scaled types, rejected for others. One
// scale per row, or per group of numbers.
clattn_status cla_kv_check_scales(clattn_context *context, const clattn_tensor *of, const kv_scales *s);
// Check a block table and its page size against k, whose rows are in pages. A page size without a
// table is rejected.
clattn_status cla_kv_check_pages(clattn_context *context, const clattn_tensor *table, int32_t page_size,
                                 const clattn_tensor *k, int64_t batch, bool planning);
// The knob SCALE_GROUP for these rows.
int cla_kv_scale_group(const clattn_tensor *of, const clattn_tensor *scale, const clattn_tensor *zero);
args_view cla_kv_scale_view(const clattn_tensor *scale, const clattn_tensor *zero);
// Set the scale groups in the planner's problem.
void cla_kv_fill_groups(const clattn_kv *kv, problem *p);
void cla_kv_fill(call *c);
// Add arguments to a launch, in the order of kv.clh. `v`: c->v, or the packed values. `keys`,
// `values`: what the kernel reads.
void cla_kv_key_arguments(const call *c, launch *l);
void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l);
void cla_kv_place_arguments(const call *c, bool keys, bool values, launch *l);

// New rows (k_new, v_new). Check them and fill c->append. The table is borrowed before the first
// command. All of these do nothing without new rows.
clattn_status cla_kv_check_new(call *c, bool planning);
void cla_kv_fill_new(call *c);
// For a caller that writes the new rows itself: the views of the caches that receive the rows, and
// the rows' RoPE. For a ragged batch the views are packed, with the caches' strides, and the call's
// table has each row's place. False: one view cannot hold the rows of all items.
bool cla_kv_new_views(const call *c, clattn_tensor *k, clattn_tensor *v, rope_rows *roped);
clattn_status cla_kv_append_prepare(const call *c);
double cla_kv_append_flops(const call *c);
clattn_status cla_kv_append_table(call *c, chain *steps);
clattn_status cla_kv_append_enqueue(call *c, chain *steps);
#endif
