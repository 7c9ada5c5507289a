// tune_keep.c: measure a row's gain over the shipped configuration, and keep the rows that are
// certainly faster. Other rows could be chance, or the effect of a busy machine.
#include "cli/bench/bench.h"
#include "cli/files/file.h"
#include "cli/tune/tune.h"
#include "cli/tune/tuned.h"

#define TURNS 15
#define TURNS_MS 2000.0 // time limit for one row
// An upper bound above this means that there were too few runs for an interval.
#define MOST_RATIO 1e17

void tune_gain(tune *t, const char *row, const struct test_case *test, tune_gained *gained) {
    const bench_settings settings = {.measure = {.repeat = TURNS, .max_ms = TURNS_MS}};
    const bench_side sides[2] = {{&t->common, "\n", {.test = *test}}, {&t->common, row, {.test = *test}}};
    bench_pair pair;
    bench_pair_measure(&t->id, sides, &settings, &pair);
    const compare_ratio *r = &pair.ratio;
    *gained = (tune_gained){.faster = false};
    if (pair.row.status != BENCH_OK) {
        snprintf(gained->remark, sizeof gained->remark, "not compared with what is shipped: %.100s",
                 pair.row.why);
        return;
    }
    // The gain is the inverse of the ratio, so the ends of the interval swap.
    gained->gain = 1.0 / r->ratio;
    if (r->high > MOST_RATIO) {
        snprintf(gained->remark, sizeof gained->remark, "about %.2fx what is shipped: too few runs to tell",
                 gained->gain);
        return;
    }
    gained->low = 1.0 / r->high, gained->high = r->low > 0.0 ? 1.0 / r->low : 0.0;
    snprintf(gained->remark, sizeof gained->remark, "%.2fx what is shipped [%.2f, %.2f]%s", gained->gain,
             gained->low, gained->high,
             r->verdict == COMPARE_INCONCLUSIVE ? ": the machine is too noisy to tell" : "");
    gained->faster = r->verdict == COMPARE_FASTER;
}

void tune_keep_row(tune *t, const char *row) {
    const int n = snprintf(t->kept + t->kept_used, sizeof t->kept - t->kept_used, "%s\n", row);
    if (n > 0 && (size_t)n < sizeof t->kept - t->kept_used) t->kept_used += (size_t)n, t->kept_count++;
}

// Write the kept rows. Without any, delete the rows of an earlier run: this run measured the same
// candidates.
int tune_keep(const tune *t) {
    char folder_text[4096], path[4200], head[TUNED_HEAD], error[512];
    common_options plain = t->common;
    const char *folder = tool_cache_dir(&plain, folder_text, sizeof folder_text);
    if (!folder || !tuned_path(folder, &t->device, path, sizeof path)) return -1;
    if (!t->kept_count && interrupt_asked()) return -1;
    if (!t->kept_count) {
        const bool went = remove(path) == 0;
        if (!t->common.quiet)
            tool_note("no row is faster than what is shipped for sure: none is kept%s",
                      went ? ", and those of an earlier run are gone" : "");
        return -1;
    }
    tuned_head(&t->device, head);
    const file_part parts[] = {{head, strlen(head)}, {"\n", 1}, {t->kept, t->kept_used}};
    if (!file_write_parts(path, parts, 3, error)) return tool_failed("%s", error);
    if (!t->common.quiet)
        tool_note("%d rows are kept in %s, and used from now on; --tuned off does without", t->kept_count,
                  path);
    return -1;
}
