// test_consumer.c: a program that uses only the public header: the version and the devices. It
// compiles with that header alone, and ends well on a machine without OpenCL.
#include <clattn/clattn.h>

#include <stdio.h>
#include <string.h>

static void on_log(void *user, clattn_log_level level, const char *message) {
    (void)user;
    (void)level;
    printf("log: %s\n", message);
}

int main(void) {
    clattn_device devices[16];
    size_t count = 0;
    clattn_log log = {.fn = on_log};
    clattn_status status = clattn_device_list(devices, 16, &count, &log);
    printf("clattn %s, header %s, %s: %s\n", clattn_version(), CLATTN_VERSION_STRING,
           clattn_status_name(status), clattn_status_text(status));
    for (size_t n = 0; n < count && n < 16; n++) {
        clattn_capabilities facts;
        if (clattn_device_describe(devices[n].device, &facts) != CLATTN_OK) return 1;
        printf("%zu: %s (%s)\n", n, facts.name, facts.platform);
    }
    if (strcmp(clattn_version(), CLATTN_VERSION_STRING) != 0) return 1;
    if (clattn_version_number() != CLATTN_VERSION_NUMBER) return 1;
    if (status == CLATTN_UNSUPPORTED && count == 0) return 0;
    return status == CLATTN_OK && count > 0 ? 0 : 1;
}
