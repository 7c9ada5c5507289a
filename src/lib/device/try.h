// try.h: TRY returns from a function if a step fails, with the step's status.
#ifndef CLATTN_DEVICE_TRY_H
#define CLATTN_DEVICE_TRY_H

#define TRY(step)                                                                                            \
    do {                                                                                                     \
        const clattn_status try_status = (step);                                                             \
        if (try_status != CLATTN_OK) return try_status;                                                      \
    } while (0)
#endif
