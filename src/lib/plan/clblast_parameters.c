// clblast_parameters.c: see clblast_parameters.h. CLBlast's documentation of its tuners lists the
// divisibility rules. Each rule makes a loop or vector of its kernels come out even.
#include "plan/clblast_parameters.h"

#include <stddef.h>
#include <string.h>

enum { GEMMK, KREG, KWG, KWI, MDIMA, MDIMC, MWG, NDIMB, NDIMC, NWG, SA, SB, STRM, STRN, VWM, VWN };
enum { KWID, MDIMAD, MDIMCD, NDIMBD, NDIMCD, PADA, PADB, VWMD, VWND, WGD };

const clblast_kernel cla_clblast_kernels[CLBLAST_KERNELS] = {
    [CLBLAST_XGEMM] = {"clblast_xgemm",
                       "Xgemm",
                       16,
                       {"GEMMK", "KREG", "KWG", "KWI", "MDIMA", "MDIMC", "MWG", "NDIMB", "NDIMC", "NWG", "SA",
                        "SB", "STRM", "STRN", "VWM", "VWN"}},
    [CLBLAST_XGEMM_DIRECT] = {"clblast_xgemm_direct",
                              "XgemmDirect",
                              10,
                              {"KWID", "MDIMAD", "MDIMCD", "NDIMBD", "NDIMCD", "PADA", "PADB", "VWMD", "VWND",
                               "WGD"}},
    [CLBLAST_ROUTINE] = {"clblast_gemm", "GemmRoutine", 1, {"XGEMM_MIN_INDIRECT_SIZE"}}};

int cla_clblast_kernel_of(const char *word) {
    int i = 0;
    while (i < CLBLAST_KERNELS && strcmp(word, cla_clblast_kernels[i].word) != 0) i++;
    return i;
}

int cla_clblast_parameter_of(int kernel, const char *name) {
    for (int i = 0; i < cla_clblast_kernels[kernel].count; i++)
        if (!strcmp(name, cla_clblast_kernels[kernel].names[i])) return i;
    return -1;
}

static bool is_switch(int x) {
    return x == 0 || x == 1;
}
static bool is_size(int x) {
    return x >= 1 && x <= 1024;
}
static bool is_vector(int x) {
    return x == 1 || x == 2 || x == 4 || x == 8;
}
static bool divides(int part, int whole) {
    return part > 0 && whole % part == 0;
}

static const char *refuse_xgemm(const int v[]) {
    static const int sizes[] = {KWG, KWI, MDIMA, MDIMC, MWG, NDIMB, NDIMC, NWG};
    const char *const wrong = "asks for parameters of which one does not divide another as Xgemm needs it";
    if (v[GEMMK] != 0 || v[KREG] != 1) return "asks for a GEMMK other than 0 or a KREG other than 1";
    if (!is_switch(v[SA]) || !is_switch(v[SB]) || !is_switch(v[STRM]) || !is_switch(v[STRN]))
        return "asks for SA, SB, STRM or STRN that is neither 0 nor 1";
    if (!is_vector(v[VWM]) || !is_vector(v[VWN])) return "asks for VWM or VWN that is none of 1, 2, 4, 8";
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!is_size(v[sizes[i]])) return "asks for a size that is not 1 to 1024";
    const int group = v[MDIMC] * v[NDIMC];
    if (!divides(v[KWI], v[KWG]) || !divides(v[MDIMC] * v[VWM], v[MWG]) ||
        !divides(v[NDIMC] * v[VWN], v[NWG]) || !divides(v[MDIMA] * v[VWM], v[MWG]) ||
        !divides(v[NDIMB] * v[VWN], v[NWG]))
        return wrong;
    if (!divides(v[MDIMA], group) || !divides(v[NDIMB], group)) return wrong;
    return divides(group / v[MDIMA], v[KWG]) && divides(group / v[NDIMB], v[KWG]) ? NULL : wrong;
}

static const char *refuse_direct(const int v[]) {
    static const int sizes[] = {KWID, MDIMAD, MDIMCD, NDIMBD, NDIMCD, WGD};
    const char *const wrong =
        "asks for parameters of which one does not divide another as XgemmDirect needs it";
    if (!is_switch(v[PADA]) || !is_switch(v[PADB])) return "asks for PADA or PADB that is neither 0 nor 1";
    if (!is_vector(v[VWMD]) || !is_vector(v[VWND])) return "asks for VWMD or VWND that is none of 1, 2, 4, 8";
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!is_size(v[sizes[i]])) return "asks for a size that is not 1 to 1024";
    const int group = v[MDIMCD] * v[NDIMCD], whole = v[WGD];
    if (!divides(v[KWID], whole) || !divides(v[MDIMCD] * v[VWMD], whole) ||
        !divides(v[NDIMCD] * v[VWND], whole) || !divides(v[MDIMAD] * v[VWMD], whole) ||
        !divides(v[NDIMBD] * v[VWND], whole))
        return wrong;
    if (!divides(v[MDIMAD], group) || !divides(v[NDIMBD], group)) return wrong;
    return divides(group / v[MDIMAD], whole) && divides(group / v[NDIMBD], whole) ? NULL : wrong;
}

const char *cla_clblast_refusal(int kernel, const int values[CLBLAST_MOST_PARAMETERS]) {
    for (int i = 0; i < cla_clblast_kernels[kernel].count; i++)
        if (values[i] < 0) return "does not give every parameter of CLBlast's kernel";
    if (kernel == CLBLAST_XGEMM) return refuse_xgemm(values);
    return kernel == CLBLAST_XGEMM_DIRECT ? refuse_direct(values) : NULL;
}

bool cla_clblast_fits(int kernel, const int v[CLBLAST_MOST_PARAMETERS], uint64_t work_group,
                      uint64_t local_bytes) {
    uint64_t group = 1, bytes = 0;
    if (kernel == CLBLAST_XGEMM) {
        group = (uint64_t)v[MDIMC] * (uint64_t)v[NDIMC];
        bytes = 4 * (uint64_t)v[KWG] * (uint64_t)(v[SA] * v[MWG] + v[SB] * v[NWG]);
    } else if (kernel == CLBLAST_XGEMM_DIRECT) {
        group = (uint64_t)v[MDIMCD] * (uint64_t)v[NDIMCD];
        bytes = 4 * (uint64_t)v[WGD] * (uint64_t)(2 * v[WGD] + v[PADA] + v[PADB]);
    }
    return group <= work_group && bytes <= local_bytes;
}
