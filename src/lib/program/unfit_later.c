// unfit_later.c: kernels that plans avoid for a time, without a failure. Their builds continue
// behind calls, or they are large and this is the first call on an unknown driver.
#include "program/unfit_list.h"

#include "base/host.h"

bool cla_unfit_late(clattn_context *c, const program_spec *spec) {
    const unfit_failure late = {.spec = spec, .step = UNFIT_LATE};
    unfit_mark *m = cla_unfit_make(c, &late);
    if (!m) return false;
    m->owner = NULL;
    cla_os_mutex_lock(&c->unfit->lock);
    cla_unfit_add(c->unfit, m);
    cla_os_mutex_unlock(&c->unfit->lock);
    return true;
}

void cla_unfit_ready(clattn_context *c, const program_spec *spec) {
    const unfit_mark key = cla_unfit_key(spec);
    unfit_mark *gone = NULL;
    cla_os_mutex_lock(&c->unfit->lock);
    unfit_mark **at = &c->unfit->marks;
    while (*at && !((*at)->step == UNFIT_LATE && cla_unfit_same(*at, &key))) at = &(*at)->next;
    if (*at) gone = *at, *at = gone->next, gone->next = NULL;
    cla_unfit_count(c->unfit);
    cla_os_mutex_unlock(&c->unfit->lock);
    cla_unfit_release(&c->host, gone);
}

void cla_unfit_pass(clattn_context *c, const void *thread) {
    cla_os_mutex_lock(&c->unfit->lock);
    for (unfit_mark *m = c->unfit->marks; m; m = m->next)
        if (m->owner == cla_unfit_thread()) m->owner = thread;
    cla_os_mutex_unlock(&c->unfit->lock);
}

bool cla_unfit_plans_changed(const clattn_context *c) {
    return atomic_load_explicit(&c->unfit->changed, memory_order_relaxed);
}

static void first_key(const clattn_context *c, uint8_t key[CACHE_KEY_BYTES]) {
    static const char what[] = "a call ran on this driver";
    cla_identity_key(&c->capabilities, c->cpu_model, what, sizeof what, key);
}

void cla_unfit_begin_first(clattn_context *c) {
    uint8_t key[CACHE_KEY_BYTES];
    unsigned char *bytes = NULL;
    size_t count = 0;
    first_key(c, key);
    const bool was = cla_cache_load(c->cache, key, &bytes, &count);
    cla_host_release(&c->host, bytes);
    atomic_store(&c->unfit->first, was ? FIRST_OVER : FIRST_COMES);
}

void cla_unfit_end_first(clattn_context *c, bool any) {
    uint8_t key[CACHE_KEY_BYTES];
    const int first = atomic_load_explicit(&c->unfit->first, memory_order_relaxed);
    if (first == FIRST_OVER || (first == FIRST_COMES && !any)) return;
    atomic_store(&c->unfit->first, FIRST_OVER);
    if (first == FIRST_COMES) return;
    first_key(c, key);
    cla_cache_store(c->cache, key, "", 0);
}
