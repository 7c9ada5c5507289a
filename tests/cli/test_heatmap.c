/* Pictures of attention weights: labels, token files, the three back ends, and `clattn heatmap` run
 * like a user's command. Pure C, so Check may fork: each test has its own process and standard
 * streams. Needs CLATTN_TEST_DATA. */
#define _XOPEN_SOURCE 700
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files/file.h"
#include "cli/common/tool.h"
#include "cli/heatmap/label.h"
#include "cli/files/formats.h"

int tool_heatmap(int argc, char **argv);

static reason error;
static char output[65536], complaint[4096]; /* what the last run wrote to stdout and stderr */

static char *data_file(const char *name) {
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];
    const char *data = getenv("CLATTN_TEST_DATA");
    snprintf(path, sizeof paths[0], "%s/%s", data ? data : "tests/data", name);
    return path;
}

static void read_back(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    text[length] = '\0';
    if (file) fclose(file);
}

/* Run the sub-command with up to eight arguments, and keep its output. */
static int run(char *const *arguments) {
    char *argv[10] = {(char[]){"heatmap"}};
    int argc = 1;
    while (arguments[argc - 1] && argc < 9) {
        argv[argc] = arguments[argc - 1];
        argc++;
    }
    ck_assert(freopen(in_folder("stdout"), "wb", stdout) != NULL);
    ck_assert(freopen(in_folder("stderr"), "wb", stderr) != NULL);
    int status = tool_errors_end(tool_heatmap(argc, argv));
    fflush(stdout);
    fflush(stderr);
    read_back(in_folder("stdout"), output, sizeof output);
    read_back(in_folder("stderr"), complaint, sizeof complaint);
    return status;
}
#define RUN(...) run((char *const[]){__VA_ARGS__, NULL})

static char *write_text(const char *name, const char *text) {
    ck_assert(file_write_whole(in_folder(name), text, strlen(text), error));
    return in_folder(name);
}

static char *write_weights(const char *name, array_type type, int rank, const int64_t *shape) {
    array a;
    ck_assert(array_create(&a, type, rank, shape));
    for (size_t k = 0; type == ARRAY_F32 && k < a.bytes / 4; k++) ((float *)a.data)[k] = (float)(k % 5) / 4;
    for (size_t k = 0; type == ARRAY_BOOL && k < a.bytes; k++) ((unsigned char *)a.data)[k] = k % 2;
    for (size_t k = 0; type == ARRAY_U16 && k < a.bytes / 2; k++)
        ((uint16_t *)a.data)[k] = (uint16_t)(0x3f80 - k);
    ck_assert(npy_write(in_folder(name), &a, error));
    array_free(&a);
    return in_folder(name);
}

START_TEST(labels_are_safe) {
    char utf8[5], text[256] = "";
    label made = label_from_utf8("\xc4\xa0 \xe2\x96\x81 \xc3\xa9\x1b[\x80\xed\xa0\x80\xf0\x9f\x98\x80", 20);
    for (int k = 0; k < made.length; k++) strcat(text, label_utf8(made.code_points[k], utf8));
    ck_assert_str_eq(
        text, "_ _ \xc3\xa9\xef\xbf\xbd[\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x98\x80");
    made = label_from_utf8("0123456789", 5);
    ck_assert(made.length == 5 && made.code_points[2] == '2' && made.code_points[3] == '.' &&
              made.code_points[4] == '.');
    ck_assert_int_eq(label_from_utf8("01234", 5).code_points[4], '4');
    ck_assert_int_eq(label_from_utf8("\xf0\x9f", 5).length, 2);
    made = label_from_utf8("a\u4e2de\u0301", 9);
    ck_assert_int_eq(label_width(&made), 4);
    ck_assert(label_columns('a') == 1 && label_columns(0x4e2d) == 2 && label_columns(0x301) == 0);
}
END_TEST

