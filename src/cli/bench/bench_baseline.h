// bench_baseline.h: attention as a program composes it that has a matrix product and no attention: CLBlast's
// batched products Q K^T and P V, and a plain softmax between them, through a matrix of scores in memory.
// float32 alone. Stands beside clattn in a bench's table. Used by bench_call.
#ifndef CLATTN_TOOL_BENCH_BENCH_BASELINE_H
#define CLATTN_TOOL_BENCH_BENCH_BASELINE_H
#include "verification/case/case.h"
#include "cli/common/session.h"

typedef struct composition composition;

// Dense float32: [B, H, Nq, D], [B, H, Nkv, D], [B, H, Nkv, Dv], [B, H, Nq, Nkv], [B, H, Nq, Dv].
typedef struct composition_buffers {
    cl_mem q, k, v, scores, out;
} composition_buffers;

// Whether CLBlast's products can do the case, in this build; false: why[256] says what is in the way.
bool composition_can(const struct test_case *c, char why[256]);

// Compiles the softmax; CLBlast compiles its own kernels at the first call. NULL: why[256]. The buffers and
// the session outlive it.
composition *composition_create(session *s, const struct test_case *c, const composition_buffers *buffers,
                                char why[256]);

// Enqueue on the session's queue; the event is the last command's.
bool composition_enqueue(composition *c, cl_event *event, char why[256]);

// The queue is finished. Drops what CLBlast keeps, which must go before the session's context. NULL is
// allowed.
void composition_destroy(composition *c);
#endif
