/* fuzz_calls.h: the calls, one function for each subject. The input decides the call. */
#ifndef CLATTN_TESTS_FUZZ_CALLS_H
#define CLATTN_TESTS_FUZZ_CALLS_H

#include "fuzz/fuzz_call.h"

/* Make one call. Returns true if it was accepted. */
bool fuzz_attention(fuzz_bytes *b);
bool fuzz_attention_also(fuzz_bytes *b);
bool fuzz_backward(fuzz_bytes *b);
bool fuzz_block_mask(fuzz_bytes *b);
bool fuzz_layer(fuzz_bytes *b);
bool fuzz_layer_also(fuzz_bytes *b);
bool fuzz_layer_kv(fuzz_bytes *b);
bool fuzz_linear(fuzz_bytes *b);
bool fuzz_merge(fuzz_bytes *b);
bool fuzz_append(fuzz_bytes *b);
bool fuzz_rope(fuzz_bytes *b);
bool fuzz_dropout_mask(fuzz_bytes *b);

#endif
