// `partition.h`: partitions a call: along which axis, how much for each device, and how a share is
// cut into pieces. Pure arithmetic on boxes. A box is a range of batch items, query heads, query
// rows and keys. Used by call.c, and tested without a device.
#ifndef CLATTN_GROUP_PARTITION_H
#define CLATTN_GROUP_PARTITION_H
#include <clattn/clattn.h>

enum { BOX_ITEMS, BOX_HEADS, BOX_ROWS, BOX_KEYS, BOX_AXES };

typedef struct box {
    int64_t at[BOX_AXES], size[BOX_AXES];
} box;

// Axes along which a call can be partitioned. A group is the query heads of one key/value head;
// single heads of a group share its keys.
#define PARTITION_CAN_ITEMS 1u
#define PARTITION_CAN_GROUPS 2u
#define PARTITION_CAN_HEADS 4u
#define PARTITION_CAN_ROWS 8u
#define PARTITION_CAN_KEYS 16u

// Rows are cut at multiples of PARTITION_ROWS, or of a block mask's blocks if there is one. Keys
// are always cut at multiples of PARTITION_KEYS.
#define PARTITION_ROWS 16
#define PARTITION_KEYS CLATTN_BLOCK_KEYS

typedef struct partition_problem {
    int64_t size[BOX_AXES];
    int64_t group; // query heads for each key/value head
    int64_t rows;  // query rows in a block
    unsigned can;
    double (*work)(void *user, const box *b); // operations in a box; additive over disjoint boxes
    void *user;
    const clattn_host_memory *host; // allocator; NULL: the C library
} partition_problem;

box cla_partition_whole(const partition_problem *p);
bool cla_partition_is_whole(const partition_problem *p, const box *b, int axis);

// A partitioned axis. Its units are groups or single heads (CLATTN_PARTITION_HEADS), blocks of
// rows, or blocks of keys.
typedef struct partition_axis {
    clattn_partition partition;
    bool single;   // units are single heads, not groups
    int64_t units; // 1: cannot be split
} partition_axis;

// Choose the axis. `wanted` is the only choice unless it is AUTO. Returns false if that partition
// is impossible, or without memory (*no_memory). *busy: predicted fraction of all devices' time
// that is used.
bool cla_partition_choose(const partition_problem *p, clattn_partition wanted, const double *rates, int count,
                          partition_axis *axis, double *busy, bool *no_memory);

// Split units [first, last) in proportion to `rates`. Device d gets units cuts[d] to cuts[d + 1] -
// 1. A device gets none if its rate is 0 or its share is below half a unit. False: no memory.
bool cla_partition_cut(const partition_problem *p, const partition_axis *axis, int64_t first, int64_t last,
                       const double *rates, int count, int64_t *cuts);

// Number of units, from 0 on, that contain about `part` of the work; at least `least`. 0: no
// memory.
int64_t cla_partition_first(const partition_problem *p, const partition_axis *axis, double part,
                            int64_t least);

// Cover units [first, last) by boxes, in the units' order. Returns how many.
#define PARTITION_MOST_BOXES 7
int cla_partition_boxes(const partition_problem *p, const partition_axis *axis, int64_t first, int64_t last,
                        box boxes[PARTITION_MOST_BOXES]);

// Halve a box along the first axis that `can` allows: items, groups, single heads, rows, keys.
// False if it is one unit on each.
bool cla_partition_halve(const partition_problem *p, unsigned can, box *b, box *second);
#endif
