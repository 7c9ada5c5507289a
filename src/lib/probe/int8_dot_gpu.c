// int8_dot_gpu.c: see int8_dot_gpu.h.
#include "probe/int8_dot_gpu.h"

#include <string.h>

#include "args/args.h"
#include "probe/subgroups.h"

#define ITEMS EIGHTS_PROBE_ITEMS
#define PTX_FIRST 61 // minimum compute capability
#define ROWS 4

bool cla_eights_apply(const clattn_capabilities *device) {
    return !device->is_cpu && device->max_work_group >= ITEMS && device->max_work_item[0] >= ITEMS;
}

knobs cla_eights_knobs(const clattn_capabilities *device) {
    (void)device;
    return (knobs){.work_group = ITEMS};
}
knobs cla_eights_knobs_integers(const clattn_capabilities *device) {
    return (knobs){.work_group = ITEMS,
                   .dot_i8 = device->compute_capability >= PTX_FIRST ? DOT_I8_PTX : DOT_I8_OWN};
}

const char *cla_eights_options(const clattn_capabilities *device) {
    return !device->compute_capability && cla_opencl_version(device) >= 3 ? "-cl-std=CL3.0" : NULL;
}

// Bytes of the keys, with both signs and no four alike, and numbers of q that need two bytes.
static int byte_of(int i) {
    return (int8_t)(((uint32_t)i + 1) * 2654435761u >> 11 & 255);
}
static int number_of(int i) {
    return (int)(((uint32_t)i + 1) * 2246822519u >> 7) % 8001 - 4000;
}
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

void cla_eights_fill(uint32_t *in) {
    for (int i = 0; i < 2 * ITEMS; i++)
        for (int n = 0; n < 4; n++) in[i] |= (uint32_t)(uint8_t)byte_of(4 * i + n) << 8 * n;
    for (int i = 0; i < 8 * ROWS; i++) in[2 * ITEMS + i] = bits_of((float)number_of(i));
    in[2 * ITEMS + 8 * ROWS] = bits_of(0.5f);
}

void cla_eights_expect(const knobs *k, uint32_t *out) {
    (void)k;
    for (int i = 0; i < ROWS * ITEMS; i++) {
        int sum = 0;
        for (int n = 0; n < 8; n++) sum += byte_of(i / ROWS * 8 + n) * number_of(i % ROWS * 8 + n);
        out[i] = bits_of((float)sum * 0.5f);
    }
}

double cla_eights_flops(const knobs *k) {
    (void)k;
    return 2.0 * 8 * ROWS * ITEMS;
}
