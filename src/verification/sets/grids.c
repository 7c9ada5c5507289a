// grids.c: see grids.h.
#include "verification/sets/grids.h"

#include <stdio.h>

#include "verification/device/allocate.h"

const struct grid grids[] = {
    // FlashAttention's sizes from 32 to 256, ggml's other sizes, and the latent head of DeepSeek's
    // models.
    {"head sizes",
     {{"attend-f32", "attend-f16", "attend-bf16"},
      {"d32", "d40", "d59", "d64", "d72", "d80", "d96", "d111", "d128", "d160", "d192", "d224", "d256",
       "d576-dv512"},
      {"h2-hkv1-n23-nkv113", "h2-hkv1-n1-nkv113"},
      {"causal-lse"}}},
    {"lengths",
     {{"attend-f32", "attend-bf16"},
      {"n113-nkv203", "n128-nkv217", "n108-nkv256", "n256-nkv512", "n1023-nkv1024", "n1-nkv239", "n3-nkv799",
       "n127-nkv513", "n239-nkv1"},
      {"full", "causal", "causal-window50:0", "full-bottomright-window40:30"},
      {"d64-lse", "d128-h2-hkv1-lse"}}},
    {"query heads of a key head",
     {{"attend-f32", "attend-bf16"},
      {"h1", "h4-hkv2", "h6-hkv2", "h8-hkv2", "h12-hkv2", "h8-hkv1", "h32-hkv2", "h32-hkv1"},
      {"n1-nkv97", "n5-nkv512", "n35-nkv113"},
      {"b2-d64-causal-lse"}}},
    {"windows",
     {{"attend-f32", "attend-bf16"},
      {"window3:0", "window13:0", "window23:0", "window33:0", "window43:0", "window533:0", "window3:3",
       "window33:13"},
      {"n1-nkv199", "n19-nkv99", "n99-nkv99", "n37-nkv577", "n1-nkv1999"},
      {"h2-d64-full-bottomright-lse", "h2-d64-causal-lse"}}},
    // The scale multiplies queries by the cap, as FlashAttention's tests do, so that scores reach
    // the cap.
    {"softcap",
     {{"attend-f32", "attend-f16", "attend-bf16"},
      {"softcap10-scale1.25", "softcap30-scale3.75", "softcap50-scale6.25", "softcap30-scale0.125"},
      {"n1-nkv81", "n81-nkv81", "n127-nkv513"},
      {"h2-d64-full-lse", "h2-d64-causal-window33:0-lse"}}},
    // One visible key with a score of -5e5, -5e3 or 5e5: its weight must be exactly 1.
    {"one visible key",
     {{"attend-f32", "attend-f16", "attend-bf16"},
      {"scale0.0078125-hugeneg", "scale7.8125em05-hugeneg", "scale0.0078125-huge"},
      {"n65-causal-window0:0", "n65-full-kvlen1", "n1-nkv300-full-kvlen1", "n9-nkv1-full",
       "n1-nkv300-full-bottomright-window0:0"},
      {"h2-d64-lse", "h2-d64-lse-sinks"}}},
};
const int grid_count = (int)(sizeof grids / sizeof grids[0]);

static int levels(const struct grid *g, int axis) {
    int n = 0;
    while (n < GRID_MOST_LEVELS && g->axes[axis][n]) n++;
    return n;
}

int grid_cases(int grid) {
    int count = 1;
    for (int axis = 0; axis < GRID_MOST_AXES && grids[grid].axes[axis][0]; axis++)
        count *= levels(&grids[grid], axis);
    return count;
}

struct test_case grid_case(int grid, int n) {
    char tokens[CASE_NAME_SIZE] = "", why[256];
    const struct grid *g = &grids[grid];
    struct test_case test;
    size_t used = 0;
    for (int axis = 0; axis < GRID_MOST_AXES && g->axes[axis][0]; axis++) {
        const int count = levels(g, axis);
        used += (size_t)snprintf(tokens + used, sizeof tokens - used, "%s%s", axis ? "-" : "",
                                 g->axes[axis][n % count]);
        n /= count;
    }
    if (!case_read(tokens, &test, why)) evidence_end("grid %s: %s: %s", g->name, tokens, why);
    return test;
}
