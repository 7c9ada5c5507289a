// device.c: lists the devices and reads their capabilities. No decision here depends on a vendor's
// name.
#include <stdio.h>
#include <string.h>

#include "device/context.h"
#include "device/driver_quirks.h"
#include "base/host.h"

#define MAX_PLATFORMS 64

// Add one platform's devices. `count` counts all of them, including those beyond `capacity`.
static cl_int list_platform(cl_platform_id platform, clattn_device *devices, size_t capacity, size_t *count) {
    cl_uint n = 0;
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n);
    if (code != CL_SUCCESS || n == 0) return code == CL_DEVICE_NOT_FOUND ? CL_SUCCESS : code;
    cl_device_id *ids = cla_host_take_zeroed(NULL, n, sizeof *ids);
    if (!ids) return CL_OUT_OF_HOST_MEMORY;
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, ids, NULL);
    for (cl_uint i = 0; code == CL_SUCCESS && i < n; i++, (*count)++)
        if (*count < capacity) devices[*count] = (clattn_device){platform, ids[i]};
    cla_host_release(NULL, ids);
    return code;
}

static clattn_status refuse_platforms(const clattn_log *log, cl_int code) {
    const bool none = code == CL_SUCCESS || code == OPENCL_PLATFORM_NOT_FOUND;
    if (none)
        cla_log_send(log, CLATTN_LOG_ERROR,
                     "no OpenCL platform: install a driver for your device; for any CPU: apt install "
                     "pocl-opencl-icd, or beside the Python module on x86-64: pip install "
                     "intel-opencl-rt intel-cmplr-lib-rt; the loader returned %d",
                     (int)code);
    else
        cla_log_send(log, CLATTN_LOG_ERROR, "device list: clGetPlatformIDs: OpenCL error %d (%s)", (int)code,
                     cla_opencl_error_name(code));
    return none ? CLATTN_UNSUPPORTED : cla_opencl_status(code);
}

static clattn_status refuse_devices(const clattn_log *log, cl_uint platforms, cl_int code) {
    if (code == CL_SUCCESS)
        cla_log_send(log, CLATTN_LOG_ERROR,
                     "no OpenCL device: %u platform(s) are installed, none has a device", platforms);
    else
        cla_log_send(log, CLATTN_LOG_ERROR,
                     "no OpenCL device in %u platform(s): clGetDeviceIDs: OpenCL error %d (%s)", platforms,
                     (int)code, cla_opencl_error_name(code));
    return code == CL_SUCCESS ? CLATTN_UNSUPPORTED : cla_opencl_status(code);
}

clattn_status clattn_device_list(clattn_device *devices, size_t capacity, size_t *count,
                                 const clattn_log *log) {
    if (!count || (capacity && !devices)) {
        cla_log_send(log, CLATTN_LOG_ERROR, "device list: count is NULL, or devices is NULL with a capacity");
        return CLATTN_INVALID_ARGUMENT;
    }
    *count = 0;
    TRY(cla_opencl_open(log));
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n), failed = CL_SUCCESS;
    if (code != CL_SUCCESS || n == 0) return refuse_platforms(log, code);
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS; i++) {
        code = list_platform(platforms[i], devices, capacity, count);
        if (code == CL_SUCCESS) continue;
        failed = code;
        cla_log_send(log, CLATTN_LOG_INFO,
                     "device list: platform %u is left out: clGetDeviceIDs: OpenCL error %d (%s)", i,
                     (int)code, cla_opencl_error_name(code));
    }
    return *count ? CLATTN_OK : refuse_devices(log, n, failed);
}

// A device whose properties are being read, and the first failed query. A device with a failed
// query is not used, because a limit of 0 would pass for a real limit.
typedef struct inquiry {
    cl_device_id device;
    cl_platform_id platform;
    device_failure *failure;
    const clattn_host_memory *host;
} inquiry;

