/* group.c: one attention call over all devices of the machine, of any vendors: arrays in host
 * memory, heads or rows partitioned by the speed of each device, and a report. With one device,
 * a second context on it shows the same.
 *     cc group.c $(pkg-config --cflags --libs clattn OpenCL) -lm */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { HEADS = 4, ROWS = 96, SIZE = 32, COUNT = HEADS * ROWS * SIZE, MOST = 8, CALLS = 3, NO_DEVICE = 77 };

static float q[COUNT], k[COUNT], v[COUNT], out[COUNT];

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user, (void)level;
    /* errors, and devices that failed and whose work moved to others */
    fprintf(stderr, "%s\n", message);
}

int main(void) {
    clattn_device devices[MOST];
    clattn_group_member members[MOST] = {{.context = NULL}};
    clattn_group *group = NULL;
    size_t count = 0;
    const clattn_log log = {.fn = on_log, .level = CLATTN_LOG_INFO};
    if (clattn_device_list(devices, MOST, &count, NULL) != CLATTN_OK) return NO_DEVICE;
    if (count > MOST) count = MOST;
    if (count == 1) devices[count++] = devices[0];
    for (size_t n = 0; n < count; n++) {
        const clattn_context_params setup = {.device = devices[n].device};
        if (clattn_context_create(&setup, &members[n].context) != CLATTN_OK) return 1;
    }
    const clattn_group_params params = {.members = members, .count = count, .log = log};
    if (clattn_group_create(&params, &group) != CLATTN_OK) return 1;

    /* Every v of a head is the same row, so each result is that row, with any scores. */
    for (int i = 0; i < COUNT; i++) q[i] = sinf((float)i), k[i] = cosf((float)i), v[i] = (float)(i % SIZE);
    const clattn_group_attention_params call = {
        .attention = {.q = clattn_tensor_bhsd(CLATTN_HOST(q), CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE),
                      .kv = {.k = clattn_tensor_bhsd(CLATTN_HOST(k), CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE),
                             .v = clattn_tensor_bhsd(CLATTN_HOST(v), CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE)},
                      .out = clattn_tensor_bhsd(CLATTN_HOST(out), CLATTN_TYPE_F32, 1, HEADS, ROWS, SIZE),
                      .score = {.causal = true}}};
    clattn_group_report report = {.pieces = 0};
    clattn_group_share shares[MOST];
    clattn_status status = CLATTN_OK;
    /* the first call measures the speed of each device */
    for (int n = 0; n < CALLS && status == CLATTN_OK; n++)
        status = clattn_group_attention(group, &call, &report, shares);
    double most = 0.0;
    for (int i = 0; i < COUNT; i++) most = fmax(most, fabs((double)out[i] - (double)(i % SIZE)));
    printf("%s\n", report.why);
    for (size_t n = 0; n < count && status == CLATTN_OK; n++)
        printf("  %s: %.0f %% of the work, %.1f GFLOP/s\n",
               clattn_context_capabilities(members[n].context)->name, 100.0 * shares[n].share,
               shares[n].gflops);
    printf("largest difference %.2g\n", most);
    clattn_group_destroy(group); /* the group must be destroyed before its contexts */
    for (size_t n = 0; n < count; n++) clattn_context_destroy(members[n].context);
    return status == CLATTN_OK && most < 1e-4 ? 0 : 1;
}
