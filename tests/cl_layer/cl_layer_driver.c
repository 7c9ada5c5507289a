// cl_layer_driver.c: see cl_layer_driver.h.
#define _DEFAULT_SOURCE // on_exit
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>

#include "cl_layer/cl_layer_driver.h"

#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXIT_WRONG_FILE 71
#define EXIT_BROKE_LIMIT 70
#define MOST_LINES 64
#define PLATFORM 0x80000000u // a query of the platform
#define KERNEL 0x40000000u   // a query of a compiled kernel

enum form { NUMBER_4, NUMBER_8, SIZES, TEXT, WORDS };
static const struct answer_word {
    const char *word;
    unsigned what;
    enum form form;
    const char *names; // for WORDS: "NAME=NUMBER ..."
} answer_words[] = {
    {"type", CL_DEVICE_TYPE, WORDS, "cpu=2 gpu=4 accelerator=8"},
    {"name", CL_DEVICE_NAME, TEXT, NULL},
    {"vendor", CL_DEVICE_VENDOR, TEXT, NULL},
    {"version", CL_DEVICE_VERSION, TEXT, NULL},
    {"driver-version", CL_DRIVER_VERSION, TEXT, NULL},
    {"profile", CL_DEVICE_PROFILE, TEXT, NULL},
    {"extensions", CL_DEVICE_EXTENSIONS, TEXT, NULL},
    {"platform-name", PLATFORM | CL_PLATFORM_NAME, TEXT, NULL},
    {"platform-version", PLATFORM | CL_PLATFORM_VERSION, TEXT, NULL},
    {"max-work-group", CL_DEVICE_MAX_WORK_GROUP_SIZE, NUMBER_8, NULL},
    {"max-work-items", CL_DEVICE_MAX_WORK_ITEM_SIZES, SIZES, NULL},
    {"kernel-work-group", KERNEL | CL_KERNEL_WORK_GROUP_SIZE, NUMBER_8, NULL},
    {"local-memory", CL_DEVICE_LOCAL_MEM_SIZE, NUMBER_8, NULL},
    {"local-memory-type", CL_DEVICE_LOCAL_MEM_TYPE, WORDS, "local=1 global=2"},
    {"argument-bytes", CL_DEVICE_MAX_PARAMETER_SIZE, NUMBER_8, NULL},
    {"alignment-bits", CL_DEVICE_MEM_BASE_ADDR_ALIGN, NUMBER_4, NULL},
    {"address-bits", CL_DEVICE_ADDRESS_BITS, NUMBER_4, NULL},
    {"max-allocation", CL_DEVICE_MAX_MEM_ALLOC_SIZE, NUMBER_8, NULL},
    {"global-memory", CL_DEVICE_GLOBAL_MEM_SIZE, NUMBER_8, NULL},
    {"compute-units", CL_DEVICE_MAX_COMPUTE_UNITS, NUMBER_4, NULL},
    {"clock-mhz", CL_DEVICE_MAX_CLOCK_FREQUENCY, NUMBER_4, NULL},
    {"float-vector", CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, NUMBER_4, NULL},
    {"unified-memory", CL_DEVICE_HOST_UNIFIED_MEMORY, WORDS, "no=0 yes=1"},
    {"queues", CL_DEVICE_QUEUE_PROPERTIES, WORDS, "in-order=2 out-of-order=3"},
    {"sub-groups", CL_DEVICE_MAX_NUM_SUB_GROUPS, NUMBER_4, NULL},
};
enum { ANSWERS = sizeof answer_words / sizeof answer_words[0] };

