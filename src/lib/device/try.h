// try.h: leave a function with the status of a step that failed.
#ifndef CLATTN_DEVICE_TRY_H
#define CLATTN_DEVICE_TRY_H

#define TRY(step)                                                                                            \
    do {                                                                                                     \
        const clattn_status try_status = (step);                                                             \
        if (try_status != CLATTN_OK) return try_status;                                                      \
    } while (0)
#endif