START_TEST(token_files) {
    tokens t;
    ck_assert(tokens_read(write_text("t", "a\r\n\nb c"), &t, error));
    ck_assert_uint_eq(t.count, 3);
    ck_assert(!strcmp(t.lines[0], "a") && !strcmp(t.lines[1], "") && !strcmp(t.lines[2], "b c"));
    tokens_free(&t);
    ck_assert(tokens_read(data_file("smollm2_tokens.txt"), &t, error) && t.count == 40);
    tokens_free(&t);
    ck_assert(!tokens_read(write_text("t", ""), &t, error) && strstr(error, "no token"));
    ck_assert(file_write_whole(in_folder("t"), "a\0b", 3, error));
    ck_assert(!tokens_read(in_folder("t"), &t, error) && strstr(error, "NUL"));
}
END_TEST

START_TEST(options_of_colour) {
    char *weights = write_weights("w.npy", ARRAY_F32, 3, (int64_t[]){2, 3, 4});
    char *mask = write_weights("mask.npy", ARRAY_BOOL, 2, (int64_t[]){3, 4});
    ck_assert_int_eq(RUN(mask), 0);
    ck_assert(strstr(output, " \u2502  \u2588\u2588  \u2588\u2588\u2502\n"));
    ck_assert_int_eq(RUN(weights, (char[]){"--color=always"}), 0);
    ck_assert(strstr(output, "\033[48;5;"));
    ck_assert_int_eq(RUN(weights), 0); /* into a file */
    ck_assert(!strstr(output, "\033"));
    ck_assert_int_eq(RUN(weights, (char[]){"--per-head"}, (char[]){"--scale=log"}), 0);
    ck_assert(strstr(output, "head 1: ") && !strstr(output, "from"));
    ck_assert_int_eq(RUN(weights, (char[]){"--vmax=8"}), 0);
    ck_assert(strstr(output, "from 6"));
    ck_assert_int_eq(RUN(weights, (char[]){"--vmax=0"}), 2);
    ck_assert(strstr(complaint, "above 0"));
    setenv("COLUMNS", "44", 1);
    ck_assert_int_eq(RUN(write_weights("wide.npy", ARRAY_F32, 3, (int64_t[]){1, 100, 200})), 0);
    unsetenv("COLUMNS");
    ck_assert(strstr(output, "the greatest of 14 queries and 7 keys"));
}
END_TEST

START_TEST(terminal_fits_80_columns) {
    char *weights = data_file("smollm2_layer0_weights.npy"), *labels = data_file("smollm2_tokens.txt");
    ck_assert_int_eq(RUN(weights, (char[]){"--tokens"}, labels, (char[]){"--heads=0"}), 0);
    ck_assert(strstr(output, "head 0\n") && !strstr(output, "head 1\n") &&
              strstr(output, "_attention \u2502"));
    ck_assert_str_eq(complaint, "");
    char *wide = write_weights("wide.npy", ARRAY_F32, 3, (int64_t[]){1, 3, 200});
    ck_assert_int_eq(RUN(wide), 0);
    ck_assert(strstr(output, "the greatest of 4 keys"));
    int column = 0;
    for (const char *c = output; *c; c++) {
        column = *c == '\n' ? 0 : column + ((*c & 0xc0) != 0x80);
        ck_assert_int_le(column, 80);
    }
}
END_TEST

/* Shades are relative to the greatest weight. If that is negative, no weight has a shade. */
START_TEST(terminal_draws_negative_weights) {
    const float values[2][3] = {{-1.0f, -2.0f, -0.5f}, {-3.0f, -INFINITY, 0.0f}};
    for (int n = 0; n < 2; n++) {
        array a = {.type = ARRAY_F32,
                   .rank = 3,
                   .shape = {1, 1, 3},
                   .data = (void *)(uintptr_t)values[n],
                   .bytes = 12};
        char *path = in_folder("negative.npy");
        ck_assert(npy_write(path, &a, error));
        ck_assert_int_eq(RUN(path), 0);
        ck_assert(strstr(output, n ? "-3 to 0" : "-2 to -0.5"));
        ck_assert(strstr(output, n ? "\u2502  \u00b7\u00b7  \u2502\n" : "\u2502      \u2502\n"));
    }
}
END_TEST

