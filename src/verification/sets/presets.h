// presets.h: how published models attend, by name: what a program needs beside weights and inputs. The table is presets.def.
#ifndef CLATTN_EVIDENCE_SETS_PRESETS_H
#define CLATTN_EVIDENCE_SETS_PRESETS_H

#include "verification/case/case.h"

// All are causal.
struct preset {
    const char *name, *source;
    int64_t heads, kv_heads, head_dim, head_dim_v, width; // head_dim_v 0: head_dim
    clattn_rope rope;
    clattn_norm norm; // with weights
    float norm_epsilon;
    float scale, softcap;
    int32_t window; // keys that a row sees, itself included; 0: all before it
    bool sinks;     // learned ones, a head
    int biases;     // bit LAYER_Q...
};
extern const struct preset presets[];
extern const char *const preset_names[]; // of the same order, ending with NULL

// Make a case that model's: sizes of heads and width where they are 0, and options. Its op decides which it can have.
void preset_apply(const struct preset *preset, struct test_case *test);

#endif
