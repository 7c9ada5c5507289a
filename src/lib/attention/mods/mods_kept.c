// mods_kept.c: see mods_kept.h. Calls count themselves in the epoch in which they begin. A text
// removed in epoch e may be in use by calls that began in epoch e or before. It is released when
// epoch e + 2 begins, which happens only after all calls of epoch e have ended. So calls need no
// lock to use a text.
#include "attention/mods/mods_kept.h"

#include "attention/mods/mods.h"
#include "attention/call/tensor.h"
#include "base/host.h"

void cla_mods_release_text(const clattn_context *c, mod_text *t) {
    cla_host_release(&c->host, t->score);
    cla_host_release(&c->host, t->mask);
    cla_host_release(&c->host, t->gradient);
    cla_host_release(&c->host, t->inserted);
    cla_host_release(&c->host, t);
}

static void release_list(clattn_context *c, mod_text *list) {
    while (list) {
        mod_text *t = list;
        list = t->next;
        cla_programs_release_taken(c, t->programs);
        cla_mods_release_text(c, t);
    }
}

void cla_mods_release(clattn_context *context) {
    release_list(context, context->mods);
    for (int n = 0; n < 2; n++) release_list(context, context->mods_gone[n]);
    context->mods = context->mods_gone[0] = context->mods_gone[1] = NULL;
}

static bool is_for(const mod_text *t, const clattn_score *s, const char *gradient, bool derived) {
    if (!cla_text_equal(t->score, s->score_mod) || !cla_text_equal(t->mask, s->mask_mod) ||
        t->derived != derived || (!derived && !cla_text_equal(t->gradient, gradient)))
        return false;
    for (int n = 0; n < CLATTN_MOD_BUFFERS; n++) {
        const clattn_tensor *b = &s->mod_buffers[n];
        const int rank = cla_tensor_given(b) ? b->rank : 0;
        if (t->buffers[n].rank != rank || (rank && t->buffers[n].type != b->type)) return false;
    }
    return true;
}

mod_text *cla_mods_find_text(clattn_context *c, const clattn_score *s, const char *gradient, bool derived) {
    mod_text **at = &c->mods;
    while (*at && !is_for(*at, s, gradient, derived)) at = &(*at)->next;
    mod_text *t = *at;
    if (!t || t == c->mods) return t;
    *at = t->next;
    t->next = c->mods;
    return c->mods = t;
}

// Remove the texts after the first MODS_KEPT, except those that a thread is compiling.
static void take_old(clattn_context *c, mod_text **gone) {
    mod_text **at = &c->mods;
    for (int n = 0; *at && n < MODS_KEPT; n++) at = &(*at)->next;
    while (*at) {
        mod_text *t = *at;
        if (cla_programs_take(c, t->inserted, &t->programs)) {
            *at = t->next;
            t->next = *gone;
            *gone = t;
        } else {
            at = &t->next;
        }
    }
}

void cla_mods_keep(clattn_context *c, mod_text *t) {
    mod_text *free_now = NULL;
    cla_os_mutex_lock(&c->program_lock);
    const unsigned epoch = atomic_load(&c->mods_epoch), other = (epoch + 1) & 1u;
    t->next = c->mods;
    c->mods = t;
    take_old(c, &c->mods_gone[epoch & 1u]);
    if (atomic_load(&c->mods_calls[other]) == 0) {
        free_now = c->mods_gone[other];
        c->mods_gone[other] = NULL;
        atomic_store(&c->mods_epoch, epoch + 1);
    }
    cla_os_mutex_unlock(&c->program_lock);
    release_list(c, free_now);
}
