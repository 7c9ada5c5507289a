// mod_slopes.h: differentiable texts of score_mod, at least one for each function and operator, and
// their numerical derivatives.
#ifndef CLATTN_TESTS_MOD_SLOPES_H
#define CLATTN_TESTS_MOD_SLOPES_H
#include "mods/mod_value.h"

// Between `from` and `to` the text is numerically stable, and no kink is at a score of
// mod_slope_score.
struct mod_slope_text {
    const char *text;
    double from, to;
};
extern const struct mod_slope_text mod_slope_texts[];
extern const int mod_slope_count;

#define MOD_SLOPE_SCORES 8
double mod_slope_score(const struct mod_slope_text *t, int n);
// The source of a text. buffer0 has two axes, buffer1 one axis, both f32.
mod_source mod_slope_source(const char *text);
// The derivative by central differences.
double mod_slope_of(const mod_source *source, const struct mod_value_at *at);
#endif