// The arguments of each: k the name of a kernel, or "*", n a number, c an OpenCL error, w a word of
// the list.
enum fault {
    NO_BUILD,
    SLOW_BUILD,
    SLOW_KERNEL,
    FAIL_LAUNCH,
    GROUP_ABOVE,
    LOST_AT,
    FAIL_CONTEXT,
    LOCAL_ADDED,
    LOCAL_ABOVE,
    CUT_STRUCTS,
    OFFSETS,
    FLUSH_HALVES,
    REFUSE_BINARIES,
    FAULTS
};
static const struct fault_word {
    const char *word, *rest, *names;
} fault_words[FAULTS] = {
    [NO_BUILD] = {"no-build", "k", NULL},
    [SLOW_BUILD] = {"slow-build", "kn", NULL},
    [SLOW_KERNEL] = {"slow-kernel", "kn", NULL},
    [FAIL_LAUNCH] = {"launch", "kc", NULL},
    [GROUP_ABOVE] = {"group-above", "nc", NULL},
    [LOST_AT] = {"lost-at-launch", "n", NULL},
    [FAIL_CONTEXT] = {"context", "nc", NULL},
    [LOCAL_ADDED] = {"local-memory-added", "n", NULL},
    [LOCAL_ABOVE] = {"local-memory-above", "nc", NULL},
    [CUT_STRUCTS] = {"structs-cut", "n", NULL},
    [OFFSETS] = {"offsets", "w", "ignored=0 twice=2"},
    [FLUSH_HALVES] = {"halves", "w", "flushed=1"},
    [REFUSE_BINARIES] = {"binaries", "w", "refused=1"},
};

struct line {
    int number;
    const struct answer_word *answer; // NULL: a fault
    enum fault fault;
    char text[512]; // the text of an answer, or a kernel's name
    unsigned long long value[3];
    int code;
    atomic_long played;
};
static struct line lines[MOST_LINES];
static int line_count;
static const char *path, *played_path;
static atomic_long launches, contexts;
static atomic_int broken;

static void wrong(int number, const char *format, ...) {
    va_list list;
    fprintf(stderr, "%s:%d: ", path, number);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    fflush(NULL);
    _exit(EXIT_WRONG_FILE);
}

static unsigned long long number_of(const char *word, int number) {
    char *end = NULL;
    const unsigned long long value = word ? strtoull(word, &end, 10) : 0;
    if (word == NULL || *word < '0' || *word > '9' || *end != '\0')
        wrong(number, "a number is needed in place of \"%s\"", word ? word : "nothing");
    return value;
}

static unsigned long long number_named(const char *names, const char *word, int number) {
    const size_t length = word ? strlen(word) : 0;
    for (const char *at = names; length > 0 && at != NULL; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, word, length) == 0 && at[length] == '=') return strtoull(at + length + 1, NULL, 10);
    wrong(number, "one of %s is needed in place of \"%s\"", names, word ? word : "nothing");
    return 0;
}

static int code_of(const char *word, int number) {
    char *end = NULL;
    const long code = word ? strtol(word, &end, 10) : 0;
    if (word == NULL || *end != '\0' || code >= 0)
        wrong(number, "an OpenCL error, which is below 0, is needed in place of \"%s\"",
              word ? word : "nothing");
    return (int)code;
}

static void read_answer(struct line *to, char **rest) {
    const char *word = strtok_r(NULL, " ", rest);
    for (int i = 0; word != NULL && i < ANSWERS; i++)
        if (strcmp(word, answer_words[i].word) == 0) to->answer = &answer_words[i];
    if (to->answer == NULL) wrong(to->number, "no answer is called \"%s\"", word ? word : "");
    for (const struct line *l = lines; l < to; l++)
        if (l->answer == to->answer) wrong(to->number, "line %d answers this, too", l->number);
    switch (to->answer->form) {
    case TEXT:
        snprintf(to->text, sizeof to->text, "%s", *rest ? *rest : "");
        *rest = NULL;
        return;
    case WORDS:
        to->value[0] = number_named(to->answer->names, strtok_r(NULL, " ", rest), to->number);
        return;
    case SIZES:
        for (int i = 0; i < 3; i++) to->value[i] = number_of(strtok_r(NULL, " ", rest), to->number);
        return;
    default:
        to->value[0] = number_of(strtok_r(NULL, " ", rest), to->number);
    }
}

static void read_fault(struct line *to, char **rest) {
    const char *word = strtok_r(NULL, " ", rest);
    int which = 0, values = 0;
    while (which < FAULTS && (word == NULL || strcmp(word, fault_words[which].word) != 0)) which++;
    if (which == FAULTS) wrong(to->number, "no fault is called \"%s\"", word ? word : "");
    to->fault = (enum fault)which;
    for (const char *what = fault_words[which].rest; *what != '\0'; what++) {
        const char *next = strtok_r(NULL, " ", rest);
        if (*what == 'c') to->code = code_of(next, to->number);
        if (*what == 'n') to->value[values++] = number_of(next, to->number);
        if (*what == 'w') to->value[values++] = number_named(fault_words[which].names, next, to->number);
        if (*what == 'k' && next == NULL) wrong(to->number, "the name of a kernel is needed, or *");
        if (*what == 'k') snprintf(to->text, sizeof to->text, "%s", next);
    }
}

