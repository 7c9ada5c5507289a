/* The program's tensors and files: conversions, .npy, safetensors. Pure C, so Check may fork. Needs
 * the folder of test data in CLATTN_TEST_DATA, by default "tests/data". Pictures are in
 * test_heatmap.c. */
#define _XOPEN_SOURCE 700
#include "support/run_suite.h"
#include "support/temporary_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/files/array.h"
#include "cli/files/file.h"
#include "cli/files/formats.h"
#include "cli/common/text.h"

#define BYTES(text) (const unsigned char *)(text)

static reason error;

/* tensor NULL: a .npy file. */
static bool parse(const unsigned char *bytes, size_t size, const char *tensor, array *a) {
    const file_source source = file_from_memory(bytes, size);
    return load_from(&source, tensor, a, error);
}

static const char *data_file(const char *name) {
    static char path[1024];
    const char *data = getenv("CLATTN_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", data ? data : "tests/data", name);
    return path;
}

/* Every type of NumPy's files and every rank, also with sizes of zero, is read as it was
 * written. */
START_TEST(npy_round_trip) {
    for (int t = 0; t < ARRAY_I8; t++)
        for (int rank = 0; rank <= ARRAY_MAX_RANK; rank++)
            for (int zero = 0; zero <= (rank > 0); zero++) {
                const int64_t shape[] = {2, zero ? 0 : 3, 1, 2, 1, 1, 2, 2};
                const int64_t one[] = {zero ? 0 : 5};
                array a, b;
                ck_assert(array_create(&a, (array_type)t, rank, rank == 1 ? one : shape));
                for (size_t k = 0; k < a.bytes; k++)
                    ((unsigned char *)a.data)[k] = (unsigned char)(k * 37 + 1);
                ck_assert_msg(npy_write(in_folder("a.npy"), &a, error), "%s", error);
                ck_assert_msg(load_array(in_folder("a.npy"), &b, error), "%s", error);
                ck_assert_int_eq(b.type, t == ARRAY_BF16 ? ARRAY_U16 : (array_type)t);
                ck_assert_int_eq(b.rank, rank);
                ck_assert_mem_eq(a.shape, b.shape, sizeof a.shape);
                ck_assert_uint_eq(a.bytes, b.bytes);
                if (a.bytes) ck_assert_mem_eq(a.data, b.data, a.bytes);
                array_free(&a);
                array_free(&b);
            }
    ck_assert_int_eq(entries(false), 1);
}
END_TEST

START_TEST(npy_bytes_are_numpys) {
    static const char expected[] =
        "\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    const float values[] = {1, -2};
    array a = {.type = ARRAY_F32, .rank = 1, .shape = {2}, .data = (void *)values, .bytes = 8};
    unsigned char *bytes = NULL;
    size_t size = 0;
    ck_assert(npy_write(in_folder("a.npy"), &a, error));
    ck_assert(file_read_whole(in_folder("a.npy"), &bytes, &size, error));
    ck_assert_uint_eq(size, 136);
    ck_assert_mem_eq(bytes, expected, sizeof expected - 1);
    ck_assert_int_eq(bytes[127], '\n');
    ck_assert_mem_eq(bytes + 128, values, 8);
    free(bytes);
}
END_TEST

/* Build a .npy file with this dictionary and `data` bytes of data, in static memory. */
static size_t make_npy(unsigned char *file, int version, const char *dictionary, size_t data) {
    size_t length = strlen(dictionary), start = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    memcpy(file + 6, (unsigned char[]){(unsigned char)version, 0, (unsigned char)length, 0, 0, 0}, 6);
    memcpy(file + start, dictionary, length);
    memset(file + start + length, 1, data);
    return start + length + data;
}