START_TEST(files_and_reports) {
    char *weights = data_file("minilm_layer0_weights.npy"), *labels = data_file("minilm_tokens.txt");
    char *svg = in_folder("heads.svg"), *few = write_text("few.txt", "a\nb\nc\n");
    ck_assert_int_eq(RUN(weights, (char[]){"--tokens"}, labels, (char[]){"--out"}, svg), 0);
    ck_assert(strstr(output, "heads.svg: 12 heads, 24 queries x 24 keys, weights "));
    ck_assert_int_eq(RUN(weights, (char[]){"--tokens"}, few, (char[]){"--out"}, svg, (char[]){"--batch=2"}),
                     0);
    ck_assert(strstr(output, "12 heads, 3 queries x 3 keys"));
    ck_assert_int_eq(
        RUN(weights, (char[]){"--y-tokens"}, few, (char[]){"--out"}, svg, (char[]){"--heads=0,4-6"}), 0);
    ck_assert(strstr(output, "4 heads, 24 queries x 3 keys"));
    char *bf16 = write_weights("bf16.npy", ARRAY_U16, 3, (int64_t[]){1, 2, 2});
    ck_assert_int_eq(RUN(bf16, (char[]){"--dtype=bf16"}, (char[]){"--out"}, svg, (char[]){"--quiet"}), 0);
    ck_assert_str_eq(output, "");
    ck_assert_int_eq(RUN(bf16, (char[]){"--dtype=bf16"}, (char[]){"--out"}, svg, (char[]){"--json"}), 0);
    ck_assert(strstr(output, "\"heads\": 1") && strstr(output, "\"keys\": 2"));
    ck_assert_int_eq(RUN(weights, (char[]){"--json"}), 2);
    ck_assert(strstr(complaint, "{\"error\"") && strstr(complaint, "--json: needs --out FILE"));
    ck_assert_int_eq(RUN((char[]){"--help"}), 0);
    ck_assert(strstr(output, "  --mask-mod EXPR ") && strstr(output, "  --n-kv N ") &&
              strstr(output, "  --vmax X "));
    ck_assert(strstr(output, "example:\n    clattn heatmap weights.npy --tokens tokens.txt --out heads.png"));
#ifdef CLATTN_HAVE_PNG
    ck_assert_int_eq(RUN(weights, (char[]){"--tokens"}, labels, (char[]){"--out"}, in_folder("h.png")), 0);
    ck_assert_int_eq(access(in_folder("h.png"), R_OK), 0);
#endif
}
END_TEST

