// device_group.c: see device_group.h.
#include "cli/devices/device_group.h"

#include <math.h>

#include "cli/common/report.h"

static const char *const deals[] = {"auto", "heads", "rows", "keys", "whole", NULL};

static bool take_partition(void *target, const char *value, char why[256]) {
    several_options *o = target;
    o->deal_given = true;
    return option_choice(value, deals, &o->partition, why);
}

option_group several_group(several_options *o) {
    static const option_row rows[] = {
        {"devices", "LIST",
         "devices that share each call, named as --device names one and separated by commas: 0,1; faster "
         "devices get more work",
         AS_TEXT(several_options, devices)},
        {"deal", "NAME", "how the work is partitioned: by heads, rows or keys, whole (not at all) or auto",
         AS_CALL(take_partition)},
    };
    return (option_group){"several devices", OPTION_ROWS(rows), o};
}

static int check_request(const several_options *o, const common_options *common) {
    if (!o->devices && o->deal_given) return tool_wrong("--deal: has no effect without --devices LIST");
    if (o->devices && common->device)
        return tool_wrong("--device: names one device, and --devices %s others: one of both is accepted",
                          o->devices);
    return -1;
}

// Open a session for each name in the list. Sessions must not move, because their contexts log to
// them.
static int open_sessions(several *all, const several_options *o, const common_options *common) {
    char words[512];
    if (strlen(o->devices) >= sizeof words) return tool_wrong("--devices: more than 511 letters");
    strcpy(words, o->devices);
    for (char *word = words, *next; word; word = next) {
        next = strchr(word, ',');
        if (next) *next++ = '\0';
        common_options one = *common;
        one.device = word, one.device_option = "--devices";
        if (!*word) return tool_wrong("--devices %s: a name is empty: 0,1", o->devices);
        if (all->count == SEVERAL_MOST) return tool_wrong("--devices: more than %d of them", SEVERAL_MOST);
        const int status = session_open(&all->sessions[all->count], &one);
        if (status >= 0) return status;
        // The name's memory ends with this function.
        all->sessions[all->count++].options.device = NULL;
    }
    return -1;
}

static clattn_status make_group(several *all, int first, int count, clattn_group **group) {
    clattn_group_member members[SEVERAL_MOST] = {{.max_bytes = 0}};
    for (int n = 0; n < count; n++) members[n].context = all->sessions[first + n].context;
    const clattn_group_params params = {
        .members = members, .count = (size_t)count, .log = session_log(&all->sessions[0])};
    return clattn_group_create(&params, group);
}

int several_open(several *all, const several_options *o, const common_options *common, bool alone) {
    *all = (several){.partition = (clattn_partition)o->partition};
    int status = check_request(o, common);
    if (status < 0) status = open_sessions(all, o, common);
    clattn_status made = status < 0 ? make_group(all, 0, all->count, &all->group) : CLATTN_OK;
    for (int n = 0; alone && status < 0 && n < all->count && made == CLATTN_OK; n++)
        made = make_group(all, n, 1, &all->alone[n]);
    if (made != CLATTN_OK) status = session_status(&all->sessions[0], made);
    if (status >= 0) several_close(all);
    return status;
}

void several_close(several *all) {
    clattn_group_destroy(all->group);
    for (int n = 0; n < all->count; n++) {
        clattn_group_destroy(all->alone[n]);
        session_close(&all->sessions[n]);
    }
    all->group = NULL;
    all->count = 0;
}

clattn_status several_run(several *all, const clattn_attention_params *params) {
    const clattn_group_attention_params call = {.attention = *params, .partition = all->partition};
    return clattn_group_attention(all->group, &call, &all->report, all->shares);
}

clattn_status several_run_backward(several *all, const clattn_attention_backward_params *params) {
    const clattn_group_attention_backward_params call = {.backward = *params, .partition = all->partition};
    return clattn_group_attention_backward(all->group, &call, NULL, NULL);
}

static json_t *share_json(const several *all, int n) {
    const clattn_group_share *x = &all->shares[n];
    const clattn_capabilities *device = all->sessions[n].capabilities;
    return json_pack("{s:s, s:s, s:s, s:f, s:f, s:I, s:I, s:I, s:I, s:i, s:s}", "device", device->name,
                     "platform", device->platform, "driver", device->driver, "share", x->share, "gflops",
                     x->gflops, "time_ns", (json_int_t)x->time_ns, "bytes_in", (json_int_t)x->bytes_in,
                     "bytes_out", (json_int_t)x->bytes_out, "device_bytes", (json_int_t)x->device_bytes,
                     "pieces", x->pieces, "status", clattn_status_name(x->status));
}

static int report_in_json(const several *all, double gflops, uint64_t time_ns, const char *out_file,
                          const expect *e) {
    const clattn_group_report *r = &all->report;
    json_t *devices = json_array();
    for (int n = 0; n < all->count; n++) json_array_append_new(devices, share_json(all, n));
    json_t *j = json_pack("{s:o, s:s, s:i, s:i, s:i, s:s, s:I, s:f, s:o}", "devices", devices, "deal",
                          clattn_partition_name(r->partition), "pieces", r->pieces, "handed", r->handed,
                          "merged", r->merged, "why", r->why, "time_ns", (json_int_t)time_ns, "gflops",
                          gflops, "out", report_text(out_file));
    return report_json(expect_json(e, j));
}

int several_report(const several *all, double flops, uint64_t time_ns, const char *out_file,
                   const expect *e) {
    const double gflops = time_ns ? flops / (double)time_ns : 0.0;
    const session *first = &all->sessions[0];
    if (first->options.quiet) return EXIT_DONE;
    if (first->options.json) return report_in_json(all, gflops, time_ns, out_file, e);
    printable_printf(
        stdout, "%d devices  partitioned by %s  time %.3f ms with compiling, %.1f GFLOP/s  -> %s\n",
        all->count, clattn_partition_name(all->report.partition), (double)time_ns / 1e6, gflops, out_file);
    for (int n = 0; n < all->count; n++) {
        const clattn_group_share *x = &all->shares[n];
        printable_printf(
            stdout, "  %s: %.1f %% of the work, %.3f ms, %.1f GFLOP/s, %.1f MiB to it, %.1f MiB back%s%s\n",
            all->sessions[n].capabilities->name, 100.0 * x->share, (double)x->time_ns / 1e6, x->gflops,
            (double)x->bytes_in / 0x1p20, (double)x->bytes_out / 0x1p20,
            x->status == CLATTN_OK ? "" : "; failed, its work went to others: ",
            x->status == CLATTN_OK ? "" : clattn_status_text(x->status));
    }
    expect_print(e);
    return EXIT_DONE;
}