static void read_line(char *text, int number) {
    char *rest = NULL;
    text[strcspn(text, "#\n")] = '\0';
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--) text[n - 1] = '\0';
    const char *kind = strtok_r(text, " ", &rest);
    if (kind == NULL || strcmp(kind, "run") == 0) return;
    if (line_count == MOST_LINES) wrong(number, "there are more than %d lines", MOST_LINES);
    struct line *to = &lines[line_count];
    to->number = number;
    if (strcmp(kind, "answer") == 0)
        read_answer(to, &rest);
    else if (strcmp(kind, "fault") == 0)
        read_fault(to, &rest);
    else
        wrong(number, "a line begins with answer, fault or run, and not with \"%s\"", kind);
    const char *more = rest ? strtok_r(NULL, " ", &rest) : NULL;
    if (more != NULL) wrong(number, "\"%s\" is too much", more);
    line_count++;
}

// Report the lines that occurred, whatever the program's exit status. Two processes may write at
// once: one write each.
static void report(int status, void *unused) {
    char text[MOST_LINES * 32];
    int length = 0;
    (void)unused;
    for (int i = 0; i < line_count; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%d %ld\n", lines[i].number,
                           atomic_load(&lines[i].played));
    FILE *file = played_path ? fopen(played_path, "a") : NULL;
    if (file != NULL) fwrite(text, 1, (size_t)length, file), fclose(file);
    if (status != 0 || atomic_load(&broken) == 0) return;
    fprintf(stderr, "driver: %d calls went past limits that it had named\n", atomic_load(&broken));
    fflush(NULL);
    _exit(EXIT_BROKE_LIMIT);
}

void layer_driver_begin(void) {
    char text[1024];
    path = getenv("CLATTN_LAYER_DRIVER");
    played_path = getenv("CLATTN_LAYER_PLAYED");
    if (path == NULL) return;
    FILE *file = fopen(path, "r");
    if (file == NULL) wrong(0, "cannot be read");
    for (int number = 1; fgets(text, sizeof text, file) != NULL; number++) read_line(text, number);
    fclose(file);
    on_exit(report, NULL);
}

static struct line *find_answer(unsigned what) {
    for (struct line *l = lines; l < lines + line_count; l++)
        if (l->answer != NULL && l->answer->what == what) return l;
    return NULL;
}

// The next fault of this kind from `after` on, NULL: from the first.
static struct line *find_fault(enum fault which, struct line *after) {
    for (struct line *l = after ? after + 1 : lines; l < lines + line_count; l++)
        if (l->answer == NULL && l->fault == which) return l;
    return NULL;
}

static int play(struct line *l, int code) {
    atomic_fetch_add(&l->played, 1);
    return code;
}

bool layer_driver_answer(bool of_platform, unsigned what, const void **bytes, size_t *count) {
    struct line *l = find_answer(of_platform ? PLATFORM | what : what);
    if (l == NULL) return false;
    play(l, 0);
    *bytes = l->answer->form == TEXT ? (const void *)l->text : l->value;
    *count = l->answer->form == TEXT    ? strlen(l->text) + 1
             : l->answer->form == SIZES ? 3 * sizeof(size_t)
             : l->answer->form == NUMBER_4 || (what != CL_DEVICE_TYPE && what != CL_DEVICE_QUEUE_PROPERTIES &&
                                               l->answer->form == WORDS)
                 ? sizeof(cl_uint)
                 : sizeof(cl_ulong);
    return true;
}

// The compiler's own share of a group's local memory.
static cl_ulong local_added(cl_ulong bytes) {
    struct line *l = bytes > 0 ? find_fault(LOCAL_ADDED, NULL) : NULL;
    if (l != NULL) play(l, 0);
    return l != NULL ? l->value[0] : 0;
}

void layer_driver_kernel_answer(unsigned what, void *to) {
    struct line *l = to ? find_answer(KERNEL | what) : NULL;
    size_t size = 0;
    if (to && what == CL_KERNEL_LOCAL_MEM_SIZE) {
        cl_ulong bytes;
        memcpy(&bytes, to, sizeof bytes);
        bytes += local_added(bytes);
        memcpy(to, &bytes, sizeof bytes);
    }
    if (l == NULL) return;
    memcpy(&size, to, sizeof size);
    if (size <= l->value[0]) return;
    size = (size_t)l->value[0];
    memcpy(to, &size, sizeof size);
    play(l, 0);
}