static const struct {
    const char *arguments[5];
    int status;
    const char *error;
} refusals[] = {
    {{NULL}, 2, "a file of weights, or --n N and a mask option, is needed"},
    {{"@w", "@w"}, 2, "is one argument too many"},
    {{"@w", "--colour"}, 2, "--colour: no such option"},
    {{"@w", "--token", "@five"}, 2, "5 tokens; the weights have 3 queries"},
    {{"@w", "--tokns", "@five"}, 2, "did you mean --tokens?"},
    {{"@w", "-x"}, 2, "-x: no such option"},
    {{"@w", "--out"}, 2, "--out: needs a value"},
    {{"@w", "--out", "heads.jpg"}, 2, ".png or .svg, or -, is accepted"},
    {{"@w", "--out", ".png"}, 2, ".png or .svg, or -, is accepted"},
    {{"@w", "--batch", "-1"}, 2, "a whole number from 0 to"},
    {{"@w", "--batch", "1"}, 2, "holds 0 to 0"},
    {{"@w", "--dtype", "f8"}, 2, "must be one of bf16"},
    {{"@w", "--dtype", "bf16"}, 2, "holds f32; it is for u2"},
    {{"@w", "--heads", "0", "--heads", "1"}, 2, "is given twice"},
    {{"@w", "--heads", "2"}, 2, "different heads from 0 to 1"},
    {{"@w", "--heads", "0,0"}, 2, "different heads"},
    {{"@w", "--heads", "1-0"}, 2, "different heads"},
    {{"@w", "--heads", "0,"}, 2, "different heads"},
    {{"@w", "--heads", ""}, 2, "its value is empty"},
    {{"@w", "--heads", "99999999999999999999"}, 2, "different heads"},
    {{"@w", "--tokens", "@five"}, 2, "5 tokens; the weights have 3 queries"},
    {{"@w", "--y-tokens", "@five"}, 2, "5 tokens; the weights have 4 keys"},
    {{"@w", "--tokens", "@absent"}, 2, "No such file"},
    {{"@absent.npy"}, 2, "No such file"},
    {{"@flat.npy"}, 2, "shape [4]; [H, Nq, Nkv] or"},
    {{"@empty.npy"}, 2, "shape [2, 0, 4]; sizes from 1"},
    {{"@u16.npy"}, 2, "type u16"},
    {{"@w", "--mask-mod", "j <= i"}, 2, "--mask-mod: is for the picture of a mask"},
    {{"@w", "--n-kv", "4"}, 2, "--n-kv: is for the picture of a mask"},
    {{"@w", "--tuned", "off"}, 2, "--tuned: has no effect"},
    {{"--causal", "top-left"}, 2, "--n N is needed with a mask"},
    {{"--n", "4", "--per-head"}, 2, "--per-head: is for a file of weights"},
    {{"--n", "4", "--heads", "0-1"}, 2, "for a mask it is the number of heads"},
    {{"@w", "--out", "@no/h.svg"}, 2, "No such file"},
    {{"@w", "--out", "@folder.svg"}, 2, "is a folder"},
};

START_TEST(refusals_say_what_is_accepted) {
    write_weights("w.npy", ARRAY_F32, 3, (int64_t[]){2, 3, 4});
    write_weights("flat.npy", ARRAY_F32, 1, (int64_t[]){4});
    write_weights("empty.npy", ARRAY_F32, 3, (int64_t[]){2, 0, 4});
    write_weights("u16.npy", ARRAY_U16, 3, (int64_t[]){2, 3, 4});
    mkdir(in_folder("folder.svg"), 0700);
    write_text("five", "1\n2\n3\n4\n5\n");
    char *arguments[6] = {NULL};
    for (int k = 0; k < 5 && refusals[_i].arguments[k]; k++) {
        const char *given = refusals[_i].arguments[k];
        if (given[0] == '@')
            arguments[k] = in_folder(strcmp(given, "@w") ? given + 1 : "w.npy");
        else
            arguments[k] = (char *)(uintptr_t)given;
    }
    ck_assert_int_eq(run(arguments), refusals[_i].status);
    ck_assert_msg(strstr(complaint, refusals[_i].error) != NULL, "%s", complaint);
    ck_assert(strncmp(complaint, "clattn heatmap: ", 16) == 0);
    ck_assert_ptr_eq(strchr(complaint, '\n'), complaint + strlen(complaint) - 1);
    ck_assert_str_eq(output, "");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("heatmap");
    TCase *group = tcase_create("pictures");
    tcase_set_timeout(group, 120);
    tcase_add_unchecked_fixture(group, enter, leave);
    tcase_add_test(group, labels_are_safe);
    tcase_add_test(group, token_files);
    tcase_add_test(group, terminal_fits_80_columns);
    tcase_add_test(group, terminal_draws_negative_weights);
    tcase_add_test(group, files_and_reports);
    tcase_add_test(group, options_of_colour);
    tcase_add_loop_test(group, refusals_say_what_is_accepted, 0, sizeof refusals / sizeof *refusals);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
