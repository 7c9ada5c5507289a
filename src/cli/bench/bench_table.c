// bench_table.c: see bench_table.h.
#include "cli/bench/bench_table.h"

#include "verification/words/words.h"
#include "cli/common/report.h"
#include "cli/files/file.h"

const char *const bench_formats[] = {"md", "csv", "json", "jsonl", "sql", NULL};

static const char *const status_names[] = {"ok", "fail", "unsupported"};

json_t *bench_table_new(void) {
    return json_pack("{s:i, s:s, s:[], s:[]}", "format_version", BENCH_FORMAT_VERSION, "clattn",
                     clattn_version(), "devices", "rows");
}

#define NOISE 0.1 // a spread above this share of the median is reported

static json_t *positive(double x) {
    return x > 0.0 ? json_real(x) : json_null();
}

static json_t *whole(double x) {
    return x > 0.0 ? json_integer((json_int_t)(x + 0.5)) : json_null();
}

static json_t *caches_json(const struct limits *found) {
    json_t *caches = json_array();
    for (int i = 0; i < found->level_count; i++)
        json_array_append_new(caches, json_pack("{s:s, s:I, s:f}", "name", found->levels[i].name, "bytes",
                                                (json_int_t)found->levels[i].bytes, "read_gbytes_per_s",
                                                found->levels[i].gbytes_per_s));
    return caches;
}

static json_t *engines_json(const struct limits *found) {
    json_t *engines = json_array();
    for (int e = 0; e < LIMIT_ENGINES; e++)
        if (found->engine_gflops[e] > 0.0)
            json_array_append_new(engines,
                                  json_pack("{s:s, s:f}", "name", limits_engine_name((limit_engine)e),
                                            "gflops", found->engine_gflops[e]));
    return engines;
}

void bench_table_add_device(json_t *table, const clattn_capabilities *c, const struct limits *found) {
    char line[LIMIT_LINE];
    json_t *device = report_device(c);
    json_t *limits =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "fma_gflops", positive(found->fma_gflops),
                  "fma_loads_gflops", positive(found->fma_loads_gflops), "read_gbytes_per_s",
                  positive(found->read_gbytes_per_s), "caches", caches_json(found), "native_fma_gflops",
                  positive(found->native_fma_gflops), "instructions_per_cycle", positive(found->instructions),
                  "engine_peaks", engines_json(found), "contended", limits_contended(found, line));
    json_object_update(device, limits);
    json_decref(limits);
    json_array_append_new(json_object_get(table, "devices"), device);
}

static json_t *case_json(const bench_row *row, const char *device, const char *driver) {
    const struct test_case c = case_complete(&row->c.test);
    char name[CASE_NAME_SIZE];
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:I, s:s?, s:b}",
                     "case", case_name(&c, name), "op", names_ops[c.op], "device", device, "driver", driver,
                     "kernel", row->kernel, "dtype", names_types[c.q_type], "b", (json_int_t)c.batch, "heads",
                     (json_int_t)c.heads, "kv_heads", (json_int_t)c.kv_heads, "n", (json_int_t)c.n_q, "n_kv",
                     (json_int_t)c.n_kv, "d", (json_int_t)c.head_dim, "dv", (json_int_t)c.head_dim_v,
                     "causal", c.score.causal, "d_model", (json_int_t)c.width, "projection",
                     case_projects(&c) ? names_projections[c.projection] : NULL, "baseline",
                     row->c.baseline != BENCH_NO_BASELINE);
}

// The samples that `clattn compare` resamples.
static json_t *samples_json(const measure_times *times) {
    json_t *samples = json_array();
    for (int i = 0; i < times->sample_count; i++)
        json_array_append_new(samples, json_integer((json_int_t)(times->samples[i] + 0.5)));
    return samples;
}

