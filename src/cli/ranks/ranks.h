// ranks.h: run a command on several MPI processes: assign rows to ranks, load and save only those
// rows, and run the calls. The plain program has no MPI: its ranks_open executes clattn-mpi, the
// same program with ranks_mpi.c.
#ifndef CLATTN_CLI_RANKS_RANKS_H
#define CLATTN_CLI_RANKS_RANKS_H
#include "cli/attend/expect.h"
#include "cli/files/formats.h"
#include "cli/call_options/call_options.h"

// The rows of a sequence that a rank has, in at most two chunks. One chunk is from each half of the
// sequence, so that causal work is balanced. The file may contain several sequences.
typedef struct ranks_rows {
    struct ranks_chunk {
        int64_t start, count;
    } chunks[2];
    int count;
    int64_t rows, whole; // rows of all chunks; rows of the sequence
    int64_t first, file; // rows of the file before the sequence; rows of the file
} ranks_rows;

// The totals of all calls for the final report.
typedef struct ranks_told {
    char strategy[16], why[256];
    double seconds, compute, transfer, exposed, sent;
} ranks_told;

typedef struct ranks {
    bool wanted;          // --mpi
    const char *strategy; // --mpi-way; NULL: chosen by the cost model
    int rank, count;
    double read_bytes; // bytes of tensors that this rank read
    void *world;       // clattn_mpi
    ranks_told told;
} ranks;

// A tensor of which this rank has some rows.
typedef struct ranks_part {
    array *mine;
    const ranks_rows *rows;
} ranks_part;

// The options --mpi and --mpi-way. ranks_way_is is true if --mpi-way has this value.
option_group ranks_group(ranks *r);
bool ranks_way_is(const ranks *r, const char *name);
// The functions below return -1, else the exit status. A function that all ranks call returns the
// same status on all.
//
// ranks_open checks that all ranks run the same command with the same options. Only options of
// device and report, and the folders of files, may differ. `argv` is the sub-command's.
int ranks_open(ranks *r, const command_line *line, int argc, char **argv);
// Compare the contents of a file that decides how many exchanges follow. `count` may differ between
// ranks.
int ranks_alike(const ranks *r, const char *option, const void *bytes, size_t count);
// Exchange the worst status of all ranks. One of the ranks' error lines is printed.
int ranks_agree(const ranks *r, int status);
void ranks_close(ranks *r, int status);
// Create the library's ranks, after a device is open.
int ranks_begin(ranks *r, session *s);
void ranks_end(ranks *r);
// Run one attention call. `decode`: all ranks have the same query rows.
int ranks_attend(ranks *r, session *s, const clattn_attention_params *p, const ranks_rows *q,
                 const ranks_rows *kv, bool decode);
// Run one layer call. `rows` NULL: the ranks share heads.
int ranks_layer(ranks *r, session *s, const clattn_layer_params *p, const ranks_rows *rows);
// Write an array atomically from all ranks, each with some rows of `axis`. `whole` has the array's
// type and shape.
int ranks_save(const ranks *r, const char *path, const array *whole, int axis, const ranks_part *parts,
               int64_t count);
// Set e->error to the largest error of any rank, and return the resulting status.
int ranks_verdict(const ranks *r, expect *e);
// Print the report on rank 0.
int ranks_tell(const ranks *r, const session *s, const char *out, const expect *e);
// Run bench --mpi, which has options of its own.
int ranks_bench_run(int argc, char **argv);

// ranks_share: this rank's rows. ranks_all: all rows.
void ranks_share(const ranks *r, int64_t whole, ranks_rows *rows);
ranks_rows ranks_all(int64_t whole);
// Find a file of this rank (-1: any).
int ranks_find(const char *option, const char *spec, int rank, load_place *place);
// Load only this rank's rows of an axis.
int ranks_read(ranks *r, const char *option, const load_place *place, int axis, const ranks_rows *rows,
               array *a);
// Load this rank's part of mask and bias. `from_last` counts axes from the last: 1 is query rows, 2
// is heads. An axis of size 1 or of a size other than `size` is read whole; a wrong size is an
// error later. `item` is a batch item; -1: all.
int ranks_load_maps(ranks *r, score_options *o, int from_last, int64_t size, const ranks_rows *rows,
                    int64_t item);
// Keep only this rank's rows of an array that every rank has.
int ranks_keep(const ranks_rows *rows, int axis, array *a);
// Compare this rank's part of a result with its rows of the stored result.
int ranks_expect(ranks *r, expect *e, int axis, const ranks_part *part);
#endif
