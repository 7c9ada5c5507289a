// verify_case.h: the hard cases of clattn verify, and running one against the double-precision reference.
#ifndef CLATTN_TOOL_VERIFY_CASE_H
#define CLATTN_TOOL_VERIFY_CASE_H
#include "tool/tool.h"

typedef struct verify_case {
    const char *name;
    clattn_type type;
    int batch, heads, kv_heads, n_q, n_kv, head_dim, head_dim_v;
    bool lengths; // the last batch item sees a third of the keys, and NaN lies behind
    bool mask, bias, alibi, sinks;
    bool huge; // all scores equal and large
    clattn_attention_params options;
} verify_case;

extern const verify_case verify_cases[];
extern const int verify_case_count;

typedef enum verify_result { VERIFY_PASS, VERIFY_FAIL, VERIFY_UNSUPPORTED } verify_result;

// Run on the session's context with this kernel; a line of why in why[256] unless it passed.
verify_result verify_run(session *s, const verify_case *c, clattn_kernel kernel, char why[256]);
#endif
