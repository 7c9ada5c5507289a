// ranks_keys.c: see ranks_keys.h.
#include "cli/ranks/ranks_keys.h"

static int axis_of(const ranks_keys *k) {
    return k->bshd ? 1 : 2;
}

int64_t ranks_keys_heads(const ranks_keys *k) {
    return k->now[0].whole.shape[k->bshd ? 2 : 1];
}

int64_t ranks_keys_past(const ranks_keys *k, int64_t item) {
    if (!k->has_past) return 0;
    return k->past_lengths ? k->past_lengths[item] : k->past[0].whole.shape[axis_of(k)];
}

int64_t ranks_keys_new(const ranks_keys *k, int64_t item) {
    if (k->paged) return k->blocks * k->now[0].whole.shape[axis_of(k)];
    return k->cu ? k->cu[item + 1] - k->cu[item] : k->now[0].whole.shape[axis_of(k)];
}

int64_t ranks_keys_count(const ranks_keys *k, int64_t item) {
    return ranks_keys_new(k, item) + (k->has_past ? k->past[0].whole.shape[axis_of(k)] : 0);
}

// Check that types and shapes are equal. A set bit in `free` exempts that axis.
static int alike(const char *option, const load_place *a, const char *other, const load_place *b,
                 unsigned free) {
    char mine[128], theirs[128];
    bool good = a->whole.type == b->whole.type;
    for (int axis = 0; axis < 4; axis++)
        good = good && (free >> axis & 1 || a->whole.shape[axis] == b->whole.shape[axis]);
    if (good) return -1;
    return tool_wrong("--%s: is %s %s beside --%s, %s %s: must fit, in one type", option,
                      array_type_name(a->whole.type), array_shape_text(&a->whole, mine), other,
                      array_type_name(b->whole.type), array_shape_text(&b->whole, theirs));
}

static int check_past(const ranks_keys *k, int64_t batch, bool prefix) {
    const unsigned rows = 1u << axis_of(k);
    int status = alike(k->past_options[0], &k->past[0], "k", &k->now[0], 1u | rows);
    if (status < 0) status = alike(k->past_options[1], &k->past[1], "v", &k->now[1], 1u | rows);
    if (status < 0) status = alike(k->past_options[1], &k->past[1], k->past_options[0], &k->past[0], 8u);
    const int64_t items = k->past[0].whole.shape[0], most = k->past[0].whole.shape[axis_of(k)];
    if (status < 0 && items != 1 && (prefix || items != batch))
        return tool_wrong(prefix ? "--%s: has %lld items: 1, which all share, is needed"
                                 : "--%s: has %lld items: 1 or B = %lld are needed",
                          k->past_options[0], (long long)items, (long long)batch);
    for (int64_t b = 0; b < batch && status < 0 && k->past_lengths; b++)
        if (k->past_lengths[b] < 0 || k->past_lengths[b] > most)
            return tool_wrong("--past-lengths: item %lld is %d: a number from 0 to %lld rows is needed",
                              (long long)b, (int)k->past_lengths[b], (long long)most);
    return status;
}

static int check_pages(const ranks_keys *k, const kv_options *o, int64_t batch) {
    const array *pool = &k->now[0].whole;
    const int64_t size = pool->shape[axis_of(k)];
    if (k->has_past) return tool_wrong("--block-table: not with --past-k");
    if (o->table_array.type != ARRAY_I32 || o->table_array.shape[0] != batch)
        return tool_wrong("--block-table: integers [B, blocks] are needed, B = %lld", (long long)batch);
    if (o->page_size && o->page_size != size)
        return tool_wrong("--page-size %lld: --k has %lld rows a page", (long long)o->page_size,
                          (long long)size);
    if (!pool->shape[0] && k->blocks) return tool_wrong("--k: has no page");
    return -1;
}