static bool ask(inquiry *q, cl_device_info what, size_t size, void *to, size_t *bytes) {
    const cl_int code = clGetDeviceInfo(q->device, what, size, to, bytes);
    if (code != CL_SUCCESS && q->failure->code == CL_SUCCESS)
        *q->failure = (device_failure){"clGetDeviceInfo", what, code};
    return code == CL_SUCCESS;
}

static bool ask_platform(inquiry *q, cl_platform_info what, size_t size, void *to, size_t *bytes) {
    const cl_int code = clGetPlatformInfo(q->platform, what, size, to, bytes);
    if (code != CL_SUCCESS && q->failure->code == CL_SUCCESS)
        *q->failure = (device_failure){"clGetPlatformInfo", what, code};
    return code == CL_SUCCESS;
}

typedef bool (*question)(inquiry *q, cl_uint what, size_t size, void *to, size_t *bytes);

// A text property of any length, which the caller releases with cla_host_release. NULL if the
// driver or the host failed.
static char *whole_text(inquiry *q, question put, cl_uint what) {
    size_t bytes = 0;
    if (!put(q, what, 0, NULL, &bytes)) return NULL;
    char *all = cla_host_take_zeroed(q->host, bytes + 1, 1);
    if (!all && q->failure->code == CL_SUCCESS)
        *q->failure = (device_failure){"host memory", what, CL_OUT_OF_HOST_MEMORY};
    if (all && (bytes == 0 || put(q, what, bytes, all, NULL))) return all;
    cla_host_release(q->host, all);
    return NULL;
}

// Copy a text property without blanks at its ends. A text that is too long loses its middle,
// because Adreno's drivers name their compiler at the end.
static void get_text(inquiry *q, question put, cl_uint what, char *text, size_t size) {
    char *all = whole_text(q, put, what);
    const char *from = all ? all + strspn(all, " ") : "";
    const size_t length = strlen(from), half = size / 2;
    if (length < size)
        memcpy(text, from, length + 1);
    else
        snprintf(text, size, "%.*s...%s", (int)half - 3, from, from + length - (size - half - 1));
    for (size_t n = strlen(text); n && text[n - 1] == ' '; n--) text[n - 1] = '\0';
    cla_host_release(q->host, all);
}

static uint64_t get_number(inquiry *q, cl_device_info what) {
    // Drivers write 4 or 8 bytes. clattn runs on little-endian hosts, so both sizes read correctly.
    uint64_t value = 0;
    ask(q, what, sizeof value, &value, NULL);
    return value;
}

static bool has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

// Sub-group sizes that a kernel may require, or-ed. 0 if the driver does not know the query.
static uint32_t subgroup_sizes(const inquiry *q) {
    size_t sizes[16], bytes = 0;
    uint32_t all = 0;
    if (clGetDeviceInfo(q->device, OPENCL_DEVICE_SUB_GROUP_SIZES, sizeof sizes, sizes, &bytes) != CL_SUCCESS)
        return 0;
    for (size_t i = 0; i < bytes / sizeof *sizes && i < 16; i++)
        if (sizes[i] <= 128 && !(sizes[i] & (sizes[i] - 1))) all |= (uint32_t)sizes[i];
    return all;
}

