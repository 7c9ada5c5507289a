// sinks.cl: copies a call's table (args.h) and puts sink logits from device memory into the words
// of the heads. It runs before the kernels that read the table. `from` and `to` may be the same
// table if it was made on the device. TYPE_Q is the type of the logits. Global size: words of the
// table.
#include "base/common.clh"

__kernel void sinks(__global const int *from, __global int *to, __global const ELEMENT(TYPE_Q) * logits,
                    const sinks_args args) {
    const int word = (int)get_global_id(0), of_heads = word - args.before_heads,
              head = of_heads / ARGS_HEAD_WORDS;
    if (word >= args.words) return;
    const bool is_sink = of_heads >= 0 && head < args.heads && of_heads % ARGS_HEAD_WORDS == ARGS_HEAD_SINK;
    to[word] = is_sink ? as_int(LOAD(TYPE_Q, logits, args.offset + head * args.stride)) : from[word];
}
