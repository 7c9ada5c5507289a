// mpi_faults.c: errors on one rank are reported on all ranks: sizes that differ, an invalid
// argument, a local failure, a truncated message, an error of MPI. The library's MPI calls pass
// through wrappers here, by MPI's profiling interface.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "mpi/mpi_suite.h"

// The fault to inject into the next MPI call of its kind on this rank.
enum { NOTHING, CUT_SHORT, SEND_FAILS, RECEIVE_FAILS, ALLTOALL_FAILS, GATHER_FAILS, REDUCE_FAILS };
static int fault;
long suite_sent;

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request) {
    suite_sent++;
    if (fault == SEND_FAILS) {
        fault = NOTHING;
        return MPI_ERR_INTERN;
    }
    if (fault == CUT_SHORT) count /= 2;
    if (fault == CUT_SHORT) fault = NOTHING;
    return PMPI_Isend(buffer, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    const bool fails = fault == RECEIVE_FAILS;
    if (fails) fault = NOTHING;
    return fails ? MPI_ERR_INTERN : PMPI_Irecv(buffer, count, type, from, tag, comm, request);
}

// A collective call with an injected error still communicates. Otherwise the other ranks would wait
// for it forever.
static int ended(int code, int by) {
    suite_sent++;
    if (fault != by) return code;
    fault = NOTHING;
    return MPI_ERR_INTERN;
}

int MPI_Alltoallv(const void *from, const int *counts, const int *starts, MPI_Datatype type, void *to,
                  const int *to_counts, const int *to_starts, MPI_Datatype to_type, MPI_Comm comm) {
    return ended(PMPI_Alltoallv(from, counts, starts, type, to, to_counts, to_starts, to_type, comm),
                 ALLTOALL_FAILS);
}

int MPI_Allgatherv(const void *from, int count, MPI_Datatype type, void *to, const int *counts,
                   const int *starts, MPI_Datatype to_type, MPI_Comm comm) {
    const int code = PMPI_Allgatherv(from, count, type, to, counts, starts, to_type, comm);
    const bool rows = counts[0] < 256; // a list of segments
    return rows ? code : ended(code, GATHER_FAILS);
}

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
    const int code = PMPI_Allreduce(from, to, count, type, op, comm);
    return from == MPI_IN_PLACE ? ended(code, REDUCE_FAILS) : code;
}

#define ATTEND "attend-f32-b1-h8-n97-nkv97-d32-causal"
#define BACKWARD "backward-f32-b1-h8-n97-nkv97-d32-causal"
#define DECODE "decode-f32-b2-h8-hkv2-n1-nkv300-d64-causal"

void suite_expect(clattn_status got, clattn_status want, const char *says, const char *what) {
    char text[400], why[600];
    clattn_mpi_last_error(suite.world, text, sizeof text);
    snprintf(why, sizeof why, "%s: \"%s\", must say \"%s\"", clattn_status_name(got), text, says);
    suite_check(got == want && strstr(text, says) && !strchr(text, '\n'), what, why);
}

static void open_call(shard *s, clattn_mpi_strategy strategy, const char *name) {
    const shard_call call = {name, SHARD_BLOCKS, SHARD_BLOCKS, strategy, 0, !strcmp(name, DECODE)};
    shard_open(s, &call, suite.rank, suite.ranks);
}