static void describe_subgroups(const inquiry *q, clattn_capabilities *c, const char *extensions) {
    static const struct {
        const char *extension;
        unsigned way;
    } ways[] = {
        {"cl_khr_subgroups", CLATTN_SUBGROUPS_KHR},
        {"cl_intel_subgroups", CLATTN_SUBGROUPS_INTEL},
        {"cl_khr_subgroup_shuffle", CLATTN_SUBGROUPS_SHUFFLE_KHR},
        {"cl_qcom_subgroup_shuffle", CLATTN_SUBGROUPS_SHUFFLE_QCOM},
        {"cl_intel_required_subgroup_size", CLATTN_SUBGROUPS_SIZE_INTEL},
        {"cl_qcom_reqd_sub_group_size", CLATTN_SUBGROUPS_SIZE_QCOM},
        {"cl_intel_subgroup_matrix_multiply_accumulate", CLATTN_SUBGROUPS_MATRIX_INTEL},
    };
    // In OpenCL 3.0 sub-groups are optional, and a device reports how many a work-group can have.
    // Older devices do not know this query, and `most` stays 0.
    cl_uint most = 0;
    if (cla_defect(DEFECT_OF_SUBGROUPS, c)) return;
    clGetDeviceInfo(q->device, OPENCL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof most, &most, NULL);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (has_word(extensions, ways[i].extension)) c->subgroup_ways |= ways[i].way;
    if (most > 0) c->subgroup_ways |= CLATTN_SUBGROUPS_KHR;
    c->subgroups = (c->subgroup_ways & (CLATTN_SUBGROUPS_KHR | CLATTN_SUBGROUPS_INTEL)) != 0;
    if (!c->subgroups) c->subgroup_ways = 0;
    if (c->subgroup_ways & CLATTN_SUBGROUPS_SIZE_INTEL) c->subgroup_sizes = subgroup_sizes(q);
}

// 10 * major + minor. 0 if the driver does not report both.
static uint32_t compute_capability(cl_device_id device) {
    cl_uint major = 0, minor = 0;
    if (clGetDeviceInfo(device, OPENCL_DEVICE_COMPUTE_CAPABILITY_MAJOR, sizeof major, &major, NULL) !=
            CL_SUCCESS ||
        clGetDeviceInfo(device, OPENCL_DEVICE_COMPUTE_CAPABILITY_MINOR, sizeof minor, &minor, NULL) !=
            CL_SUCCESS)
        return 0;
    return major < 1000 && minor < 10 ? 10 * major + minor : 0;
}

void cla_device_add_assembly(cl_device_id device, clattn_capabilities *c, unsigned assembly) {
    c->assembly |= assembly;
    if (assembly & CLATTN_ASSEMBLY_PTX && !c->compute_capability)
        c->compute_capability = compute_capability(device);
}

// 0 if the driver does not report it.
static uint32_t wavefront_width(const inquiry *q) {
    cl_uint width = 0;
    const cl_int code = clGetDeviceInfo(q->device, OPENCL_DEVICE_WAVEFRONT_WIDTH, sizeof width, &width, NULL);
    return code == CL_SUCCESS && width <= 1024 ? width : 0;
}

// False if the driver does not know the query. OpenCL 2.0 deprecated it.
static bool unified_memory(const inquiry *q) {
    cl_bool unified = CL_FALSE;
    const cl_int code =
        clGetDeviceInfo(q->device, OPENCL_DEVICE_UNIFIED_MEMORY, sizeof unified, &unified, NULL);
    return code == CL_SUCCESS && unified;
}

static void describe_extensions(inquiry *q, clattn_capabilities *c) {
    char *list = whole_text(q, ask, CL_DEVICE_EXTENSIONS);
    if (!list) return;
    c->assembly = cla_known_assembly(c, &c->driver_known);
    c->half_arithmetic = has_word(list, "cl_khr_fp16");
    c->double_arithmetic = has_word(list, "cl_khr_fp64");
    if (strncmp(c->version, "OpenCL 1", 8) != 0)
        c->svm = (uint32_t)get_number(q, OPENCL_DEVICE_SVM_CAPABILITIES);
    // The compute capability selects PTX instructions, so a compiler that may not get PTX does not
    // need it.
    if (has_word(list, "cl_nv_device_attribute_query") && c->assembly & CLATTN_ASSEMBLY_PTX)
        c->compute_capability = compute_capability(q->device);
    if (has_word(list, "cl_amd_device_attribute_query")) c->wavefront_width = wavefront_width(q);
    c->unified_memory = unified_memory(q);
    c->usm = has_word(list, "cl_intel_unified_shared_memory");
    describe_subgroups(q, c, list);
    cla_host_release(q->host, list);
}