static const struct {
    const char *dictionary;
    size_t data;
    const char *error; /* a part of the error line; NULL: the file is valid */
} npy_cases[] = {
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, NULL},
    {"{\"shape\":(3,),\"descr\":\"|b1\",\"fortran_order\":False} \n", 3, NULL},
    {"{'shape': (3L,), 'descr': '<u2', 'fortran_order': False}", 6, NULL},
    {"{'shape': (), 'descr': '<i8', 'fortran_order': False}", 8, NULL},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23,
     "asks for 24 bytes of data, the file has 23"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 25, "the file has 25"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8, "type <f8; <f2 <f4 <i4 <i8 |b1 <u2"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, "type >f4"},
    {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8, "save x.astype('<f4')"},
    {"{'descr': '|i1', 'fortran_order': False, 'shape': (1,), }", 1, "save x.astype('<i4'), or a mask"},
    {"{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }", 1, "save x.astype('<i4'), or a mask"},
    {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, "save x.real.astype('<f4')"},
    {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, "big-endian: save x.astype('<f4')"},
    {"{'descr': '>i8', 'fortran_order': False, 'shape': (1,), }", 8, "big-endian: save x.astype('<i8')"},
    {"{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", 8, "save x.astype('<f4')"},
    {"{'descr': '|V2', 'fortran_order': False, 'shape': (1,), }", 2, "bfloat16 numbers, save x.view('<u2')"},
    {"{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", 12, "save an array of numbers"},
    {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", 4, "save an array of numbers"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", 4, "save numpy.ascontiguousarray(x)"},
    {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4, "structured"},
    {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", 4, "Fortran order"},
    {"{'descr': '<f4', 'fortran_order': 0, 'shape': (1,), }", 4, "not True or False"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1), }", 4, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': 1, }", 4, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", 8, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, "not a number"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (+1,), }", 4, "not a number"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,), }", 4, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,), }", 4, "not a tuple"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,), }", 4, "too large"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 4, "too large"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }", 4, "more than 8 axes"},
    {"{'descr': '<f4', 'fortran_order': False, }", 4, "missing"},
    {"{'descr': '<f4', 'descr': '<f4', 'shape': (1,), }", 4, "twice"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", 4, "a key that is not"},
    {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4, "after the dictionary"},
    {"{'descr': '<f4' 'fortran_order': False, 'shape': (1,), }", 4, "comma"},
    {"{'descr: <f4", 0, "does not end"},
    {"[1]", 0, "no dictionary"},
    {"", 0, "no dictionary"},
};

START_TEST(npy_accepts_and_refuses) {
    unsigned char file[512];
    array a;
    for (int version = 1; version <= 3; version++) {
        size_t size = make_npy(file, version, npy_cases[_i].dictionary, npy_cases[_i].data);
        bool good = parse(file, size, NULL, &a);
        ck_assert_msg(good == !npy_cases[_i].error, "%s", error);
        if (!good) ck_assert_msg(strstr(error, npy_cases[_i].error) != NULL, "%s", error);
        if (!good) ck_assert_ptr_null(a.data);
        array_free(&a);
    }
    size_t size = make_npy(file, 4, npy_cases[_i].dictionary, npy_cases[_i].data);
    ck_assert(!parse(file, size, NULL, &a) && strstr(error, "format 4.0"));
    ck_assert(!parse(file, 5, NULL, &a) && strstr(error, "ends early"));
    ck_assert(!parse(BYTES("PK\3\4 a zip file"), 16, NULL, &a) && strstr(error, "not a .npy"));
}
END_TEST

static size_t make_safetensors(unsigned char *file, const char *json, size_t data) {
    size_t length = strlen(json);
    for (int k = 0; k < 8; k++) file[k] = (unsigned char)((uint64_t)length >> 8 * k);
    memcpy(file + 8, json, length);
    for (size_t k = 0; k < data; k++) file[8 + length + k] = (unsigned char)k;
    return 8 + length + data;
}

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define GOOD "\"a\":" T("F32", "[2]", "[0,8]")

