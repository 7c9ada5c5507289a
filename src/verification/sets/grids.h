// grids.h: the grids of sizes and options in other attention libraries' tests, as cases:
// FlashAttention's (tests/test_flash_attn.py), FlashInfer's (sliding windows and capped logits) and
// ggml's (test-backend-ops, FLASH_ATTN_EXT). Their tests of page lists, training and other storage
// are not included. Run by test_grids.c.
#ifndef CLATTN_VERIFICATION_SETS_GRIDS_H
#define CLATTN_VERIFICATION_SETS_GRIDS_H

#include "verification/case/case.h"

// A product of axes. Each axis is a list of tokens of a case's name.
#define GRID_MOST_AXES 5
#define GRID_MOST_LEVELS 16
struct grid {
    const char *name;
    const char *axes[GRID_MOST_AXES][GRID_MOST_LEVELS];
};
extern const struct grid grids[];
extern const int grid_count;

int grid_cases(int grid);
// Case n of a grid, complete; n is less than grid_cases(grid).
struct test_case grid_case(int grid, int n);

#endif
