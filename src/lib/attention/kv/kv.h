// kv.h: keys and values of a call: their checks, what kernels see of them, and their buffers as arguments (kv.c); new rows, which
// go to the caches before anything else (kv_append.c).
#ifndef CLATTN_ATTENTION_KV_KV_H
#define CLATTN_ATTENTION_KV_KV_H
#include "attention/call/call.h"

clattn_status cla_kv_check_unbuilt(clattn_context *context, const clattn_attention_params *p, bool turned);
clattn_status cla_kv_check(clattn_context *context, const clattn_kv *kv, const int64_t q[4], int64_t items,
                           bool planning);

// Scales and zero points of stored rows, with the rule of the scales; a zero point has their axes and places.
typedef struct kv_scales {
    const clattn_tensor *scale, *zero;
    tensor_rule rule;
    const char *zero_name;
} kv_scales;
#define KV_SCALE_TYPES (TYPES_FLOAT | ANY_LAST_STRIDE)
// Both with types that have them: of each row of `of`, or of groups of its numbers.
clattn_status cla_kv_check_scales(clattn_context *context, const clattn_tensor *of, const kv_scales *s);
// The knob SCALE_GROUP of such rows alone; their scales as kernels see them.
int cla_kv_scale_group(const clattn_tensor *of, const clattn_tensor *scale, const clattn_tensor *zero);
args_view cla_kv_scale_view(const clattn_tensor *scale, const clattn_tensor *zero);
// What the planner knows of them.
void cla_kv_fill_groups(const clattn_kv *kv, problem *p);
void cla_kv_fill(call *c);
// Arguments of a launch in the order of kv.clh.
void cla_kv_key_arguments(const call *c, launch *l);
void cla_kv_value_arguments(const call *c, const cl_mem *v, launch *l); // v: the call's, or packed ones
void cla_kv_place_arguments(const call *c, bool keys, bool values, launch *l); // of a kernel that has these

// New rows: their checks, what the launch needs, its table, which is borrowed before the first command, and the launch. Nothing
// where there are none.
clattn_status cla_kv_check_new(call *c, bool planning);
void cla_kv_fill_new(call *c);
// Where the new rows of a checked call go, as views of its caches, and how they are turned: for who makes them there. Of a ragged batch
// they are packed, at the caches' strides, and the call's table says where each goes. False: one view does not hold those of all items.
bool cla_kv_new_views(const call *c, clattn_tensor *k, clattn_tensor *v, rope_rows *turned);
clattn_status cla_kv_append_prepare(const call *c);
double cla_kv_append_flops(const call *c);
clattn_status cla_kv_append_table(call *c, chain *steps);
clattn_status cla_kv_append_enqueue(call *c, chain *steps);
#endif
