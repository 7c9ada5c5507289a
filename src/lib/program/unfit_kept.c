// unfit_kept.c: failed builds in the cache, and the list that applications see. One cache entry has
// all failed builds of a device with its driver and this version, as lines of text. A line applies
// only to the kernel source whose hash it has.
#include "program/unfit_list.h"

#include <stdio.h>
#include <string.h>

#include "base/host.h"

#define FIRST_LINE "unfit kernels 1\n"
#define MOST_KEPT 64
#define MOST_LINE 2048
#define FIELDS 8

static void kept_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    cla_identity_key(&c->capabilities, c->cpu_model, FIRST_LINE, sizeof FIRST_LINE, key);
}

static uint64_t source_hash(enum kernel_id id) {
    return cla_unfit_hash(clattn_kernel_sources[id].text, clattn_kernel_sources[id].bytes);
}

// A line has tab-terminated fields: kernel, hash of its source, step, code, hash of the inserted
// text, options, knobs, log line.
static int print_mark(const unfit_mark *m, char line[MOST_LINE]) {
    char own[PROGRAM_MOST_OPTIONS];
    if (!cla_knobs_print(&m->knobs, own, sizeof own)) return 0;
    const int put =
        snprintf(line, MOST_LINE, "%s\t%016llx\t%d\t%d\t%016llx\t%s\t%s\t%s\t\n",
                 clattn_kernel_sources[m->id].name, (unsigned long long)source_hash(m->id), (int)m->step,
                 (int)m->code, (unsigned long long)m->inserted, m->options, own, m->line);
    return put > 0 && put < MOST_LINE ? put : 0;
}

static bool parse_knobs(const char *text, knobs *k) {
    while (*text) {
        char name[64] = "";
        int value;
        const char *end = strchr(text, '=');
        if (strncmp(text, "-D", 2) || !end || (size_t)(end - text) >= sizeof name) return false;
        memcpy(name, text + 2, (size_t)(end - text) - 2);
        text = end + 1;
        if (!cla_text_count(&text, &value) || !cla_knobs_set(k, name, value)) return false;
        text += *text == ' ';
    }
    return true;
}

// OpenCL's error codes are negative.
static bool parse_code(const char *text, cl_int *code) {
    const bool negative = *text == '-';
    int value;
    text += negative;
    if (!cla_text_count(&text, &value)) return false;
    *code = negative ? -value : value;
    return true;
}

static uint64_t parse_hash(const char *text) {
    static const char digits[] = "0123456789abcdef";
    uint64_t hash = 0;
    for (const char *at; *text && (at = strchr(digits, *text)) != NULL; text++)
        hash = hash << 4 | (uint64_t)(at - digits);
    return hash;
}

// False for a kernel whose source has changed since, so the kernel is tried again.
static bool parse_fields(const char *const field[FIELDS], unfit_mark *m) {
    int id = 0, step;
    const char *text = field[2];
    while (id < KERNEL_COUNT && strcmp(clattn_kernel_sources[id].name, field[0])) id++;
    if (id == KERNEL_COUNT || parse_hash(field[1]) != source_hash((enum kernel_id)id)) return false;
    if (!cla_text_count(&text, &step) || step > UNFIT_INFO) return false;
    m->id = (enum kernel_id)id;
    m->step = (unfit_step)step;
    m->inserted = parse_hash(field[4]);
    m->kept = true;
    snprintf(m->line, sizeof m->line, "%s", field[7]);
    return parse_code(field[3], &m->code) && parse_knobs(field[6], &m->knobs);
}

// Parse one line in place. NULL if it is malformed, or if there is no memory.
static unfit_mark *parse_line(const clattn_host_memory *host, char *line) {
    const char *field[FIELDS];
    for (int i = 0; i < FIELDS; i++) {
        field[i] = line;
        line += strcspn(line, "\t");
        if (*line != '\t') return NULL;
        *line++ = '\0';
    }
    bool ok = true;
    unfit_mark *m = cla_host_take_zeroed(host, 1, sizeof *m);
    if (!m) return NULL;
    m->options = cla_text_copy(host, field[5], &ok);
    if (ok && parse_fields(field, m)) return m;
    cla_unfit_release(host, m);
    return NULL;
}

