// grids.h: the grids of sizes and options that the tests of other attention libraries go through, as cases: FlashAttention's
// (tests/test_flash_attn.py), FlashInfer's (tests of sliding windows and of capped logits) and ggml's (test-backend-ops,
// FLASH_ATTN_EXT). Leaves out what those leave to lists of pages, to training and to other storage. Run by test_grids.c.
#ifndef CLATTN_EVIDENCE_SETS_GRIDS_H
#define CLATTN_EVIDENCE_SETS_GRIDS_H

#include "verification/case/case.h"

// A product of axes, each a list of tokens of a case's name.
#define GRID_MOST_AXES 5
#define GRID_MOST_LEVELS 16
struct grid {
    const char *name;
    const char *axes[GRID_MOST_AXES][GRID_MOST_LEVELS];
};
extern const struct grid grids[];
extern const int grid_count;

int grid_cases(int grid);
// Case n of a grid, complete; no longer than `grid_cases`.
struct test_case grid_case(int grid, int n);

#endif
