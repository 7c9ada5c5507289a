// ranks.c: the functions of ranks.h that need no MPI. The other functions are in ranks_mpi.c
// (clattn-mpi) and in ranks_none.c (the program without MPI).
#include "cli/ranks/ranks.h"

static const char *const way_names[] = {"auto", "ring", "all_to_all", "all_gather", "decode", "heads", NULL};

static const option_row ranks_rows_table[] = {
    {"mpi", NULL,
     "run under mpirun (a build with -Dmpi): each rank reads only its own rows and writes its part of the "
     "one output; not with weights, scores, dropout, --k-new or --splits",
     AS_SWITCH(ranks, wanted)},
    {"mpi-way", "NAME",
     "how keys reach the ranks that need them: auto, ring, all_to_all or all_gather; for attend also decode "
     "(all ranks have the queries, keys are partitioned); for layer also heads (heads and their weights are "
     "partitioned)",
     AS_WORD(ranks, strategy, way_names)},
};

option_group ranks_group(ranks *r) {
    return (option_group){"ranks", OPTION_ROWS(ranks_rows_table), r};
}

bool ranks_way_is(const ranks *r, const char *name) {
    return r->strategy && !strcmp(r->strategy, name);
}

ranks_rows ranks_all(int64_t whole) {
    return (ranks_rows){
        .chunks = {{0, whole}}, .count = 1, .rows = whole, .whole = whole, .first = 0, .file = whole};
}

int ranks_find(const char *option, const char *spec, int rank, load_place *place) {
    reason error;
    if (!load_find(spec, place, error)) return tool_wrong("--%s: %s", option, error);
    const int status = tensors_rank(option, spec, &place->whole, rank);
    if (status >= 0) load_leave(place);
    return status;
}

int ranks_read(ranks *r, const char *option, const load_place *place, int axis, const ranks_rows *rows,
               array *a) {
    reason error;
    const int64_t starts[2] = {rows->first + rows->chunks[0].start, rows->first + rows->chunks[1].start},
                  counts[2] = {rows->chunks[0].count, rows->chunks[1].count};
    if (!load_rows(place, axis, rows->count, starts, counts, a, error))
        return tool_wrong("--%s: %s", option, error);
    r->read_bytes += (double)a->bytes;
    return -1;
}

static int load_map(ranks *r, const char *option, const char *spec, int from_last, int64_t size,
                    const ranks_rows *rows, int64_t item, array *a) {
    load_place place;
    int status = spec ? ranks_find(option, spec, -1, &place) : 0;
    if (!spec) return -1;
    if (status >= 0) return status;
    array *whole = &place.whole;
    if (item >= 0 && whole->rank == 4 && whole->shape[0] > item) {
        place.data += (uint64_t)item * (whole->bytes / (uint64_t)whole->shape[0]);
        whole->shape[0] = 1;
    }
    const int axis = whole->rank - 1 - from_last;
    const bool shared = axis >= 0 && whole->shape[axis] != 1 && whole->shape[axis] == size;
    const ranks_rows all = ranks_all(whole->rank ? whole->shape[shared ? axis : 0] : 1);
    if (whole->rank)
        status = ranks_read(r, option, &place, shared ? axis : 0, shared ? rows : &all, a);
    else
        status = tool_wrong("--%s: has no axis: [.., Nkv] is needed", option);
    load_leave(&place);
    return status;
}

int ranks_load_maps(ranks *r, score_options *o, int from_last, int64_t size, const ranks_rows *rows,
                    int64_t item) {
    int status = load_map(r, "mask", o->mask, from_last, size, rows, item, &o->mask_array);
    if (status < 0) status = load_map(r, "bias", o->bias, from_last, size, rows, item, &o->bias_array);
    return status < 0 ? score_options_types(o) : status;
}

int ranks_keep(const ranks_rows *rows, int axis, array *a) {
    array kept;
    int64_t shape[ARRAY_MAX_RANK], outer = 1;
    size_t row = array_type_size(a->type);
    memcpy(shape, a->shape, sizeof shape);
    shape[axis] = rows->rows;
    for (int n = 0; n < axis; n++) outer *= shape[n];
    for (int n = axis + 1; n < a->rank; n++) row *= (size_t)shape[n];
    if (!array_create(&kept, a->type, a->rank, shape)) return tool_failed("no memory");
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

int ranks_expect(ranks *r, expect *e, int axis, const ranks_part *part) {
    load_place place;
    array want = {0};
    const ranks_rows *rows = part->rows;
    int64_t *numbers = calloc((size_t)rows->rows + 1, sizeof *numbers), at = 0;
    int status = numbers ? ranks_find("expect", e->file, -1, &place) : tool_failed("no memory to compare");
    for (int c = 0; c < rows->count && numbers; c++)
        for (int64_t n = 0; n < rows->chunks[c].count; n++)
            numbers[at++] = rows->first + rows->chunks[c].start + n;
    if (status < 0) {
        status = ranks_read(r, "expect", &place, axis, rows, &want);
        load_leave(&place);
    }
    if (status < 0) status = expect_add(e, part->mine, &want, axis, numbers);
    array_free(&want);
    free(numbers);
    return status;
}
