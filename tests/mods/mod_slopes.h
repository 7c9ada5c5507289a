// mod_slopes.h: texts of score_mod with a derivative, at least one of each function and operator,
// and differences of them.
#ifndef CLATTN_TESTS_MOD_SLOPES_H
#define CLATTN_TESTS_MOD_SLOPES_H
#include "mods/mod_value.h"

// Between `from` and `to` the text is computed accurately, and no score of mod_slope_score is at
// one of its kinks.
struct mod_slope_text {
    const char *text;
    double from, to;
};
extern const struct mod_slope_text mod_slope_texts[];
extern const int mod_slope_count;

#define MOD_SLOPE_SCORES 8
double mod_slope_score(const struct mod_slope_text *t, int n);
// buffer0 has two axes and buffer1 one, f32.
mod_source mod_slope_source(const char *text);
// By central differences.
double mod_slope_of(const mod_source *source, const struct mod_value_at *at);
#endif