void bench_table_add_row(json_t *table, const bench_row *row) {
    const json_t *devices = json_object_get(table, "devices");
    const json_t *last = json_array_get(devices, json_array_size(devices) - 1);
    json_t *object = case_json(row, json_string_value(json_object_get(last, "device")),
                               json_string_value(json_object_get(last, "driver")));
    const char *cache = row->build_ms > 0.0 ? row->cold ? "cold" : "warm" : NULL;
    // JSON has no number for an error that is not finite. The status already says that the case
    // failed.
    json_t *error = row->error_nmse < 0.0 ? json_null() : json_real(row->error_nmse);
    json_t *rest = json_pack(
        "{s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:s?, s:o, s:f, s:s?, s:o}", "status",
        status_names[row->status], "why", row->why, "repeats", (json_int_t)row->times.repeats, "time_ns",
        whole(row->times.time_ns), "time_ns_min", whole(row->times.time_ns_min), "time_ns_spread",
        row->times.time_ns > 0.0 ? json_integer((json_int_t)row->times.time_ns_spread) : json_null(),
        "wall_ns", whole(row->times.wall_ns), "gflops", positive(row->gflops), "gbytes_per_s",
        positive(row->gbytes_per_s), "limit_percent", positive(row->limit.percent), "limit_name",
        row->limit.name, "limit", positive(row->limit.rate), "limit_unit",
        !row->limit.name[0] ? NULL
        : row->limit.reads  ? "GB/s"
                            : "GFLOP/s",
        "error_nmse", error ? error : json_null(), "build_ms", row->build_ms, "cache", cache, "peak_bytes",
        whole(row->peak_bytes));
    json_object_update(object, rest);
    json_decref(rest);
    json_object_set_new(object, "noisy",
                        json_boolean(row->times.time_ns_spread > NOISE * row->times.time_ns));
    // Identify the device by index: two devices may have the same name.
    json_object_set_new(object, "samples_ns", samples_json(&row->times));
    json_object_set_new(object, "device_index", json_integer((json_int_t)json_array_size(devices) - 1));
    json_array_append_new(json_object_get(table, "rows"), object);
}

void bench_table_add_option(json_t *table, const bench_option *o) {
    bench_table_add_row(table, &o->row);
    json_t *all = json_object_get(table, "rows"), *row = json_array_get(all, json_array_size(all) - 1);
    json_t *own =
        json_pack("{s:s, s:o, s:o, s:o, s:f, s:o}", "option", o->name, "visible_keys", whole(o->visible_keys),
                  "plain_ns", whole(o->plain_ns), "ratio", positive(o->ratio), "ratio_spread",
                  o->ratio_spread, "ratio_per_key", positive(o->ratio_per_key));
    json_object_update(row, own);
    json_decref(own);
}

void bench_table_add_pair(json_t *table, const char *options, const bench_pair *pair) {
    char name[CASE_NAME_SIZE];
    bench_table_add_row(table, &pair->row);
    json_t *all = json_object_get(table, "rows"), *row = json_array_get(all, json_array_size(all) - 1);
    const bool timed = pair->row.status == BENCH_OK, sure = timed && pair->ratio.high < 1e17;
    json_t *own =
        json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:s?}", "against", options, "against_case",
                  case_name(&pair->other.c.test, name), "against_kernel", pair->other.kernel, "against_ns",
                  timed ? json_integer((json_int_t)(pair->other.times.time_ns + 0.5)) : json_null(), "ratio",
                  timed ? json_real(pair->ratio.ratio) : json_null(), "ratio_low",
                  sure ? json_real(pair->ratio.low) : json_null(), "ratio_high",
                  sure ? json_real(pair->ratio.high) : json_null(), "verdict",
                  timed ? compare_verdicts[pair->ratio.verdict] : NULL);
    json_object_update(row, own);
    json_decref(own);
}

static void print_quoted(FILE *to, const char *text, char quote) {
    fputc(quote, to);
    for (; *text; text++) {
        if (*text == quote) fputc(quote, to);
        fputc(*text, to);
    }
    fputc(quote, to);
}

static void print_value(FILE *to, const json_t *value, char quote, const char *none) {
    if (json_is_string(value))
        print_quoted(to, json_string_value(value), quote);
    else if (json_is_integer(value))
        fprintf(to, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fprintf(to, "%.6g", json_real_value(value));
    else
        fputs(json_is_true(value) ? "1" : json_is_false(value) ? "0" : none, to);
}

// Print the row's values, or with `names` their names. Arrays are left out because a column cannot
// hold them.
static void print_columns(FILE *to, json_t *row, bool names, char quote, const char *none) {
    const char *key, *comma = "";
    json_t *value;
    json_object_foreach(row, key, value) {
        if (json_is_array(value)) continue;
        fputs(comma, to);
        if (names && quote)
            print_quoted(to, key, quote);
        else if (names)
            fputs(key, to);
        else
            print_value(to, value, quote, none);
        comma = ",";
    }
}

// Names are quoted because `case` is a keyword of SQL.
static void print_rows(FILE *to, const json_t *rows, bool sql) {
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (i == 0) {
            fputs(sql ? "CREATE TABLE IF NOT EXISTS clattn_bench (" : "", to);
            print_columns(to, row, true, sql ? '"' : '\0', NULL);
            fputs(sql ? ");\n" : "\n", to);
        }
        fputs(sql ? "INSERT INTO clattn_bench VALUES (" : "", to);
        print_columns(to, row, false, sql ? '\'' : '"', sql ? "NULL" : "");
        fputs(sql ? ");\n" : "\n", to);
    }
}