static void add_kept(clattn_context *c, unfit_mark *m) {
    const unfit_mark *old = c->unfit->marks;
    while (old && (old->owner || !cla_unfit_same(old, m))) old = old->next;
    if (old)
        cla_unfit_release(&c->host, m);
    else
        cla_unfit_add(c->unfit, m);
}

void cla_unfit_load(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *bytes = NULL;
    size_t count = 0;
    kept_key(c, key);
    if (!cla_cache_load(c->cache, key, &bytes, &count)) return;
    char *text = cla_host_take_zeroed(&c->host, count + 1, 1);
    if (text) memcpy(text, bytes, count);
    cla_host_release(&c->host, bytes);
    if (!text) return;
    cla_os_mutex_lock(&c->unfit->lock);
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        unfit_mark *m = parse_line(&c->host, line);
        if (m) add_kept(c, m);
    }
    cla_os_mutex_unlock(&c->unfit->lock);
    cla_host_release(&c->host, text);
}

void cla_unfit_keep(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    char *text = c->cache ? cla_host_take(&c->host, (MOST_KEPT + 1) * MOST_LINE) : NULL;
    if (!text) return;
    cla_unfit_load(c);
    size_t used = (size_t)snprintf(text, MOST_LINE, "%s", FIRST_LINE);
    int lines = 0;
    cla_os_mutex_lock(&c->unfit->lock);
    for (unfit_mark *m = c->unfit->marks; m && lines < MOST_KEPT; m = m->next) {
        const int put = m->owner || m->step > UNFIT_INFO ? 0 : print_mark(m, text + used);
        used += (size_t)put, lines += put > 0;
        m->kept |= put > 0;
    }
    cla_os_mutex_unlock(&c->unfit->lock);
    kept_key(c, key);
    cla_cache_store(c->cache, key, text, used);
    cla_host_release(&c->host, text);
}

// Overwrite an existing entry with an empty list, because an application's cache has no way to
// delete.
void cla_unfit_forget(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *bytes = NULL;
    size_t count = 0;
    kept_key(c, key);
    if (cla_cache_load(c->cache, key, &bytes, &count) && count > sizeof FIRST_LINE)
        cla_cache_store(c->cache, key, FIRST_LINE, strlen(FIRST_LINE));
    cla_host_release(&c->host, bytes);
    cla_unfit_clear(c->unfit);
}

static void fill(const unfit_mark *m, clattn_unfit *to) {
    *to = (clattn_unfit){
        .code = (int)m->code, .work_group = m->work_group, .smaller = m->smaller, .kept = m->kept};
    snprintf(to->kernel, sizeof to->kernel, "%s", clattn_kernel_sources[m->id].name);
    snprintf(to->step, sizeof to->step, "%s", cla_unfit_steps[m->step]);
    snprintf(to->line, sizeof to->line, "%s", m->line);
    const size_t used = (size_t)snprintf(to->options, sizeof to->options / 2, "%s ", m->options);
    if (used < sizeof to->options / 2)
        (void)cla_knobs_print(&m->knobs, to->options + used, sizeof to->options - used);
}

clattn_status clattn_context_unfit(clattn_context *context, clattn_unfit *kernels, size_t capacity,
                                   size_t *count) {
    if (count) *count = 0;
    if (!context) return CLATTN_INVALID_ARGUMENT;
    if (!count || (capacity && !kernels))
        return cla_context_fail(context, CLATTN_INVALID_ARGUMENT, "%s: is NULL", count ? "kernels" : "count");
    cla_os_mutex_lock(&context->unfit->lock);
    for (const unfit_mark *m = context->unfit->marks; m; m = m->next) {
        // Skip marks of a running call, and late kernels, which have not failed.
        if (m->owner || m->step == UNFIT_LATE) continue;
        if (*count < capacity) fill(m, &kernels[*count]);
        ++*count;
    }
    cla_os_mutex_unlock(&context->unfit->lock);
    return CLATTN_OK;
}
