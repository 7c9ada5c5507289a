// ranks.h: a command run by several processes that MPI has started: which rows are whose, loading and saving those alone, and the calls.
// The plain program knows no MPI: its ranks_open goes over to the program clattn-mpi, which is the same and ranks_mpi.c.
#ifndef CLATTN_TOOL_RANKS_RANKS_H
#define CLATTN_TOOL_RANKS_RANKS_H
#include "cli/attend/expect.h"
#include "cli/files/formats.h"
#include "cli/call_options/call_options.h"

// Rows of the whole that a rank has, in two chunks at most: from either end, so that causal work is the same for all. The whole
// may be a sequence of several in one file.
typedef struct ranks_rows {
    struct ranks_chunk {
        int64_t start, count;
    } chunks[2];
    int count;
    int64_t rows, whole; // of the chunks together, and of the sequence
    int64_t first, file; // rows of the file before the sequence, and all of the file's
} ranks_rows;

// The report at the end, over all calls.
typedef struct ranks_told {
    char way[16], why[256];
    double seconds, compute, transfer, exposed, sent;
} ranks_told;

typedef struct ranks {
    bool wanted;     // --mpi
    const char *way; // --mpi-way; NULL: the cost model's
    int rank, count;
    double read_bytes; // of tensors, by this rank
    void *world;       // clattn_mpi
    ranks_told told;
} ranks;

// A tensor of which this rank has some rows.
typedef struct ranks_part {
    array *mine;
    const ranks_rows *rows;
} ranks_part;

// --mpi and --mpi-way; the way is "decode" or "heads" where that was asked for.
option_group ranks_group(ranks *r);
bool ranks_way_is(const ranks *r, const char *name);
// These return -1, else the exit status; those that all ranks call return the same on all. argv: as of the sub-command.
// All ranks are in the same command with the same options, but for those of the device and the report, and for where files lie:
// what brings an exchange is said on all or on none.
int ranks_open(ranks *r, const command_line *line, int argc, char **argv);
// Compares the content of a file that decides how many exchanges follow; each rank may have any number of `bytes`.
int ranks_alike(const ranks *r, const char *option, const void *bytes, size_t count);
// The worst of all ranks' statuses, on all, of whose lines one is told.
int ranks_agree(const ranks *r, int status);
void ranks_close(ranks *r, int status);
// The library's ranks, once there is a device.
int ranks_begin(ranks *r, session *s);
void ranks_end(ranks *r);
// One call; of `decode` the query rows are the same on all ranks.
int ranks_attend(ranks *r, session *s, const clattn_attention_params *p, const ranks_rows *q,
                 const ranks_rows *kv, bool decode);
// Rows NULL: heads are shared.
int ranks_layer(ranks *r, session *s, const clattn_layer_params *p, const ranks_rows *rows);
// An axis of whose rows each rank has some: written whole or not at all, by all ranks together. `whole`: its type and shape.
int ranks_save(const ranks *r, const char *path, const array *whole, int axis, const ranks_part *parts,
               int64_t count);
// The largest error that any rank found, in e->error, and what it comes to.
int ranks_verdict(const ranks *r, expect *e);
// The report, by rank 0.
int ranks_tell(const ranks *r, const session *s, const char *out, const expect *e);
// bench --mpi, whose options are its own.
int ranks_bench_run(int argc, char **argv);

// Rows that are dealt to the ranks; all of them.
void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows);
ranks_rows ranks_all(int64_t whole);
// A file that is found, of that rank (-1: any).
int ranks_find(const char *option, const char *spec, int rank, load_place *place);
// Load this rank's rows of an axis, and no others.
int ranks_read(ranks *r, const char *option, const load_place *place, int axis, const ranks_rows *rows,
               array *a);
// Loads this rank's part of a mask and a bias along the axis that is so many from the last: 1 for query rows, 2 for heads. An axis of 1
// repeats, and is read whole as one of another size than `size` is, which is refused later. item: -1, or one of batch items.
int ranks_load_maps(ranks *r, score_options *o, int from_last, int64_t size, const ranks_rows *rows,
                    int64_t item);
// Keep this rank's rows of what all ranks have.
int ranks_keep(const ranks_rows *rows, int axis, array *a);
// Compare this rank's part of a result with its rows of the stored one, which is found.
int ranks_expect(ranks *r, expect *e, int axis, const ranks_part *part);
#endif
