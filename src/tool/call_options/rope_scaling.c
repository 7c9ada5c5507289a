// rope_scaling.c: see rope_scaling.h.
#include "tool/call_options/rope_scaling.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "evidence/words/words.h"

// A number of clattn_rope: its word in the option, and in config.json.
static const struct {
    const char *word, *key;
    size_t field;
} numbers[] = {{"factor", "factor", offsetof(clattn_rope, factor)},
               {"original", "original_max_position_embeddings", offsetof(clattn_rope, original_length)},
               {"length", NULL, offsetof(clattn_rope, length)},
               {"low", "low_freq_factor", offsetof(clattn_rope, low_factor)},
               {"high", "high_freq_factor", offsetof(clattn_rope, high_factor)},
               {"fast", "beta_fast", offsetof(clattn_rope, beta_fast)},
               {"slow", "beta_slow", offsetof(clattn_rope, beta_slow)},
               {"attention", "attention_factor", offsetof(clattn_rope, attention_factor)}};
#define NUMBERS (sizeof numbers / sizeof numbers[0])

static void set(clattn_rope *rope, size_t n, double x) {
    memcpy((char *)rope + numbers[n].field, &x, sizeof x);
}

// KEY=NUMBER, of `length` characters.
static bool take_number(const char *text, size_t length, clattn_rope *rope) {
    char copy[80];
    double x = 0;
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    char *value = strchr(copy, '=');
    if (!value) return false;
    *value++ = '\0';
    if (!number_real(value, &x)) return false;
    if (!strcmp(copy, "untruncated") && (x == 0.0 || x == 1.0)) return rope->untruncated = x == 1.0, true;
    for (size_t n = 0; n < NUMBERS; n++)
        if (!strcmp(copy, numbers[n].word)) return set(rope, n, x), true;
    return false;
}

bool rope_scaling_parse(const char *text, clattn_rope *rope, char why[256]) {
    size_t length = strcspn(text, ",");
    const int scaling = names_find(names_scalings, text, length);
    snprintf(why, 256, "%s", ROPE_SCALING_HELP);
    if (scaling < 1) return false;
    rope->scaling = (clattn_rope_scaling)scaling;
    for (text += length; *text; text += length) {
        length = strcspn(++text, ",");
        if (!take_number(text, length, rope)) return false;
    }
    return true;
}

static double yarn_scale(double factor, double m) {
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

// DeepSeek tells the factor on cosines and sines by two others.
static void read_scales(const json_t *object, clattn_rope *rope) {
    const json_t *m = json_object_get(object, "mscale"), *all = json_object_get(object, "mscale_all_dim");
    const double scale = json_number_value(m), all_scale = json_number_value(all);
    if (rope->attention_factor == 0.0 && scale != 0.0 && all_scale != 0.0)
        rope->attention_factor = yarn_scale(rope->factor, scale) / yarn_scale(rope->factor, all_scale);
    const json_t *truncate = json_object_get(object, "truncate");
    rope->untruncated = json_is_false(truncate);
}

const char *rope_scaling_read(const json_t *object, const char *name, double longest, clattn_rope *rope) {
    const int scaling = !strcmp(name, "default") ? 0 : names_find(names_scalings, name, strlen(name));
    if (scaling < 0 || scaling == CLATTN_ROPE_SCALING_NTK)
        return "type default, linear, dynamic, yarn and llama3 are read";
    rope->scaling = (clattn_rope_scaling)scaling;
    if (scaling == 0) return NULL;
    for (size_t n = 0; n < NUMBERS; n++) {
        const json_t *x = numbers[n].key ? json_object_get(object, numbers[n].key) : NULL;
        if (!x || json_is_null(x)) continue;
        if (!json_is_number(x)) return "its numbers must be numbers";
        set(rope, n, json_number_value(x));
    }
    if (!(rope->factor >= 1.0)) return "a factor from 1 is needed";
    if (rope->original_length == 0.0) rope->original_length = longest;
    if (scaling != CLATTN_ROPE_SCALING_LINEAR && !(rope->original_length >= 1.0))
        return "original_max_position_embeddings, or max_position_embeddings beside it, is needed";
    if (scaling == CLATTN_ROPE_SCALING_YARN) read_scales(object, rope);
    return NULL;
}