static void describe_texts(inquiry *q, clattn_capabilities *c) {
    char name[128] = "", version[112] = "";
    get_text(q, ask, CL_DEVICE_NAME, c->name, sizeof c->name);
    get_text(q, ask, CL_DEVICE_VENDOR, c->vendor, sizeof c->vendor);
    get_text(q, ask, CL_DRIVER_VERSION, c->driver, sizeof c->driver);
    get_text(q, ask, CL_DEVICE_VERSION, c->version, sizeof c->version);
    if (!ask(q, CL_DEVICE_PLATFORM, sizeof q->platform, &q->platform, NULL)) return;
    get_text(q, ask_platform, CL_PLATFORM_NAME, name, sizeof name);
    get_text(q, ask_platform, CL_PLATFORM_VERSION, version, sizeof version);
    snprintf(c->platform, sizeof c->platform, "%s, %s", name, version);
}

static void describe_limits(inquiry *q, clattn_capabilities *c) {
    size_t items[3] = {1, 1, 1};
    c->compute_units = (uint32_t)get_number(q, CL_DEVICE_MAX_COMPUTE_UNITS);
    c->clock_mhz = (uint32_t)get_number(q, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    c->float_vector_width = (uint32_t)get_number(q, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    if (!c->float_vector_width) c->float_vector_width = 1;
    c->address_bits = (uint32_t)get_number(q, CL_DEVICE_ADDRESS_BITS);
    c->max_work_group = get_number(q, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    ask(q, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, NULL);
    for (int i = 0; i < 3; i++) c->max_work_item[i] = items[i];
    c->local_memory_bytes = get_number(q, CL_DEVICE_LOCAL_MEM_SIZE);
    c->global_memory_bytes = get_number(q, CL_DEVICE_GLOBAL_MEM_SIZE);
    c->max_allocation_bytes = get_number(q, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    c->max_argument_bytes = get_number(q, CL_DEVICE_MAX_PARAMETER_SIZE);
}

clattn_status cla_device_describe(const clattn_host_memory *host, cl_device_id device, clattn_capabilities *c,
                                  device_failure *failure) {
    inquiry q = {.device = device, .failure = failure, .host = host};
    cl_device_type type = 0;
    *failure = (device_failure){"", 0, CL_SUCCESS};
    *c = (clattn_capabilities){0};
    if (ask(&q, CL_DEVICE_TYPE, sizeof type, &type, NULL)) {
        c->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
        c->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
        c->available = get_number(&q, CL_DEVICE_AVAILABLE) && get_number(&q, CL_DEVICE_COMPILER_AVAILABLE);
        c->little_endian = get_number(&q, CL_DEVICE_ENDIAN_LITTLE) != 0;
        c->out_of_order =
            (get_number(&q, CL_DEVICE_QUEUE_PROPERTIES) & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
        c->local_memory_is_local = get_number(&q, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
        describe_texts(&q, c);
        describe_extensions(&q, c);
        describe_limits(&q, c);
    }
    if (failure->code == CL_SUCCESS) return CLATTN_OK;
    *c = (clattn_capabilities){0};
    const bool unknown = failure->code == CL_INVALID_DEVICE && !strcmp(failure->call, "clGetDeviceInfo");
    return unknown ? CLATTN_INVALID_ARGUMENT : cla_opencl_status(failure->code);
}

clattn_status clattn_device_describe(cl_device_id device, clattn_capabilities *capabilities) {
    device_failure failure;
    if (!device || !capabilities) return CLATTN_INVALID_ARGUMENT;
    *capabilities = (clattn_capabilities){0};
    TRY(cla_opencl_open(NULL));
    return cla_device_describe(NULL, device, capabilities, &failure);
}
