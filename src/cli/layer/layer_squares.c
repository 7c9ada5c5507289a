// layer_squares.c: see layer_squares.h.
#include "cli/layer/layer_squares.h"

#include "verification/words/words.h"
#include "cli/layer/layer.h"

static int wrong_key(const squares *all, const char *key, const json_t *value, const char *what) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const int status = tool_wrong("--weights: %s: quantization_config: %s is %.60s: %s", all->path, key,
                                  text ? text : "", what);
    free(text);
    return status;
}

// Read a whole number from 1 to `most`; -1 means SQUARE_ALL if `most` is SQUARE_ALL. An absent or
// null key leaves *x.
static int read_whole(const squares *all, const json_t *object, const char *key, int64_t most, int64_t *x) {
    const json_t *value = json_object_get(object, key);
    const int64_t number = json_integer_value(value);
    if (!value || json_is_null(value)) return -1;
    if (!json_is_integer(value) || number > most || (number < 1 && (most != SQUARE_ALL || number != -1)))
        return wrong_key(all, key, value,
                         most == SQUARE_ALL ? "a whole number from 1, or -1, is needed"
                                            : "a whole number from 1 to 32 is needed");
    *x = number < 0 ? SQUARE_ALL : number;
    return -1;
}

// Read [rows, columns], or "rowsxcolumns" of old files.
static int read_square(const squares *all, const json_t *object, const char *key, square *s) {
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    int64_t size[2] = {0};
    if (!value || json_is_null(value)) return -1;
    if (json_array_size(value) == 2)
        for (size_t i = 0; i < 2; i++) size[i] = json_integer_value(json_array_get(value, i));
    if (text && !(number_whole_at(&text, &size[0]) && *text++ == 'x' && number_whole(text, &size[1])))
        size[0] = 0;
    if (size[0] < 1 || size[1] < 1) return wrong_key(all, key, value, "two whole numbers from 1 are needed");
    s->rows = size[0], s->columns = size[1];
    return -1;
}

// Append the square that one object describes: quantization_config itself, or `weights` of one of
// its groups. A group is appended even if it states nothing.
static int add_square(squares *all, const json_t *object, bool group) {
    const char *way = json_string_value(json_object_get(object, "strategy")),
               *type = json_string_value(json_object_get(object, "type"));
    square s = {0};
    int64_t bits = 0;
    int status = read_whole(all, object, "bits", 32, &bits);
    if (status < 0) status = read_whole(all, object, "num_bits", 32, &bits);
    if (status < 0) status = read_whole(all, object, "group_size", SQUARE_ALL, &s.columns);
    s.rows = s.columns ? 1 : 0;
    if (way && !strcmp(way, "channel")) s.rows = 1, s.columns = SQUARE_ALL;
    if (way && !strcmp(way, "tensor")) s.rows = s.columns = SQUARE_ALL;
    if (status < 0) status = read_square(all, object, "weight_block_size", &s);
    if (status < 0) status = read_square(all, object, "block_structure", &s);
    s.bits = type && strcmp(type, "int") ? -1 : (int)bits;
    if (group || s.rows || s.bits) all->list[all->count++] = s;
    return status;
}

// Read config.json and set its path. *config stays NULL if there is no such file.
static int read_config(const layer_weights *w, squares *all, json_t **config) {
    static const char name[] = "config.json";
    const char *from = w->folder ? w->folder : w->file ? w->file : "";
    size_t folder = strlen(from);
    while (!w->folder && folder && !strchr("/\\", from[folder - 1])) folder--;
    const size_t size = folder + 1 + sizeof name;
    if (!(all->path = malloc(size))) return tool_failed("no memory");
    snprintf(all->path, size, "%.*s%s%s", (int)folder, from, w->folder ? "/" : "", name);
    file_source source = {.descriptor = -1};
    const bool there = file_open(all->path, &source, NULL);
    file_close(&source);
    if (!there) return -1;
    *config = model_json("--weights", all->path);
    return *config ? -1 : EXIT_WRONG;
}