unsigned long long layer_driver_type(unsigned long long type) {
    const struct line *l = find_answer(CL_DEVICE_TYPE);
    if (l == NULL || type == CL_DEVICE_TYPE_ALL) return type;
    return type == CL_DEVICE_TYPE_DEFAULT || (type & l->value[0]) ? CL_DEVICE_TYPE_ALL : 0;
}

int layer_driver_context(void) {
    const long nth = 1 + atomic_fetch_add(&contexts, 1);
    struct line *l = find_fault(FAIL_CONTEXT, NULL);
    return l != NULL && nth >= (long)l->value[0] ? play(l, l->code) : 0;
}

// Returns whether the program's text has this kernel.
static bool has_kernel(const struct _cl_icd_dispatch *next, cl_program program, const char *name) {
    size_t size = 0;
    bool found = strcmp(name, "*") == 0;
    char *source, wanted[600], named[600];
    if (found || next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &size) != CL_SUCCESS ||
        size <= 1 || (source = malloc(size)) == NULL)
        return found;
    snprintf(wanted, sizeof wanted, "void %s(", name);
    // a macro that ends a line: "#define KERNEL decode_tiles"
    snprintf(named, sizeof named, " %s\n", name);
    if (next->clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source, NULL) == CL_SUCCESS)
        found = strstr(source, wanted) != NULL || strstr(source, named) != NULL;
    free(source);
    return found;
}

static void sleep_for(enum fault which, const struct _cl_icd_dispatch *next, cl_program program) {
    for (struct line *l = NULL; (l = find_fault(which, l)) != NULL;)
        if (has_kernel(next, program, l->text))
            nanosleep(&(struct timespec){.tv_sec = play(l, (int)l->value[0])}, NULL);
}

int layer_driver_kernel(const struct _cl_icd_dispatch *next, struct _cl_program *program) {
    sleep_for(SLOW_KERNEL, next, program);
    return 0;
}

int layer_driver_build(const struct _cl_icd_dispatch *next, struct _cl_program *program) {
    sleep_for(SLOW_BUILD, next, program);
    for (struct line *l = NULL; (l = find_fault(NO_BUILD, l)) != NULL;)
        if (has_kernel(next, program, l->text)) return play(l, CL_BUILD_PROGRAM_FAILURE);
    return 0;
}

int layer_driver_binary(void) {
    struct line *l = find_fault(REFUSE_BINARIES, NULL);
    return l != NULL ? play(l, CL_INVALID_BINARY) : 0;
}

static int past_limit(const char *what, unsigned long long value, unsigned long long limit, int code) {
    fprintf(stderr, "driver: %s: %llu, and the limit that it named is %llu\n", what, value, limit);
    atomic_fetch_add(&broken, 1);
    return code;
}

int layer_driver_buffer(size_t bytes) {
    const struct line *l = find_answer(CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    return l != NULL && bytes > l->value[0] ? CL_INVALID_BUFFER_SIZE : 0;
}

static int check_limits(unsigned dims, const size_t *local) {
    const struct line *group = find_answer(CL_DEVICE_MAX_WORK_GROUP_SIZE),
                      *items = find_answer(CL_DEVICE_MAX_WORK_ITEM_SIZES),
                      *own = find_answer(KERNEL | CL_KERNEL_WORK_GROUP_SIZE);
    unsigned long long all = 1;
    for (unsigned i = 0; local != NULL && i < dims; i++) {
        all *= local[i];
        if (items != NULL && local[i] > items->value[i])
            return past_limit("work-items in a dimension", local[i], items->value[i],
                              CL_INVALID_WORK_ITEM_SIZE);
    }
    if (group != NULL && all > group->value[0])
        return past_limit("work-items of a group", all, group->value[0], CL_INVALID_WORK_GROUP_SIZE);
    if (own != NULL && all > own->value[0])
        return past_limit("work-items of a kernel's group", all, own->value[0], CL_INVALID_WORK_GROUP_SIZE);
    return 0;
}

// A driver that reports too much local memory fails the launch. The program is wrong only if it
// exceeds the reported limit.
static int check_local(const struct _cl_icd_dispatch *next, cl_kernel kernel) {
    const struct line *memory = find_answer(CL_DEVICE_LOCAL_MEM_SIZE);
    struct line *above = find_fault(LOCAL_ABOVE, NULL);
    cl_ulong bytes = 0;
    cl_device_id device = NULL;
    cl_program program = NULL;
    if ((memory == NULL && above == NULL) ||
        next->clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL) != CL_SUCCESS ||
        next->clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof device, &device, NULL) != CL_SUCCESS ||
        next->clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes, &bytes,
                                       NULL) != CL_SUCCESS)
        return 0;
    bytes += local_added(bytes);
    if (memory != NULL && bytes > memory->value[0])
        return past_limit("bytes of local memory", bytes, memory->value[0], CL_OUT_OF_RESOURCES);
    return above != NULL && bytes > above->value[0] ? play(above, above->code) : 0;
}