static const struct {
    const char *json;
    size_t data;
    const char *error; /* NULL: tensor a is valid */
} safetensors_cases[] = {
    {"{" GOOD "}  ", 8, NULL},
    {"{\"b\":" T("BOOL", "[0,7]", "[8,8]") "," GOOD ",\"__metadata__\":{\"x\":\"y\"}}", 8, NULL},
    {"{\"z\":" T("F64", "[]", "[6,14]") ",\"a\":" T("BF16", "[1,3]", "[0,6]") "}", 14, NULL},
    {"{\"z\":" T("NEW", "[5]", "[2,4]") ",\"a\":" T("BOOL", "[2]", "[0,2]") "}", 4, NULL},
    {"{\"a\":" T("F4", "[4]", "[0,2]") "}", 2, "type F4; F32, F16"},
    {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, "do not match"},
    {"{\"a\":" T("U8", "[8]", "[0,8]") "}", 8, "type U8; F32, F16"},
    {"{\"layer.b\":" T("F32", "[2]", "[0,8]") "}", 8, "no tensor a among its 1; the nearest are layer.b"},
    {"{}", 0, "no tensor a among its 0"},
    {"{}", 4, "4 bytes at the end"},
    {"{" GOOD "," GOOD "}", 8, "duplicate"},
    {"{\"b\":" T("F32", "[2]", "[4,12]") "," GOOD "}", 12, "overlaps"},
    {"{\"b\":" T("F32", "[2]", "[12,20]") "," GOOD "}", 20, "hole"},
    {"{\"a\":" T("F32", "[2]", "[4,12]") "}", 12, "hole"},
    {"{" GOOD "}", 7, "past the end"},
    {"{" GOOD "}", 9, "1 bytes at the end"},
    {"{\"a\":" T("F32", "[2]", "[8,0]") "}", 8, "begin after"},
    {"{\"a\":" T("F32", "[3]", "[0,8]") "}", 8, "do not match"},
    {"{\"a\":" T("F32", "[4294967296,4294967296,2]", "[0,8]") "}", 8, "2^64"},
    {"{\"a\":" T("F32", "[0,4294967296,4294967296]", "[0,0]") "}", 0, "2^64"},
    {"{\"a\":" T("F32", "[4611686018427387904]", "[0,0]") "}", 0, "2^64"},
    {"{\"a\":" T("F32", "[0,2305843009213693952,2]", "[0,0]") "}", 0, "too large"},
    {"{\"a\":" T("F32", "[-2]", "[0,8]") "}", 8, "list of sizes"},
    {"{\"a\":" T("F32", "[2.0]", "[0,8]") "}", 8, "list of sizes"},
    {"{\"a\":" T("F32", "2", "[0,8]") "}", 8, "shape is not a list"},
    {"{\"a\":" T("F32", "[2]", "[0,8,8]") "}", 8, "not [begin, end]"},
    {"{\"a\":" T("F32", "[2]", "[-8,0]") "}", 8, "not [begin, end]"},
    {"{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is not"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "dtype is not"},
    {"{\"a\":[1]}", 8, "not an object"},
    {"{\"__metadata__\":1}", 0, "not an object"},
    {"{\"__metadata__\":{\"x\":1}}", 0, "not a string"},
    {"{\"a\":" T("BOOL", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "9 axes"},
    {"[]", 0, "not a JSON object"},
    {" {" GOOD "}", 8, "does not start with {"},
    {"{" GOOD "}x", 8, "not a JSON object"},
    {"", 0, "not a JSON object"},
};

START_TEST(safetensors_accepts_and_refuses) {
    unsigned char file[512];
    array a;
    size_t size = make_safetensors(file, safetensors_cases[_i].json, safetensors_cases[_i].data);
    bool good = parse(file, size, "a", &a);
    ck_assert_msg(good == !safetensors_cases[_i].error, "%s", error);
    if (!good) ck_assert_msg(strstr(error, safetensors_cases[_i].error) != NULL, "%s", error);
    if (good) ck_assert_mem_eq(a.data, file + size - safetensors_cases[_i].data, a.bytes);
    if (!good) ck_assert_ptr_null(a.data);
    array_free(&a);
    file[7] = 0x80; /* a header of 2^63 bytes */
    ck_assert(!parse(file, size, "a", &a) && strstr(error, "header of"));
    ck_assert(!parse(file, 7, "a", &a) && strstr(error, "ends early"));
}
END_TEST

/* Returns true if a damaged file is read. Fails unless it is otherwise refused with one line. */
static bool parse_damaged(bool npy, const unsigned char *file, size_t size) {
    /* A copy of the exact size, so that a sanitizer sees a read past its end. */
    unsigned char *copy = malloc(size ? size : 1);
    array a;
    memcpy(copy, file, size);
    error[0] = '\0';
    bool good = npy ? parse(copy, size, NULL, &a) : parse(copy, size, "a", &a);
    bool one_line = true;
    for (const char *c = error; *c; c++) one_line = one_line && (unsigned char)*c >= 0x20;
    array_free(&a);
    free(copy);
    return one_line && good == (error[0] == '\0');
}

/* Each byte with one bit flipped, or replaced by characters that matter in a header, and the file
 * truncated at every length. */
START_TEST(damage_never_crashes) {
    static const unsigned char values[] = "\0\xff{}[](),:'\"\\ \n-09L";
    unsigned char file[512];
    int wrong = 0;
    for (int npy = 0; npy <= 1; npy++) {
        size_t size = npy ? make_npy(file, 1 + _i % 3, npy_cases[_i].dictionary, npy_cases[_i].data)
                          : make_safetensors(file, safetensors_cases[_i].json, safetensors_cases[_i].data);
        for (size_t cut = 0; cut < size; cut++) wrong += !parse_damaged(npy, file, cut);
        for (size_t place = 0; place < size; place++) {
            unsigned char kept = file[place];
            for (size_t change = 0; change < 8 + sizeof values; change++) {
                file[place] = (unsigned char)(change < 8 ? kept ^ 1u << change : values[change - 8]);
                wrong += !parse_damaged(npy, file, size);
            }
            file[place] = kept;
        }
    }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

START_TEST(real_files) {
    array a;
    char spec[1100], **names = NULL;
    size_t count = 0;
    ck_assert_msg(load_array(data_file("minilm_layer0_weights.npy"), &a, error), "%s", error);
    ck_assert(a.type == ARRAY_F32 && a.rank == 4 && a.shape[1] == 12 && array_count(&a) == 3 * 12 * 24 * 24);
    for (int j = 0, row = 5 * 24; j < 1; j++) {
        double sum = 0;
        for (int k = 0; k < 24; k++) sum += (double)((const float *)a.data)[row + k];
        ck_assert_double_eq_tol(sum, 1, 1e-6);
    }
    array_free(&a);
    ck_assert(safetensors_names(data_file("smollm2_layer0.safetensors"), &names, &count, error));
    ck_assert_uint_eq(count, 4);
    ck_assert_str_eq(names[3], "model.layers.0.self_attn.v_proj.weight");
    for (size_t n = 0; n < count; n++) {
        snprintf(spec, sizeof spec, "%s#%s", data_file("smollm2_layer0.safetensors"), names[n]);
        ck_assert_msg(load_array(spec, &a, error), "%s", error);
        ck_assert(a.type == ARRAY_F32 && a.rank == 2 && a.shape[1] == 576);
        array_free(&a);
    }
    free(names);
    snprintf(spec, sizeof spec, "%s#model.layers.0.self_attn.w_proj.weight",
             data_file("smollm2_layer0.safetensors"));
    ck_assert(!load_array(spec, &a, error) && strstr(error, "_proj.weight, model."));
    ck_assert(!load_array(data_file("smollm2_layer0.safetensors"), &a, error) && strstr(error, "#NAME"));
    ck_assert(!load_array("x.bin", &a, error) && strstr(error, "FILE.npy"));
    ck_assert(!load_array(in_folder("none.npy"), &a, error) && strstr(error, "No such file"));
}
END_TEST

START_TEST(errors_are_one_line) {
    ck_assert(!refuse(error, "a\nb\t%0600d", 1));
    ck_assert(strlen(error) == sizeof error - 1 && !strncmp(error, "a?b?000", 7));
    ck_assert(!refuse(NULL, "x"));
    nearest_names("qyery", (const char *const[]){"value", "query", "key"}, 3, error, sizeof error);
    ck_assert_str_eq(error, "query, key, value");
}
END_TEST

int main(void) {
    const int npy_count = sizeof npy_cases / sizeof *npy_cases;
    const int safetensors_count = sizeof safetensors_cases / sizeof *safetensors_cases;
    Suite *suite = suite_create("formats");
    TCase *group = tcase_create("files");
    tcase_set_timeout(group, 120);
    tcase_add_unchecked_fixture(group, enter, leave);
    tcase_add_test(group, npy_round_trip);
    tcase_add_test(group, npy_bytes_are_numpys);
    tcase_add_loop_test(group, npy_accepts_and_refuses, 0, npy_count);
    tcase_add_loop_test(group, safetensors_accepts_and_refuses, 0, safetensors_count);
    tcase_add_loop_test(group, damage_never_crashes, 0,
                        npy_count < safetensors_count ? npy_count : safetensors_count);
    tcase_add_test(group, real_files);
    tcase_add_test(group, errors_are_one_line);
    suite_add_tcase(suite, group);
    return run_suite(suite, CK_FORK_GETENV);
}