// Arguments that the first exchange refuses, before anything large is sent.
static void wrong_arguments(void) {
    const bool last = suite.rank == suite.ranks - 1;
    char says[64];
    shard s;
    open_call(&s, CLATTN_MPI_RING, ATTEND);
    clattn_mpi_attention_params p = s.params;
    suite_sent = 0;
    if (last) p.q.shape[3] = p.k.shape[3] = 16;
    snprintf(says, sizeof says, "D: rank 0 has 32, rank %d has 16: must be the same", suite.ranks - 1);
    suite_expect(clattn_mpi_attention_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, says,
                 "a size that differs");
    p = s.params;
    if (last) p.score.softcap = 5;
    snprintf(says, sizeof says, "differs from rank 0's on rank %d", suite.ranks - 1);
    suite_expect(clattn_mpi_attention_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, says,
                 "an option that differs");
    p = s.params;
    if (last) p.v.buffer = NULL;
    snprintf(says, sizeof says, "rank %d: v: has no buffer", suite.ranks - 1);
    suite_expect(clattn_mpi_attention_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, says,
                 "a rank that refuses");
    clattn_mpi_segment moved[2] = {{3, s.kv.count}, {0, 0}};
    p = s.params;
    if (last) p.kv_rows = (clattn_mpi_rows){moved, 2};
    suite_expect(clattn_mpi_attention_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, "kv_rows: row",
                 "rows that overlap");
    p = s.params;
    if (last) p.q.stride[2] = (int64_t)1 << 40; // past its buffer: found by the library's own check
    snprintf(says, sizeof says, "rank %d: q", suite.ranks - 1);
    suite_expect(clattn_mpi_attention_run(suite.world, &p, NULL), CLATTN_INVALID_ARGUMENT, says,
                 "a rank whose library refuses");
    suite_check(suite_sent == 0, "a call that is refused", "has sent something large");
    shard_close(&s);
}

static void refused(const shard *s, clattn_status want, const char *says, const char *what,
                    void (*spoil)(clattn_mpi_attention_backward_params *b, bool last)) {
    clattn_mpi_attention_backward_params b = s->backward;
    spoil(&b, suite.rank == suite.ranks - 1);
    suite_expect(clattn_mpi_attention_backward_run(suite.world, &b, NULL), want, says, what);
}

static void without_dout(clattn_mpi_attention_backward_params *b, bool last) {
    if (last) b->dout.rank = 0;
}
static void without_lse(clattn_mpi_attention_backward_params *b, bool last) {
    (void)last;
    b->forward.lse = (clattn_tensor){0};
}
static void another_type(clattn_mpi_attention_backward_params *b, bool last) {
    if (last) b->dq.type = CLATTN_TYPE_BF16;
}
static void another_shape(clattn_mpi_attention_backward_params *b, bool last) {
    if (last) b->dk.shape[1] = 3;
}
static void without_sinks(clattn_mpi_attention_backward_params *b, bool last) {
    (void)last;
    b->dsinks = (clattn_tensor){.buffer = b->dq.buffer, .rank = 1, .shape = {8}, .stride = {1}};
}
static void by_gather(clattn_mpi_attention_backward_params *b, bool last) {
    (void)last;
    b->forward.strategy = CLATTN_MPI_ALL_GATHER;
}
static void by_kernel(clattn_mpi_attention_backward_params *b, bool last) {
    (void)last;
    b->forward.kernel = CLATTN_KERNEL_FLASH;
}
static void nothing(clattn_mpi_attention_backward_params *b, bool last) {
    (void)last;
    b->dq.rank = b->dk.rank = b->dv.rank = 0;
}

static void wrong_gradients(void) {
    shard s;
    open_call(&s, CLATTN_MPI_RING, BACKWARD);
    suite_sent = 0;
    refused(&s, CLATTN_INVALID_ARGUMENT, "dout: is absent", "no dout", without_dout);
    refused(&s, CLATTN_INVALID_ARGUMENT, "lse: is absent", "no lse", without_lse);
    refused(&s, CLATTN_INVALID_ARGUMENT, "a type of them: differs", "a type that differs", another_type);
    refused(&s, CLATTN_INVALID_ARGUMENT, "dk: size 3 of axis 1: k has 8", "a shape", another_shape);
    refused(&s, CLATTN_INVALID_ARGUMENT, "dsinks: is asked for without sinks", "no sinks", without_sinks);
    refused(&s, CLATTN_UNSUPPORTED, "all_gather: is not built for gradients", "a strategy", by_gather);
    refused(&s, CLATTN_UNSUPPORTED, "kernel: has no gradient", "a kernel", by_kernel);
    refused(&s, CLATTN_INVALID_ARGUMENT, "no gradient is asked for", "nothing", nothing);
    suite_expect(clattn_mpi_attention_backward_run(suite.world, NULL, NULL), CLATTN_INVALID_ARGUMENT,
                 "params: is NULL", "no params");
    suite_check(suite_sent == 0, "gradients that are refused", "have sent something large");
    shard_close(&s);
}