int ranks_keys_find(ranks_keys *k, const char *files[2], kv_options *o, int64_t batch) {
    static const char *const names[2] = {"k", "v"};
    const char *const past[2] = {o->past_k, o->past_v};
    int status = -1;
    k->past_options[0] = o->prefix_k ? "prefix-k" : "past-k";
    k->past_options[1] = o->prefix_k ? "prefix-v" : "past-v";
    for (int n = 0; n < 2 && status < 0; n++) {
        status = ranks_find(names[n], files[n], 4, &k->now[n]);
        if (status < 0 && past[n]) status = ranks_find(k->past_options[n], past[n], 4, &k->past[n]);
    }
    if (status < 0) status = alike("v", &k->now[1], "k", &k->now[0], 8u);
    k->has_past = o->past_k, k->paged = o->block_table;
    k->past_lengths = o->lengths, k->table = o->table_array.data;
    k->blocks = k->paged ? o->table_array.shape[1] : 0;
    if (status < 0 && k->paged) status = check_pages(k, o, batch);
    if (status < 0 && k->has_past) status = check_past(k, batch, o->prefix_k);
    const int64_t items = status < 0 ? k->now[0].whole.shape[0] : 0;
    if (status < 0 && !k->paged && items != (k->cu ? 1 : batch))
        status = tool_wrong("--k: has %lld items: %lld are needed", (long long)items,
                            (long long)(k->cu ? 1 : batch));
    return status;
}

// Find where key j of an item is stored: the file, the row in the file, and how many further rows
// (at most *count) follow there. NULL: no file has the key.
static const load_place *place_of(const ranks_keys *k, int which, int64_t item, int64_t j, int64_t end,
                                  int64_t *source, int64_t *row, int64_t *count) {
    const int64_t past = ranks_keys_past(k, item);
    int64_t last = past + ranks_keys_new(k, item);
    *source = k->cu ? 0 : item, *row = j - past + (k->cu ? k->cu[item] : 0);
    if (k->paged) {
        const int64_t size = k->now[0].whole.shape[axis_of(k)], pages = k->now[0].whole.shape[0];
        const int64_t page = k->table[item * k->blocks + j / size];
        *source = page < 0 ? 0 : page >= pages ? pages - 1 : page;
        *row = j % size;
        last = j - *row + size;
    } else if (j < past) {
        *source = k->past[0].whole.shape[0] == 1 ? 0 : item;
        *row = j;
        last = past;
    } else if (j >= last)
        last = end;
    *count = (last < end ? last : end) - j;
    if (j < past) return &k->past[which];
    return k->paged || j < past + ranks_keys_new(k, item) ? &k->now[which] : NULL;
}

// Copy `count` rows of all heads from a file to row `at` of an item of `a`.
static bool copy_rows(const ranks_keys *k, const load_place *from, int64_t source, int64_t row, int64_t count,
                      array *a, int64_t item, int64_t at, reason why) {
    const int axis = axis_of(k);
    const int64_t *shape = from->whole.shape, outer = k->bshd ? 1 : shape[1];
    const size_t bytes =
        // bytes of one row
        array_type_size(a->type) * (size_t)(k->bshd ? shape[2] * shape[3] : shape[3]);
    for (int64_t h = 0; h < outer; h++) {
        const uint64_t begin = (uint64_t)((source * outer + h) * shape[axis] + row) * bytes;
        char *to = (char *)a->data + (size_t)((item * outer + h) * a->shape[axis] + at) * bytes;
        if (!file_read_at(&from->source, from->data + begin, to, (size_t)count * bytes, why)) return false;
    }
    return true;
}

int ranks_keys_read(const ranks_keys *k, ranks *r, int which, int64_t item, int64_t items,
                    const ranks_rows *rows, const int32_t *lengths, array *a) {
    reason error = "";
    const array *whole = &k->now[which].whole;
    const size_t row_bytes = array_type_size(whole->type) * (size_t)(ranks_keys_heads(k) * whole->shape[3]);
    int64_t shape[4];
    memcpy(shape, whole->shape, sizeof shape);
    shape[0] = items, shape[axis_of(k)] = rows->rows;
    if (!array_create(a, whole->type, 4, shape)) return tool_failed("no memory for keys");
    bool good = true;
    for (int64_t b = 0; b < items; b++)
        for (int c = 0; c < rows->count; c++) {
            const int64_t start = rows->chunks[c].start, at = c ? rows->chunks[0].count : 0;
            int64_t end = start + rows->chunks[c].count, source, row, count;
            if (lengths && lengths[item + b] < end) end = lengths[item + b];
            for (int64_t j = start; j < end && good; j += count) {
                const load_place *from = place_of(k, which, item + b, j, end, &source, &row, &count);
                good = !from || copy_rows(k, from, source, row, count, a, b, at + j - start, error);
                if (from) r->read_bytes += (double)row_bytes * (double)count;
            }
        }
    return good ? -1 : tool_wrong("--%s: %s", which ? "v" : "k", error);
}

void ranks_keys_free(ranks_keys *k) {
    for (int n = 0; n < 2; n++) {
        load_leave(&k->now[n]);
        load_leave(&k->past[n]);
    }
}
