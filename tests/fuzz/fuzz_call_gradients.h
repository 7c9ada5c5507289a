/* fuzz_call_gradients.h: calls for the gradients of a projection and of a layer. The input decides
 * the call. */
#ifndef CLATTN_TESTS_FUZZ_CALL_GRADIENTS_H
#define CLATTN_TESTS_FUZZ_CALL_GRADIENTS_H

#include "fuzz/fuzz_call.h"

/* Make one call. Returns true if it was accepted. */
bool fuzz_layer_backward(fuzz_bytes *b);
bool fuzz_linear_backward(fuzz_bytes *b);

#endif
