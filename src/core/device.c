// device.c: which devices there are and what they can do. No vendor's name decides anything here.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"

#define MAX_PLATFORMS 64

// Adds one platform's devices; `count` counts all, also those that no longer fit.
static void list_platform(cl_platform_id platform, clattn_device *devices, size_t capacity, size_t *count) {
    cl_uint n = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &n) != CL_SUCCESS || n == 0) return;
    cl_device_id *ids = calloc(n, sizeof *ids);
    if (!ids) return;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, n, ids, NULL) == CL_SUCCESS)
        for (cl_uint i = 0; i < n; i++, (*count)++)
            if (*count < capacity) devices[*count] = (clattn_device){platform, ids[i]};
    free(ids);
}

clattn_status clattn_device_list(clattn_device *devices, size_t capacity, size_t *count,
                                 const clattn_log *log) {
    if (!count || (capacity && !devices)) {
        cla_log_send(log, CLATTN_LOG_ERROR, "device list: count is NULL, or devices is NULL with a capacity");
        return CLATTN_INVALID_ARGUMENT;
    }
    *count = 0;
    cl_platform_id platforms[MAX_PLATFORMS];
    cl_uint n = 0;
    const cl_int code = clGetPlatformIDs(MAX_PLATFORMS, platforms, &n);
    if (code == CL_OUT_OF_HOST_MEMORY) {
        cla_log_send(log, CLATTN_LOG_ERROR, "device list: the OpenCL loader is out of memory");
        return CLATTN_OUT_OF_MEMORY;
    }
    if (code != CL_SUCCESS || n == 0) {
        cla_log_send(
            log, CLATTN_LOG_ERROR,
            "no OpenCL platform: install a driver (on Debian, pocl-opencl-icd runs on any CPU); loader "
            "says %d",
            (int)code);
        return CLATTN_UNSUPPORTED;
    }
    for (cl_uint i = 0; i < n && i < MAX_PLATFORMS; i++)
        list_platform(platforms[i], devices, capacity, count);
    if (*count) return CLATTN_OK;
    cla_log_send(log, CLATTN_LOG_ERROR, "no OpenCL device: %u platform(s) are installed, none has a device",
                 n);
    return CLATTN_UNSUPPORTED;
}

static void get_text(cl_device_id device, cl_device_info what, char *text, size_t size) {
    size_t bytes = 0;
    text[0] = '\0';
    if (clGetDeviceInfo(device, what, 0, NULL, &bytes) != CL_SUCCESS || bytes == 0) return;
    char *all = malloc(bytes + 1);
    if (!all) return;
    if (clGetDeviceInfo(device, what, bytes, all, NULL) == CL_SUCCESS) {
        all[bytes] = '\0';
        const char *start = all + strspn(all, " ");
        snprintf(text, size, "%s", start);
        for (size_t n = strlen(text); n && text[n - 1] == ' '; n--) text[n - 1] = '\0';
    }
    free(all);
}

static uint64_t get_number(cl_device_id device, cl_device_info what) {
    uint64_t value = 0; // drivers write 4 or 8 bytes; clattn runs on little-endian hosts, so both land right
    clGetDeviceInfo(device, what, sizeof value, &value, NULL);
    return value;
}

static bool has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)) != NULL; p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0')) return true;
    return false;
}

static void describe_extensions(cl_device_id device, clattn_capabilities *c) {
    size_t bytes = 0;
    if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes) != CL_SUCCESS || !bytes) return;
    char *list = calloc(bytes + 1, 1);
    if (!list) return;
    clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, bytes, list, NULL);
    c->half_arithmetic = has_word(list, "cl_khr_fp16");
    c->double_arithmetic = has_word(list, "cl_khr_fp64");
    // OpenCL 3.0 made sub-groups an optional core feature: a device then says how many a group can have.
    cl_uint most = 0;
    clGetDeviceInfo(device, OPENCL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof most, &most, NULL);
    c->subgroups = has_word(list, "cl_khr_subgroups") || has_word(list, "cl_intel_subgroups") || most > 0;
    free(list);
}

static void describe_platform(cl_device_id device, clattn_capabilities *c) {
    cl_platform_id platform = NULL;
    char name[128] = "", version[112] = "";
    clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version, version, NULL);
    snprintf(c->platform, sizeof c->platform, "%s, %s", name, version);
}

clattn_status clattn_device_describe(cl_device_id device, clattn_capabilities *capabilities) {
    cl_device_type type = 0;
    if (!device || !capabilities) return CLATTN_INVALID_ARGUMENT;
    if (clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL) != CL_SUCCESS)
        return CLATTN_INVALID_ARGUMENT;
    clattn_capabilities *c = capabilities;
    *c = (clattn_capabilities){0};
    get_text(device, CL_DEVICE_NAME, c->name, sizeof c->name);
    get_text(device, CL_DEVICE_VENDOR, c->vendor, sizeof c->vendor);
    get_text(device, CL_DRIVER_VERSION, c->driver, sizeof c->driver);
    get_text(device, CL_DEVICE_VERSION, c->version, sizeof c->version);
    describe_platform(device, c);
    describe_extensions(device, c);
    c->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
    c->is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    c->available =
        get_number(device, CL_DEVICE_AVAILABLE) && get_number(device, CL_DEVICE_COMPILER_AVAILABLE);
    c->little_endian = get_number(device, CL_DEVICE_ENDIAN_LITTLE) != 0;
    c->out_of_order =
        (get_number(device, CL_DEVICE_QUEUE_PROPERTIES) & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    c->local_memory_is_local = get_number(device, CL_DEVICE_LOCAL_MEM_TYPE) == CL_LOCAL;
    c->compute_units = (uint32_t)get_number(device, CL_DEVICE_MAX_COMPUTE_UNITS);
    c->clock_mhz = (uint32_t)get_number(device, CL_DEVICE_MAX_CLOCK_FREQUENCY);
    c->float_vector_width = (uint32_t)get_number(device, CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT);
    if (!c->float_vector_width) c->float_vector_width = 1;
    c->address_bits = (uint32_t)get_number(device, CL_DEVICE_ADDRESS_BITS);
    c->max_work_group = get_number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
    size_t items[3] = {1, 1, 1};
    clGetDeviceInfo(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, NULL);
    for (int i = 0; i < 3; i++) c->max_work_item[i] = items[i];
    c->local_memory_bytes = get_number(device, CL_DEVICE_LOCAL_MEM_SIZE);
    c->global_memory_bytes = get_number(device, CL_DEVICE_GLOBAL_MEM_SIZE);
    c->max_allocation_bytes = get_number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
    c->max_argument_bytes = get_number(device, CL_DEVICE_MAX_PARAMETER_SIZE);
    return CLATTN_OK;
}