const void *layer_driver_argument(size_t size, const void *value) {
    static _Thread_local unsigned char cut[4096];
    struct line *l = find_fault(CUT_STRUCTS, NULL);
    if (l == NULL || value == NULL || size <= l->value[0] || size > sizeof cut) return value;
    memcpy(cut, value, size);
    memset(cut + l->value[0], 0, size - (size_t)l->value[0]);
    play(l, 0);
    return cut;
}

static int fail_launch(const struct _cl_icd_dispatch *next, cl_kernel kernel, unsigned long long items) {
    char name[256] = "";
    struct line *lost = find_fault(LOST_AT, NULL), *above = find_fault(GROUP_ABOVE, NULL);
    if (1 + atomic_fetch_add(&launches, 1) >= (lost ? (long)lost->value[0] : LONG_MAX))
        return play(lost, CL_DEVICE_NOT_AVAILABLE);
    if (above != NULL && items > above->value[0]) return play(above, above->code);
    next->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    for (struct line *l = NULL; (l = find_fault(FAIL_LAUNCH, l)) != NULL;)
        if (strcmp(l->text, "*") == 0 || strcmp(l->text, name) == 0) return play(l, l->code);
    return 0;
}

int layer_driver_launch(const struct _cl_icd_dispatch *next, struct _cl_kernel *kernel, unsigned dims,
                        const size_t **offset, const size_t *local, size_t made[3]) {
    unsigned long long items = 1;
    if (line_count == 0) return 0;
    for (unsigned i = 0; local != NULL && i < dims; i++) items *= local[i];
    int code = check_limits(dims, local);
    if (code == 0) code = check_local(next, kernel);
    if (code == 0) code = fail_launch(next, kernel, items);
    struct line *l = find_fault(OFFSETS, NULL);
    if (code != 0 || l == NULL || *offset == NULL) return code;
    for (unsigned i = 0; i < dims; i++) made[i] = (*offset)[i] * (size_t)l->value[0];
    *offset = made;
    return play(l, 0);
}

// Compilers may have macros of these names, so functions are defined with them before the names
// change.
#define OVERLOADED "static __attribute__((overloadable)) "
#define FLUSH_IN(n, space)                                                                                   \
    OVERLOADED "float" #n " layer_load" #n "(size_t i, const " space " half *p) {"                           \
               " return layer_flush(vload_half" #n "(i, p)); }\n" OVERLOADED "void layer_store" #n           \
               "(float" #n " x, size_t i, " space " half *p) {"                                              \
               " vstore_half" #n "_rte(layer_flush(x), i, p); }\n"
#define FLUSH(n)                                                                                             \
    OVERLOADED "float" #n " layer_flush(float" #n " x) {"                                                    \
               " return fabs(x) < (float" #n ")(0x1p-14f) ? copysign((float" #n                              \
               ")(0.0f), x) : x; }\n" FLUSH_IN(n, "__global")                                                \
                   FLUSH_IN(n, "__private") "#undef vload_half" #n "\n#undef vstore_half" #n                 \
                                            "_rte\n#define vload_half" #n " layer_load" #n                   \
                                            "\n#define vstore_half" #n "_rte layer_store" #n "\n"

const char *layer_driver_text(void) {
    struct line *l = find_fault(FLUSH_HALVES, NULL);
    if (l == NULL) return "";
    play(l, 0);
    return FLUSH() FLUSH(4) FLUSH(8) FLUSH(16) "#line 1\n";
}
