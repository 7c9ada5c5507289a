// ranks.c: see ranks.h: what needs no MPI. ranks_mpi.c has the rest in clattn-mpi, ranks_none.c in the plain program.
#include "tool/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load.h"

enum { RANKS_MPI = 900, RANKS_WAY };
static const char *const way_names[] = {"auto", "ring", "all_to_all", "all_gather", NULL};

static bool take_ranks(void *target, int id, const char *value, char why[256]) {
    ranks *r = target;
    int index = 0;
    if (id == RANKS_MPI) return r->wanted = true;
    if (!option_choice(value, way_names, &index, why)) return false;
    r->way = way_names[index];
    return true;
}

static const option_row ranks_rows_table[] = {
    {"mpi", NULL, RANKS_MPI,
     "under mpirun: each rank reads its rows alone, and writes its part of the one output (a build with "
     "-Dmpi)"},
    {"mpi-way", "NAME", RANKS_WAY,
     "how keys reach the rows that see them: auto, ring, all_to_all or all_gather"},
};

option_group ranks_group(ranks *r) {
    return (option_group){"ranks", ranks_rows_table, sizeof ranks_rows_table / sizeof *ranks_rows_table,
                          take_ranks, r};
}

int ranks_load(const ranks *r, const char *command, const char *option, const char *spec, int rank, int axis,
               ranks_rows *rows, array *a) {
    char error[512], shape[128];
    load_place place;
    int status = -1;
    if (!load_find(spec, &place, error, sizeof error)) return tool_wrong(command, "--%s: %s", option, error);
    if (place.whole.rank != rank) {
        array_shape_text(&place.whole, shape, sizeof shape);
        status = tool_wrong(command, "--%s: %s has shape %s: rank %d is needed", option, spec, shape, rank);
    }
    if (status < 0) {
        ranks_share(r, place.whole.shape[axis], rows);
        const int64_t starts[2] = {rows->chunks[0].start, rows->chunks[1].start},
                      counts[2] = {rows->chunks[0].count, rows->chunks[1].count};
        if (!load_rows(&place, axis, rows->count, starts, counts, a, error, sizeof error))
            status = tool_wrong(command, "--%s: %s", option, error);
    }
    load_leave(&place);
    return status;
}

int ranks_keep(const char *command, const ranks_rows *rows, array *a) {
    const int axis = a->rank - 2;
    array kept;
    if (axis < 0 || a->shape[axis] == 1 || a->shape[axis] != rows->whole)
        return -1; // others are refused later
    int64_t shape[ARRAY_MAX_RANK], outer = 1;
    memcpy(shape, a->shape, sizeof shape);
    shape[axis] = rows->rows;
    for (int n = 0; n < axis; n++) outer *= shape[n];
    if (!array_create(&kept, a->type, a->rank, shape)) return tool_failed(command, "no memory");
    const size_t row = array_type_size(a->type) * (size_t)shape[axis + 1];
    char *to = kept.data;
    for (int64_t n = 0; n < outer; n++)
        for (int c = 0; c < rows->count; c++) {
            const size_t bytes = (size_t)rows->chunks[c].count * row;
            memcpy(to, (const char *)a->data + (size_t)(n * rows->whole + rows->chunks[c].start) * row,
                   bytes);
            to += bytes;
        }
    array_free(a);
    *a = kept;
    return -1;
}
