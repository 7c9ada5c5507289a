// deal.h: how a call's work is dealt: along which axis, how much to each device, and how a share is cut into pieces. Pure
// arithmetic on boxes: a range of batch items, query heads, query rows and keys. Used by call.c; tested without a device.
#ifndef CLATTN_GROUP_DEAL_H
#define CLATTN_GROUP_DEAL_H
#include <clattn/clattn.h>

enum { BOX_ITEMS, BOX_HEADS, BOX_ROWS, BOX_KEYS, BOX_AXES };

typedef struct box {
    int64_t at[BOX_AXES], size[BOX_AXES];
} box;

// Axes that may be dealt. Groups are the query heads of one key/value head; single heads of a group share its keys.
#define DEAL_CAN_ITEMS 1u
#define DEAL_CAN_GROUPS 2u
#define DEAL_CAN_HEADS 4u
#define DEAL_CAN_ROWS 8u
#define DEAL_CAN_KEYS 16u

// Rows are cut at multiples of DEAL_ROWS, or of a block mask's blocks where there is one; keys at multiples of those anyway.
#define DEAL_ROWS 16
#define DEAL_KEYS CLATTN_BLOCK_KEYS

typedef struct deal_problem {
    int64_t size[BOX_AXES];
    int64_t group; // query heads of a key/value head
    int64_t rows;  // of a block of rows
    unsigned can;
    double (*work)(void *user, const box *b); // operations; a sum over disjoint boxes
    void *user;
    const clattn_host_memory *host; // where memory comes from; NULL: the C library
} deal_problem;

box cla_deal_whole(const deal_problem *p);
bool cla_deal_is_whole(const deal_problem *p, const box *b, int axis);

// An axis as it is dealt. Its units are groups or single heads (DEAL_HEADS), blocks of rows, or blocks of keys.
typedef struct deal_axis {
    clattn_deal deal;
    bool single;   // single heads
    int64_t units; // 1: nothing to deal
} deal_axis;

// The axis of a call: `wanted` alone where it is not AUTO. False: it cannot be dealt so. *busy: the share of all devices' time in
// which they work, where each does what the dealing gives it.
// *no_memory: why it is false.
bool cla_deal_choose(const deal_problem *p, clattn_deal wanted, const double *rates, int count,
                     deal_axis *axis, double *busy, bool *no_memory);

// cuts[0..count]: device d gets the units from cuts[d] to cuts[d + 1], of those in [first, last), by the rates; none where its
// rate is 0, or less than half a unit is its share. False: no memory.
bool cla_deal_cut(const deal_problem *p, const deal_axis *axis, int64_t first, int64_t last,
                  const double *rates, int count, int64_t *cuts);

// Units from 0 on that hold about `part` of the work, at least `least`. 0: no memory.
int64_t cla_deal_first(const deal_problem *p, const deal_axis *axis, double part, int64_t least);

// The units [first, last) as boxes, in the order of their units; returns how many.
#define DEAL_MOST_BOXES 7
int cla_deal_boxes(const deal_problem *p, const deal_axis *axis, int64_t first, int64_t last,
                   box boxes[DEAL_MOST_BOXES]);

// Halve a box along the first axis that `can` lets: items, groups, single heads, rows, keys. False: it is one unit of each.
bool cla_deal_halve(const deal_problem *p, unsigned can, box *b, box *second);
#endif
