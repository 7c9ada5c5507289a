// bench_baseline.h: a baseline for the bench: attention composed of CLBlast's batched products Q
// K^T and P V with a plain softmax between them. The scores go through memory. float32 only. Used
// by bench_call.
#ifndef CLATTN_CLI_BENCH_BENCH_BASELINE_H
#define CLATTN_CLI_BENCH_BENCH_BASELINE_H
#include "verification/case/case.h"
#include "cli/common/session.h"

typedef struct composition composition;

// Dense float32 buffers: q [B, H, Nq, D], k [B, H, Nkv, D], v [B, H, Nkv, Dv], scores [B, H, Nq,
// Nkv], out [B, H, Nq, Dv].
typedef struct composition_buffers {
    cl_mem q, k, v, scores, out;
} composition_buffers;

// True if this build's CLBlast can compute the case. Otherwise writes the reason to `why`.
bool composition_can(const struct test_case *c, char why[256]);

// Compile the softmax. CLBlast compiles its own kernels at its first call. Returns NULL and the
// reason in `why` on failure. The buffers and the session must outlive the composition.
composition *composition_create(session *s, const struct test_case *c, const composition_buffers *buffers,
                                char why[256]);

// Enqueue on the session's queue. The event is that of the last command.
bool composition_enqueue(composition *c, cl_event *event, char why[256]);

// Call after the queue has finished. Clears CLBlast's cache, which must go before the session's
// context does. NULL is allowed.
void composition_destroy(composition *c);
#endif
