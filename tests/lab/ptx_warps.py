"""Instructions that a warp executes together, and asynchronous ones, by their complete names. [PTX
ISA]: "shfl.sync"; "ldmatrix"; "mma" with "Matrix Fragments for mma.m16n8k16 with floating point
type"; "cp.async", "cp.async.commit_group", "cp.async.wait_group". Instructions of a warpgroup are
in ptx_warpgroups.py."""
import numpy as np

from ptx_machine import WARP, operands_of
from ptx_plain import from_bf16
from ptx_text import NUMBER, SINK, PtxError

WARPS = {}
LANE = np.arange(WARP)
GROUP, THREAD = LANE // 4, LANE % 4  # groupID and threadID_in_group of the figures

# Elements of a work-item's fragment, lowest bits first: rows and columns, [32][elements]. A has a0
# .. a7: a0 and a1 in row groupID, a2 and a3 eight rows below, and the other four eight columns to
# the right. B has b0 .. b3: two neighbouring rows, then eight below. C has c0 .. c3.
A_ROWS = np.stack([GROUP + 8 * (i // 2 % 2) for i in range(8)], 1)
A_COLUMNS = np.stack([2 * THREAD + i % 2 + 8 * (i // 4) for i in range(8)], 1)
B_ROWS = np.stack([2 * THREAD + i % 2 + 8 * (i // 2) for i in range(4)], 1)
B_COLUMNS = np.stack([GROUP] * 4, 1)
C_ROWS = np.stack([GROUP + 8 * (i // 2) for i in range(4)], 1)
C_COLUMNS = np.stack([2 * THREAD + i % 2 for i in range(4)], 1)


def numbers(words, kind):
    """16-bit words, in double precision."""
    return (words.view(np.float16) if kind == "f16" else from_bf16(words)).astype(np.float64)


def fragment(get, kind):
    """The two numbers of each register, [warp][lane][element]."""
    words = np.stack([g() for g in get], 1)
    return numbers(words.view(np.uint16), kind).reshape(-1, WARP, 2 * len(get))


def mma(m, ins, kind):
    """d = a b + c. The order of the sum is unspecified. Here it is computed in double precision,
    and rounded once."""
    to, a, b, c = (operands_of(x) for x in ins.operands)
    if (len(to), len(a), len(b), len(c)) != (4, 4, 2, 4):
        raise PtxError("other fragments than of m16n8k16")
    put, of_a, of_b = [m.writer(x) for x in to], [m.reader(x, "b32") for x in a], [m.reader(x, "b32") for x in b]
    of_c, warps = [m.reader(x, "f32") for x in c], m.lanes // WARP

    def run(mask):
        m.whole_warps(mask, 1, "mma.sync")
        left, right, sums = np.empty((warps, 16, 16)), np.empty((warps, 16, 8)), np.empty((warps, 16, 8))
        left[:, A_ROWS, A_COLUMNS] = fragment(of_a, kind)
        right[:, B_ROWS, B_COLUMNS] = fragment(of_b, kind)
        sums[:, C_ROWS, C_COLUMNS] = np.stack([g() for g in of_c], 1).reshape(warps, WARP, 4)
        result = (left @ right + sums).astype(np.float32)[:, C_ROWS, C_COLUMNS].reshape(m.lanes, 4)
        for i, p in enumerate(put):
            p(np.ascontiguousarray(result[:, i]), mask)
    return run


for k in ("f16", "bf16"):
    WARPS[f"mma.sync.aligned.m16n8k16.row.col.f32.{k}.{k}.f32"] = lambda m, ins, k=k: mma(m, ins, k)


def ldmatrix(m, ins, count, turned):
    """Matrices of 8 x 8 16-bit numbers. Work-item n has the address of row n % 8 of matrix n / 8.
    It receives numbers 2 threadID and the next from row groupID of each matrix, or of the
    transposed matrix with .trans."""
    put, at = [m.writer(x) for x in operands_of(ins.operands[0])], m.address(ins.operands[1])
    if len(put) != count:
        raise PtxError(f"{len(put)} registers")

    def run(mask):
        whole = m.whole_warps(mask, 1, "ldmatrix")
        lanes = np.flatnonzero((m.lane % WARP < 8 * count) & whole[m.warp])
        rows = m.shared.load(at()[lanes], 16, m.warp[lanes], "ldmatrix").view(np.uint16)
        matrices = np.zeros((m.lanes // WARP, count, 8, 8), np.uint16)
        matrices[whole] = rows.reshape(-1, count, 8, 8)
        if turned:
            matrices = matrices.swapaxes(2, 3)
        for i, p in enumerate(put):
            low, up = matrices[:, i, GROUP, 2 * THREAD], matrices[:, i, GROUP, 2 * THREAD + 1]
            p((low.astype(np.uint32) | up.astype(np.uint32) << np.uint32(16)).ravel(), mask)
    return run


for n in (1, 2, 4):
    for way in ("", ".trans"):
        WARPS[f"ldmatrix.sync.aligned.m8n8.x{n}{way}.shared.b16"] = lambda m, ins, a=(n, way != ""): ldmatrix(m, ins, *a)


def partner(mode, lane, b, c):
    """Returns (the source work-item, whether it exists)."""
    clamp, segment = c & 31, c >> 8 & 31
    most, least = (lane & segment) | (clamp & ~segment & 31), lane & segment
    if mode == "up":
        j = lane - b
        return j, j >= most
    j = {"bfly": lane ^ b, "down": lane + b, "idx": least | (b & ~segment & 31)}[mode]
    return j, j <= most


def shuffle(m, ins, mode):
    to, *found = ins.operands[:-4]
    get, of_b, of_c = (m.reader(x, kind) for x, kind in zip(ins.operands[-4:-1], ("b32", "u32", "u32")))
    put, say, members = m.writer(to), m.writer(found[0]) if found and found[0].kind != SINK else None, ins.operands[-1]
    if members.kind != NUMBER or members.value & 0xffffffff != 0xffffffff:
        raise PtxError("whole warps are all that is known here")

    def run(mask):
        m.whole_warps(mask, 1, "shfl.sync")
        lane = m.lane % WARP
        j, there = partner(mode, lane, (of_b() & np.uint32(31)).astype(np.int64), of_c().astype(np.int64))
        j = np.where(there, j, lane)
        put(get()[m.lane - lane + j], mask)
        if say:
            say(there, mask)
    return run


for way in ("bfly", "up", "down", "idx"):
    WARPS[f"shfl.sync.{way}.b32"] = lambda m, ins, way=way: shuffle(m, ins, way)


# Pending copies of a machine: [numbers of work-items, their groups, addresses, rows of bytes].
def copies_of(m):
    return m.asynchronous.setdefault("copies", [])


def groups_of(m):
    return m.asynchronous.setdefault("groups", np.zeros(m.lanes, np.int64))


def copy(m, ins, sizes):
    """The first src-size of `size` bytes are copied, and the others are 0. With src-size 0 nothing
    is read. This is inferred: the manual says that the other bytes are 0, and nothing about their
    addresses. The bytes arrive when they are waited for."""
    to, source, size = m.address(ins.operands[0]), m.address(ins.operands[1]), ins.operands[2].value
    if ins.operands[2].kind != NUMBER or size not in sizes or len(ins.operands) > 4:
        raise PtxError("other sizes or cache policies than are known here")
    count = m.reader(ins.operands[3], "u32") if len(ins.operands) == 4 else lambda: np.full(m.lanes, size, np.uint32)

    def run(mask):
        lanes = m.chosen(mask)
        at, places, counts = to()[lanes], source()[lanes], count()[lanes]
        if counts.max(initial=0) > size:
            raise PtxError(f"a source of {counts.max()} bytes for {size}")
        if (places % np.uint64(size)).any():
            raise PtxError("source is not aligned")
        rows = np.zeros((len(lanes), size), np.uint8)
        for n in np.unique(counts[counts > 0]):
            chosen = counts == n
            step = int(n & -n)  # bytes at once, so that they are aligned
            for begin in range(0, int(n), step):
                rows[chosen, begin:begin + step] = m.buffers.load(places[chosen] + np.uint64(begin), step, "cp.async")
        m.shared.begin_copy(at, size, m.warp[lanes], "cp.async")
        copies_of(m).append([lanes, groups_of(m)[lanes], at, rows])
    return run


def finish(m, mask, most):
    """Complete the copies of all groups except the last `most` of a work-item; of all groups if
    most is -1."""
    waits = np.zeros(m.lanes, bool)
    waits[m.chosen(mask)] = True
    left = []
    for lanes, group, at, rows in copies_of(m):
        done = waits[lanes] & ((most < 0) | (group < groups_of(m)[lanes] - most))
        if done.any():
            m.shared.end_copy(at[done], rows[done], m.warp[lanes[done]], lanes[done], "cp.async")
        if not done.all():
            left.append([x[~done] for x in (lanes, group, at, rows)])
    m.asynchronous["copies"] = left


def commit(m, mask):
    groups_of(m)[m.chosen(mask)] += 1


WARPS["cp.async.cg.shared.global"] = lambda m, ins: copy(m, ins, (16,))
WARPS["cp.async.ca.shared.global"] = lambda m, ins: copy(m, ins, (4, 8, 16))
WARPS["cp.async.commit_group"] = lambda m, ins: lambda mask: commit(m, mask)
WARPS["cp.async.wait_all"] = lambda m, ins: lambda mask: finish(m, mask, -1)
WARPS["cp.async.wait_group"] = lambda m, ins: lambda mask: finish(m, mask, ins.operands[0].value)
