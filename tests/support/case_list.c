// case_list.c: see case_list.h.
#include "support/case_list.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verification/device/allocate.h"

enum by { AS_NAMED, EVERY_KERNEL, EVERY_PROJECTION };
static const char *const by_words[] = {"", " by every kernel", " by every projection"};

static struct listed {
    struct test_case test;
    enum by by;
} * cases;
static int count;

// The state of reading a list: the group's name, and the tokens that all of its cases share.
struct reading {
    const char *list;
    int line;
    char group[96], tokens[CASE_NAME_SIZE];
    enum by by;
};

static void refuse(const struct reading *r, const char *what, const char *why) {
    evidence_end("tests/cases/%s.txt:%d: %s: %s", r->list, r->line, what, why);
}

// Add the case of the group's tokens and the word. A type at the start of the word is the type of
// the case.
static void add_case(const struct reading *r, const char *word) {
    char tokens[2 * CASE_NAME_SIZE], why[256];
    const char *const type = strchr(r->tokens, '-') + 1;
    word += *word == '-' || strcmp(word, ".") == 0;
    const size_t first = strcspn(word, "-");
    if (names_find(names_types, word, first) >= 0)
        snprintf(tokens, sizeof tokens, "%.*s%.*s%s%s", (int)(type - r->tokens), r->tokens, (int)first, word,
                 type + strcspn(type, "-"), word + first);
    else
        snprintf(tokens, sizeof tokens, "%s%s%s", r->tokens, *word ? "-" : "", word);
    struct listed listed = {.by = r->by};
    if (!case_read(tokens, &listed.test, why)) refuse(r, tokens, why);
    char *const group = evidence_zeros(1, sizeof r->group);
    memcpy(group, r->group, sizeof r->group);
    listed.test.name = group;
    cases = evidence_grow(cases, (size_t)count + 1, sizeof *cases);
    cases[count++] = listed;
}

// a{b,c}d is abd and acd.
static void expand(const struct reading *r, const char *word) {
    const char *const open = strchr(word, '{'), *const close = open ? strchr(open, '}') : NULL;
    if (open == NULL || close == NULL) {
        add_case(r, word);
        return;
    }
    for (const char *at = open; *at != '}'; at += 1 + strcspn(at + 1, ",}")) {
        char next[CASE_NAME_SIZE];
        snprintf(next, sizeof next, "%.*s%.*s%s", (int)(open - word), word, (int)strcspn(at + 1, ",}"),
                 at + 1, close + 1);
        expand(r, next);
    }
}

static void begin_group(struct reading *r, char *line) {
    char *const colon = strchr(line, ':');
    if (colon == NULL || strchr(colon, '-') == NULL)
        refuse(r, line, "no group, and not indented as a case is");
    *colon = '\0';
    snprintf(r->tokens, sizeof r->tokens, "%s", colon + 1 + strspn(colon + 1, " "));
    r->by = AS_NAMED;
    for (enum by by = EVERY_KERNEL; by <= EVERY_PROJECTION; by++) {
        char *const at = strstr(line, by_words[by]);
        if (at != NULL) *at = '\0', r->by = by;
    }
    snprintf(r->group, sizeof r->group, "%.95s", line);
}

static void read_line(struct reading *r, char *line) {
    line[strcspn(line, "#\r\n")] = '\0';
    if (line[0] == '\0') return;
    if (!isspace((unsigned char)line[0])) {
        begin_group(r, line);
        return;
    }
    for (char *word = strtok(line, " "); word != NULL; word = strtok(NULL, " ")) expand(r, word);
}

static void assert_listed(const struct test_case *test) {
    if (test->projection != CLATTN_PROJECTION_CLBLAST || harness_has_clblast()) case_assert(test);
}

START_TEST(listed_case) {
    const struct listed *const listed = &cases[_i];
    struct test_case test = listed->test;
    if (listed->by == EVERY_KERNEL && test.kernel == CLATTN_KERNEL_AUTO) {
        case_assert_kernels(&test);
    } else if (listed->by == EVERY_PROJECTION) {
        for (int n = 0; n < CLATTN_PROJECTION_COUNT; n++) {
            test.projection = (clattn_projection)n;
            assert_listed(&test);
        }
    } else {
        assert_listed(&test);
    }
}
END_TEST

void case_list_add(Suite *suite, const char *list, const char *group) {
    static const TTest *const none[] = {NULL};
    char path[1024], line[4096];
    struct reading r = {.list = list};
    const int first = count;
    snprintf(path, sizeof path, "%s/%s.txt", CASE_LISTS, list);
    FILE *const file = fopen(path, "r");
    if (file == NULL) evidence_end("%s: cannot be read", path);
    while (fgets(line, sizeof line, file)) r.line++, read_line(&r, line);
    fclose(file);
    if (count == first) evidence_end("%s: has no case", path);
    TCase *const cases_of_list = harness_add(suite, group, none);
    for (int n = first; n < count; n++)
        if (harness_takes(n)) tcase_add_loop_test(cases_of_list, listed_case, n, n + 1);
}