// Each line is complete: the row, the versions and the device's limits.
static void print_jsonl(FILE *to, const json_t *table) {
    const json_t *devices = json_object_get(table, "devices");
    json_t *row;
    size_t i;
    json_array_foreach(json_object_get(table, "rows"), i, row) {
        const json_int_t index = json_integer_value(json_object_get(row, "device_index"));
        json_t *line = json_copy(row);
        json_object_set(line, "format_version", json_object_get(table, "format_version"));
        json_object_set(line, "clattn", json_object_get(table, "clattn"));
        json_object_update_missing(line, json_array_get(devices, (size_t)index));
        json_dumpf(line, to, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
        fputc('\n', to);
        json_decref(line);
    }
}

// Print the first two columns of a row. For a row without a measurement, print its reason in the
// other `columns` and return false.
static bool begin_md_row(FILE *to, const json_t *row, const char *first, int columns) {
    fprintf(to, "| %s | %s |", row_text(row, first), row_text(row, "kernel"));
    if (row_ok(row)) return true;
    fprintf(to, " %s: %s %.*s\n", row_text(row, "status"), row_text(row, "why"), columns, "||||||||||");
    return false;
}

static void print_md_error(FILE *to, const json_t *row) {
    if (json_is_real(json_object_get(row, "error_nmse")))
        fprintf(to, " %.1e |", row_number(row, "error_nmse"));
    else
        fputs(" - |", to);
}

static bool is_of(const json_t *row, size_t device) {
    return (size_t)json_integer_value(json_object_get(row, "device_index")) == device;
}

static void print_md_row(FILE *to, const json_t *row) {
    if (!begin_md_row(to, row, "case", 8)) return;
    fprintf(to, " %.3f | %.1f %% | %.1f | %.1f |", row_number(row, "time_ns") / 1e6,
            100.0 * row_number(row, "time_ns_spread") / row_number(row, "time_ns"), row_number(row, "gflops"),
            row_number(row, "gbytes_per_s"));
    if (row_text(row, "limit_name")[0])
        fprintf(to, " %.0f %% of %s |", row_number(row, "limit_percent"), row_text(row, "limit_name"));
    else
        fputs(" - |", to);
    print_md_error(to, row);
    fprintf(to, " %.1f %s | %.1f |\n", row_number(row, "build_ms"), row_text(row, "cache"),
            row_number(row, "peak_bytes") / 0x1p20);
}

// Pairs of a query row and a key, over all batch items and heads.
static double pairs_of(const json_t *row) {
    return row_number(row, "b") * row_number(row, "heads") * row_number(row, "n") * row_number(row, "n_kv");
}

static void print_md_limits(FILE *to, const json_t *device) {
    const char *contended = row_text(device, "contended");
    json_t *cache, *engine;
    size_t i;
    if (row_number(device, "fma_gflops") <= 0.0) return; // a group has no limits of its own
    fprintf(to, "Limits measured in this run: FMA %.1f GFLOP/s", row_number(device, "fma_gflops"));
    if (row_number(device, "fma_loads_gflops") > 0.0)
        fprintf(to, ", with the loads of a matrix product %.1f GFLOP/s",
                row_number(device, "fma_loads_gflops"));
    fprintf(to, ", reading %.1f GB/s", row_number(device, "read_gbytes_per_s"));
    json_array_foreach(json_object_get(device, "caches"), i, cache) {
        fprintf(to, ", from %s of %.0f KiB %.1f GB/s", row_text(cache, "name"),
                row_number(cache, "bytes") / 1024.0, row_number(cache, "read_gbytes_per_s"));
    }
    json_array_foreach(json_object_get(device, "engine_peaks"), i, engine) {
        fprintf(to, "; %s %.1f GFLOP/s", row_text(engine, "name"), row_number(engine, "gflops"));
    }
    if (row_number(device, "native_fma_gflops") > 0.0)
        fprintf(to, "; FMA by a loop in C %.1f GFLOP/s", row_number(device, "native_fma_gflops"));
    if (row_number(device, "instructions_per_cycle") > 0.0)
        fprintf(to, "; %.1f instructions a cycle", row_number(device, "instructions_per_cycle"));
    fprintf(to, ".%s%s", *contended ? " " : "", contended);
}

static void print_md_option(FILE *to, const json_t *row) {
    if (!begin_md_row(to, row, "option", 6)) return;
    fprintf(to, " %.3f | %.2f | %.1f %% | %.0f %% | **%.2f** |", row_number(row, "time_ns") / 1e6,
            row_number(row, "ratio"), 100.0 * row_number(row, "ratio_spread"),
            100.0 * row_number(row, "visible_keys") / pairs_of(row), row_number(row, "ratio_per_key"));
    print_md_error(to, row);
    fputc('\n', to);
}

// Print the option rows of a device, one table for each case. The first row of a case is the plain
// call.
static void print_md_options(FILE *to, const json_t *rows, size_t device) {
    json_t *row;
    size_t i;
    fputc('\n', to);
    json_array_foreach(rows, i, row) {
        if (!is_of(row, device)) continue;
        if (!strcmp(row_text(row, "option"), "plain")) {
            fprintf(to,
                    "\n%s. Time divided by that of the interleaved plain call: median and interquartile "
                    "range; and the same per visible key.\n\n",
                    row_text(row, "case"));
            fputs("| option | kernel | ms | x plain | spread | keys seen | x plain, a key seen | NMSE |\n",
                  to);
            fputs("|---|---|--:|--:|--:|--:|--:|--:|\n", to);
        }
        print_md_option(to, row);
    }
}

static void print_md_pair(FILE *to, const json_t *row) {
    if (!begin_md_row(to, row, "case", 6)) return;
    const char *other = row_text(row, "against_case");
    fprintf(to, " %.3f | %s | %s | %.3f |", row_number(row, "time_ns") / 1e6,
            strcmp(other, row_text(row, "case")) ? other : "the same", row_text(row, "against_kernel"),
            row_number(row, "against_ns") / 1e6);
    fprintf(to, " %.3f [%.3f, %.3f] | %s |\n", row_number(row, "ratio"), row_number(row, "ratio_low"),
            row_number(row, "ratio_high"), row_text(row, "verdict"));
}

static void print_md_pairs(FILE *to, const json_t *rows, size_t device) {
    json_t *row;
    size_t i;
    fprintf(to,
            "\nInterleaved with the same case after '%s': the ratio is the second time divided by the first, "
            "round by round, with its interval of 95 %%.\n\n| case | kernel | ms | against | kernel | ms | "
            "ratio | verdict |\n|---|---|--:|---|---|--:|--:|---|\n",
            row_text(json_array_get(rows, 0), "against"));
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) print_md_pair(to, row);
    }
}

