/* The API: a valid call of small size, then changes chosen by the input: enums, shapes, strides,
 * offsets, numbers and handles, likely and unlikely ones. Plan and enqueue must return a status and
 * a message, and agree. Enqueued calls use buffers between protected pages, so that a kernel which
 * leaves its view ends the run. */
#include "fuzz/fuzz_call_gradients.h"
#include "fuzz/fuzz_calls.h"

bool fuzz_one(const uint8_t *data, size_t size) {
    static bool (*const entries[])(fuzz_bytes *) = {
        fuzz_attention,    fuzz_attention_also, fuzz_attention,      fuzz_layer,
        fuzz_layer_also,   fuzz_linear,         fuzz_layer_kv,       fuzz_merge,
        fuzz_backward,     fuzz_attention_also, fuzz_append,         fuzz_rope,
        fuzz_dropout_mask, fuzz_block_mask,     fuzz_layer_backward, fuzz_linear_backward};
    fuzz_bytes b = {data, size};
    if (!fuzz_context) fuzz_device_open();
    return entries[fuzz_below(&b, 16)](&b);
}
