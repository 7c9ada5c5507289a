/* The names nearest to a wrong one: see nearest.h. */
#include "tool/cli/nearest.h"

#include <stdio.h>
#include <string.h>

#define COMPARED 128
#define LISTED 3

static const char *tail(const char *name) {
    size_t length = strlen(name);
    return length > COMPARED ? name + length - COMPARED : name;
}

static unsigned smaller(unsigned a, unsigned b) {
    return a < b ? a : b;
}

static unsigned distance(const char *a, const char *b) {
    unsigned row[COMPARED + 1];
    unsigned columns = (unsigned)strlen(b);
    for (unsigned j = 0; j <= columns; j++) row[j] = j;
    for (unsigned i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];
        row[0] = i;
        for (unsigned j = 1; j <= columns; j++) {
            unsigned replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = smaller(replaced, 1 + smaller(row[j], row[j - 1]));
        }
    }
    return row[columns];
}

void nearest_names(const char *wanted, const char *const *names, size_t count, char *text, size_t size) {
    const char *best[LISTED] = {0};
    unsigned best_distance[LISTED] = {0};
    size_t kept = 0;
    for (size_t n = 0; n < count; n++) {
        unsigned d = distance(tail(wanted), tail(names[n]));
        size_t place = kept;
        while (place > 0 && d < best_distance[place - 1]) place--;
        if (place == LISTED) continue;
        if (kept < LISTED) kept++;
        for (size_t k = kept - 1; k > place; k--) {
            best[k] = best[k - 1];
            best_distance[k] = best_distance[k - 1];
        }
        best[place] = names[n];
        best_distance[place] = d;
    }
    size_t used = 0;
    if (size) text[0] = '\0';
    for (size_t k = 0; k < kept && used < size; k++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", k ? ", " : "", best[k]);
}

const char *nearest_name(const char *wanted, const char *const *names, size_t count) {
    const char *best = NULL;
    unsigned least = 1 + (unsigned)strlen(tail(wanted)) / 4;
    for (size_t n = 0; n < count; n++) {
        const unsigned d = distance(tail(wanted), tail(names[n]));
        if (d < least || (d == least && !best)) best = names[n], least = d;
    }
    return best;
}