// Print how many rows of a device are noisy.
static void print_md_noise(FILE *to, const json_t *rows, size_t device) {
    int noisy = 0, all = 0;
    json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (!is_of(row, device)) continue;
        all += row_ok(row);
        noisy += json_is_true(json_object_get(row, "noisy"));
    }
    if (noisy)
        fprintf(to,
                "\n%d of %d rows are noisy: their times spread by more than 10 %%, because of other work or "
                "changing clocks.\n",
                noisy, all);
}

static void print_md_cases(FILE *to, const json_t *rows, size_t device, bool limited) {
    json_t *row;
    size_t i;
    if (limited)
        fputs("\nThe limit of a case is the peak of its engine, or reading from the cache or memory that its "
              "bytes fit.\n\n",
              to);
    fputs("| case | kernel | ms | spread | GFLOP/s | GB/s | of limit | NMSE | build ms | peak MiB |\n"
          "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
          to);
    json_array_foreach(rows, i, row) {
        if (is_of(row, device)) print_md_row(to, row);
    }
}

static void print_md(FILE *to, const json_t *table) {
    json_t *device;
    size_t d;
    const json_t *rows = json_object_get(table, "rows"), *first = json_array_get(rows, 0);
    json_array_foreach(json_object_get(table, "devices"), d, device) {
        fprintf(to, "%sclattn %s on %s, driver %s\n\n", d ? "\n" : "", row_text(table, "clattn"),
                row_text(device, "device"), row_text(device, "driver"));
        print_md_limits(to, device);
        if (json_object_get(first, "option"))
            print_md_options(to, rows, d);
        else if (json_object_get(first, "against"))
            print_md_pairs(to, rows, d);
        else
            print_md_cases(to, rows, d, row_number(device, "fma_gflops") > 0.0);
        print_md_noise(to, rows, d);
    }
}

char *bench_table_text(const json_t *table, bench_format format, size_t *bytes) {
    memory_file m;
    FILE *to = memory_file_open(&m);
    if (!to) return NULL;
    if (format == BENCH_MD) print_md(to, table);
    if (format == BENCH_CSV || format == BENCH_SQL)
        print_rows(to, json_object_get(table, "rows"), format == BENCH_SQL);
    if (format == BENCH_JSONL) print_jsonl(to, table);
    if (format == BENCH_JSON) {
        json_dumpf(table, to, JSON_INDENT(1) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
        fputc('\n', to);
    }
    // JSON is already escaped; this escapes control characters in the other formats
    char *result = memory_file_close(&m);
    *bytes = result ? strlen(printable_lines(result)) : 0;
    return result;
}