// Rates passed on only one rank are an error, because that rank would not take part in the
// measurement.
static void rates_that_differ(void) {
    for (int who = 0; who < 2; who++) {
        const bool given = suite.rank == (who ? suite.ranks - 1 : 0);
        const clattn_mpi_params params = {.comm = MPI_COMM_WORLD,
                                          .context = harness()->context,
                                          .queue = harness()->queue,
                                          .link_bytes_per_second = given ? 1e9 : 0,
                                          .link_seconds = given ? 1e-6 : 0,
                                          .flops_per_second = given ? 1e11 : 0,
                                          .call_seconds = given ? 1e-5 : 0};
        clattn_mpi *world = NULL;
        const clattn_status got = clattn_mpi_create(&params, &world);
        suite_check(got == CLATTN_INVALID_ARGUMENT && !world, "rates that differ", clattn_status_name(got));
        clattn_mpi_destroy(world);
    }
}

// Inject one fault on one rank, then make the same call without a fault.
static void failing(int which, clattn_mpi_strategy strategy, const char *name, const char *says,
                    const char *what) {
    const int rank = which == RECEIVE_FAILS ? suite.ranks - 1 : (suite.ranks - 1) / 2;
    shard s;
    open_call(&s, strategy, name);
    for (int n = 0; n < 2; n++) {
        fault = n == 0 && suite.rank == rank ? which : NOTHING;
        const clattn_status got = shard_run(suite.world, &s, !strcmp(name, DECODE), NULL);
        if (n == 0)
            suite_expect(got, CLATTN_DRIVER, says, what);
        else
            suite_expect(got, CLATTN_OK, "", what); // the next call
        suite_check(fault == NOTHING, what, "the call was not made");
        fault = NOTHING;
    }
    shard_close(&s);
}

void suite_faults(void) {
    if (suite.ranks == 1) return;
    wrong_arguments();
    wrong_gradients();
    rates_that_differ();
    failing(CUT_SHORT, CLATTN_MPI_RING, ATTEND, "bytes from rank", "a message cut short");
    failing(SEND_FAILS, CLATTN_MPI_RING, ATTEND, "MPI_Isend: MPI_ERR_INTERN", "a message that is not sent");
    failing(RECEIVE_FAILS, CLATTN_MPI_RING, ATTEND, "MPI_Irecv: MPI_ERR_INTERN",
            "a message that is not received");
    failing(GATHER_FAILS, CLATTN_MPI_ALL_GATHER, ATTEND, "MPI_Allgatherv: MPI_ERR_INTERN",
            "an all-gather that fails");
    failing(REDUCE_FAILS, 0, DECODE, "MPI_Allreduce: MPI_ERR_INTERN", "an allreduce that fails");
    if (8 % suite.ranks == 0)
        failing(ALLTOALL_FAILS, CLATTN_MPI_ALL_TO_ALL, ATTEND, "MPI_Alltoallv: MPI_ERR_INTERN",
                "an all-to-all that fails");
    failing(CUT_SHORT, CLATTN_MPI_RING, BACKWARD, "bytes from rank", "gradients: a message cut short");
    failing(SEND_FAILS, CLATTN_MPI_RING, BACKWARD, "MPI_Isend: MPI_ERR_INTERN",
            "gradients that are not sent");
    failing(RECEIVE_FAILS, CLATTN_MPI_RING, BACKWARD, "MPI_Irecv: MPI_ERR_INTERN",
            "gradients that are not received");
    if (8 % suite.ranks == 0)
        failing(ALLTOALL_FAILS, CLATTN_MPI_ALL_TO_ALL, BACKWARD, "MPI_Alltoallv: MPI_ERR_INTERN",
                "gradients: an all-to-all that fails");
}
