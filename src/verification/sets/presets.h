// presets.h: attention parameters of published models by name: everything a program needs besides
// weights and inputs. presets.def is the table.
#ifndef CLATTN_VERIFICATION_SETS_PRESETS_H
#define CLATTN_VERIFICATION_SETS_PRESETS_H

#include "verification/case/case.h"

// All presets are causal.
struct preset {
    const char *name, *source;
    int64_t heads, kv_heads, head_dim, head_dim_v, width; // head_dim_v 0: head_dim
    clattn_rope rope;
    clattn_norm norm; // with weights
    float norm_epsilon;
    float scale, softcap;
    int32_t window; // keys that a row sees, itself included; 0: all before it
    bool sinks;     // sinks are learned, one for each head
    int biases;     // bit LAYER_Q...
};
extern const struct preset presets[];
extern const char *const preset_names[]; // in the same order; NULL ends the list

// Apply a preset to a case: sizes of heads and width if they are 0, and options. The case's op
// decides which options apply.
void preset_apply(const struct preset *preset, struct test_case *test);

#endif
