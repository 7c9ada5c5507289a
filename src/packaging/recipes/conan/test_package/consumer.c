#include <clattn/clattn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    size_t count = 0;
    // Without OpenCL the status is UNSUPPORTED.
    const clattn_status status = clattn_device_list(NULL, 0, &count, NULL);
    printf("clattn %s, %zu devices, %s\n", clattn_version(), count, clattn_status_name(status));
    return strcmp(clattn_version(), CLATTN_VERSION_STRING) != 0;
}