int squares_read(const layer_weights *w, squares *all) {
    json_t *root = NULL, *group;
    const char *key;
    *all = (squares){0};
    int status = read_config(w, all, &root);
    // The first files of compressed-tensors call it compression_config, or nest an object of the
    // same name.
    const json_t *config = json_object_get(root, "quantization_config"), *inner;
    if (!config) config = json_object_get(root, "compression_config");
    while ((inner = json_object_get(config, "quantization_config"))) config = inner;
    json_t *groups = json_object_get(config, "config_groups");
    all->list = calloc(json_object_size(groups) + 1, sizeof *all->list);
    if (status < 0 && !all->list) status = tool_failed("no memory");
    if (status < 0) status = add_square(all, config, false);
    json_object_foreach(groups, key, group) {
        const json_t *weights = json_object_get(group, "weights");
        if (status < 0 && json_is_object(weights)) status = add_square(all, weights, true);
    }
    json_decref(root);
    return status;
}

void squares_free(squares *all) {
    free(all->path), free(all->list);
    *all = (squares){0};
}

static bool fits(const array *a, const square *s, int64_t rows, int64_t columns) {
    return rows == square_parts(a->shape[0], s->rows) && columns == square_parts(a->shape[1], s->columns);
}

// Guess the square from the number of scales. A group of a row divides the row. A square has 128
// rows and columns, as in all published float8 models, or another power of two that divides the
// columns. Two powers fit only if one covers a whole axis.
static bool guess(const array *a, int64_t rows, int64_t columns, square *s) {
    const int64_t each = columns > 0 && a->shape[1] % columns == 0 ? a->shape[1] / columns : 0;
    *s = (square){.rows = SQUARE_ALL, .columns = SQUARE_ALL};
    if (rows == 1 && columns == 1) return true;
    *s = (square){.rows = 1, .columns = each};
    if (rows == a->shape[0]) return each > 0;
    *s = (square){.rows = 128, .columns = 128};
    if (fits(a, s, rows, columns)) return true;
    *s = (square){.rows = each, .columns = each};
    return each > 0 && !(each & (each - 1)) && fits(a, s, rows, columns);
}

static bool is_of(const square *s, int bits) {
    return !bits || !s->bits || s->bits == bits;
}

static void append_square(char *text, size_t size, const array *a, const square *s, const char *whose) {
    const size_t used = strlen(text);
    const int64_t rows = s->rows == SQUARE_ALL ? a->shape[0] : s->rows,
                  columns = s->columns == SQUARE_ALL ? a->shape[1] : s->columns;
    snprintf(text + used, size - used, "%s %ssquares of %lld x %lld make [%lld, %lld]", used ? "," : "",
             whose, (long long)rows, (long long)columns, (long long)square_parts(a->shape[0], rows),
             (long long)square_parts(a->shape[1], columns));
}

static int wrong_scales(const squares *all, const array *a, int bits, const char *name, const array *scale) {
    char shape[128], list[400] = "";
    for (int n = 0; n < all->count; n++)
        if (all->list[n].rows && is_of(&all->list[n], bits))
            append_square(list, sizeof list, a, &all->list[n], "config.json's ");
    if (!*list) append_square(list, sizeof list, a, &(square){.rows = 128, .columns = 128}, "");
    return tool_wrong(
        "--weights: %s: is of type %s and shape %s: float scales are needed, one in all, for each row, for "
        "each group of a row, or for each square; the matrix is [%lld, %lld], of which%s",
        name, array_type_name(scale->type), array_shape_text(scale, shape), (long long)a->shape[0],
        (long long)a->shape[1], list);
}

int squares_find(const squares *all, const array *a, int bits, const char *name, const array *scale,
                 square *s) {
    const int64_t rows = scale->rank ? scale->shape[0] : 1, columns = scale->rank == 2 ? scale->shape[1] : 1;
    bool said = false, open = false, found = false, two = false;
    *s = (square){.rows = SQUARE_ALL, .columns = SQUARE_ALL};
    if (scale->type > ARRAY_BF16 || scale->rank > 2) return wrong_scales(all, a, bits, name, scale);
    if (scale->rank < 2 && rows == 1) return -1; // a single number is for the whole matrix
    for (int n = 0; n < all->count; n++) {
        const square *next = &all->list[n];
        if (!is_of(next, bits)) continue;
        *(next->rows ? &said : &open) = true;
        if (!next->rows || !fits(a, next, rows, columns)) continue;
        two = two || (found &&
                      ((rows > 1 && s->rows != next->rows) || (columns > 1 && s->columns != next->columns)));
        *s = *next, found = true;
    }
    if (!two && (found || ((open || !said) && guess(a, rows, columns, s)))) return -1;
    return wrong_scales(all, a, bits, name, scale);
}
