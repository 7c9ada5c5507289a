// names.c: see names.h.
#include "evidence/words/names.h"

#include <stdio.h>
#include <string.h>

const char *const names_types[] = {"f32", "f16", "bf16", NULL};
const char *const names_kernels[] = {"auto", "unfused", "flash", "decode", NULL};
const char *const names_cascades[] = {"auto", "never", "always", "try", NULL};
const char *const names_projections[] = {"auto", "clblast", "native", NULL};
const char *const names_precisions[] = {"exact", "split", NULL};
const char *const names_taps[] = {"raw", "softcap", "masked", "softmax", NULL};
const char *const names_ropes[] = {"none", "half", "interleaved", NULL};
const char *const names_scalings[] = {"none", "linear", "ntk", "yarn", "llama3", "dynamic", NULL};
const char *const names_norms[] = {"none", "heads", "width", NULL};
const char *const names_gates[] = {"none", "heads", "all", NULL};
const char *const names_ops[] = {"attend", "decode", "layer", "linear", NULL};
const char *const names_layouts[] = {"dense", "bshd", "padded", "spaced", "scattered", NULL};
const char *const names_contents[] = {"ordinary", "hiddennan", "seennan", "rownan",    "huge",
                                      "hugeneg",  "dominant",  "infbias", "unseennan", NULL};

int names_find(const char *const *names, const char *text, size_t length) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == length && !strncmp(names[i], text, length)) return i;
    return -1;
}

const char *names_all(const char *const *names, char *text, size_t size) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; names[i] && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names[i]);
    return text;
}
