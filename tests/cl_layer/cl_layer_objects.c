// cl_layer_objects.c: every OpenCL object that a program holds, with its references. An object's
// last release removes it before the driver's release, because the driver may reuse its address at
// once.
#define _DEFAULT_SOURCE // on_exit: only there is the exit status known
#include "cl_layer/cl_layer_inside.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUCKETS 8192
#define EXIT_LEFT 70

struct object {
    struct object *next;
    const void *handle;
    enum layer_kind kind;
    long references, bytes;
    const char *made_by;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *buckets[BUCKETS];
static struct layer_counts counts;
static const char *const plurals[] = {
#define X(name, text) text,
    LAYER_KIND_LIST(X)
#undef X
};

// The place of the pointer to the object. It points to NULL if there is none.
static struct object **find(enum layer_kind kind, const void *handle) {
    struct object **at = &buckets[((uintptr_t)handle >> 4) % BUCKETS];
    while (*at != NULL && ((*at)->handle != handle || (*at)->kind != kind)) at = &(*at)->next;
    return at;
}

static void note_misuse(enum layer_kind kind, const char *call, const char *what) {
    if (counts.misused++ == 0)
        snprintf(counts.first_misuse, sizeof counts.first_misuse, "%s: of %s, one %s", call, plurals[kind],
                 what);
}

void layer_object_created(enum layer_kind kind, const void *handle, const char *call) {
    pthread_mutex_lock(&lock);
    struct object **at = find(kind, handle);
    counts.created[kind]++;
    if (*at != NULL) {
        note_misuse(kind, call, "that is there was made again");
    } else if ((*at = calloc(1, sizeof **at)) != NULL) {
        **at = (struct object){NULL, handle, kind, 1, 0, call};
        counts.live[kind]++;
    } else {
        note_misuse(kind, call, "could not be counted: no memory");
    }
    pthread_mutex_unlock(&lock);
}

void layer_object_sized(enum layer_kind kind, const void *handle, size_t bytes) {
    pthread_mutex_lock(&lock);
    struct object *object = *find(kind, handle);
    if (object != NULL) object->bytes = (long)bytes, counts.bytes += (long)bytes;
    if (counts.bytes > counts.most_bytes) counts.most_bytes = counts.bytes;
    pthread_mutex_unlock(&lock);
}

void layer_object_watch(void) {
    pthread_mutex_lock(&lock);
    counts.most_bytes = counts.bytes;
    pthread_mutex_unlock(&lock);
}

bool layer_object_retained(enum layer_kind kind, const void *handle, const char *call) {
    pthread_mutex_lock(&lock);
    struct object *object = *find(kind, handle);
    if (object != NULL)
        object->references++;
    else
        note_misuse(kind, call, "that is not there");
    pthread_mutex_unlock(&lock);
    return object != NULL;
}

bool layer_object_released(enum layer_kind kind, const void *handle, const char *call) {
    pthread_mutex_lock(&lock);
    struct object **at = find(kind, handle), *object = *at;
    if (object == NULL) {
        note_misuse(kind, call, "that is not there");
    } else if (--object->references == 0) {
        *at = object->next;
        counts.bytes -= object->bytes;
        free(object);
        counts.live[kind]--;
    }
    pthread_mutex_unlock(&lock);
    return object != NULL;
}

bool layer_object_is_live(enum layer_kind kind, const void *handle) {
    pthread_mutex_lock(&lock);
    const bool live = *find(kind, handle) != NULL;
    pthread_mutex_unlock(&lock);
    return live;
}

bool layer_object_used(enum layer_kind kind, const void *handle, const char *call) {
    pthread_mutex_lock(&lock);
    const bool live = handle == NULL || *find(kind, handle) != NULL;
    if (!live) note_misuse(kind, call, "that was released");
    pthread_mutex_unlock(&lock);
    return live;
}

void layer_object_counts(struct layer_counts *result) {
    pthread_mutex_lock(&lock);
    *result = counts;
    pthread_mutex_unlock(&lock);
}

static void tell_what_is_left(void) {
    for (int n = 0, told = 0; n < BUCKETS && told < 8; n++)
        for (const struct object *o = buckets[n]; o != NULL && told < 8; o = o->next, told++)
            fprintf(stderr, "OpenCL objects: left: one of the %s, made by %s, %ld references\n",
                    plurals[o->kind], o->made_by, o->references);
}

// A program that fails reports the reason itself.
static void report(int status, void *unused) {
    long all = 0, left = 0;
    (void)unused;
    if (status != 0) return;
    fprintf(stderr, "OpenCL objects:");
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        all += counts.created[kind], left += counts.live[kind];
        fprintf(stderr, " %ld %s,", counts.created[kind], plurals[kind]);
    }
    fprintf(stderr, " %ld counted, %ld left, %ld misused\n", all, left, counts.misused);
    if (counts.misused > 0) fprintf(stderr, "OpenCL objects: misused: %s\n", counts.first_misuse);
    tell_what_is_left();
    fflush(NULL);
    if (left > 0 || counts.misused > 0) _exit(EXIT_LEFT);
}

void layer_object_report_at_exit(void) {
    on_exit(report, NULL);
}
