"""Instructions of a warpgroup, which four warps execute together (compute capability 9.0). They are
defined in [PTX ISA], "Asynchronous Warpgroup Level Matrix Instructions":

    "Register Fragments", "Shared Memory Matrix Layout", "Strides", "Canonical Layouts",
    "Matrix Descriptor Format", "wgmma.fence", "wgmma.mma_async", "wgmma.commit_group",
    "wgmma.wait_group"; and "membar, fence" for fence.proxy.async

A product begins with wgmma.mma_async, and its registers have the result once its group was waited
for. Until then its registers must not be accessed, and the shared memory that it reads must not be
written. Registers that other instructions accessed before need a wgmma.fence.
"""
import numpy as np

from ptx_machine import RAW, WARP, operands_of
from ptx_text import NUMBER, REGISTER, VECTOR, PtxError
from ptx_warps import A_COLUMNS, A_ROWS, C_COLUMNS, C_ROWS, fragment, numbers

WARPGROUPS = {}
GROUP_ITEMS = 4 * WARP
# Swizzle modes in bits 62 and 63 of a descriptor: the number of 16-byte pieces in a row of the
# pattern.
PIECES = {0: 1, 1: 8, 2: 4, 3: 2}
T = 8  # 16-bit numbers in 16 bytes


class Descriptor:
    """[PTX ISA] "Matrix Descriptor Format": start, leading and stride byte offset are bits 4 to 17
    of addresses."""

    def __init__(self, bits):
        self.start, self.leading, self.stride = ((bits >> at & 0x3fff) << 4 for at in (0, 16, 32))
        self.base, self.mode = bits >> 49 & 7, bits >> 62
        if bits & ~(0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62):
            raise PtxError(f"descriptor {bits:#x}: bits that mean nothing")
        if self.base:
            raise PtxError(f"descriptor {bits:#x}: patterns that begin elsewhere (base offset) are not known here")

    def places(self, rows, columns, turned):
        """Addresses of a 16-bit matrix with rows (M or N) and columns (K), in bytes: [PTX ISA]
        "Canonical Layouts", the table.

            K-major, not transposed ((8, m), (T, 2 k)) : ((pieces T, stride), (1, T))
                                    without a swizzle: (.., (1, leading))
            MN-major, transposed    ((T, pieces, m), (8, k)) : ((1, T, leading), (pieces T, stride))
                                    without a swizzle: ((1, T, stride), (T, leading))
        """
        n, k = np.arange(rows)[:, None], np.arange(columns)[None, :]
        pieces = PIECES[self.mode]
        if not turned:
            at = n % 8 * 16 * pieces + n // 8 * self.stride + k % T * 2 + k // T * (16 if self.mode else self.leading)
        elif self.mode:
            at = n % T * 2 + n // T % pieces * 16 + n // (T * pieces) * self.leading + k % 8 * 16 * pieces + k // 8 * self.stride
        else:
            at = n % T * 2 + n // T * self.stride + k % 8 * 16 + k // 8 * self.leading
        at = self.start + at
        # Swizzle<b, 4, 3>: bits 4 .. of the address are xored with bits 7 .., using the complete
        # address, so that a matrix may begin inside a pattern. This is inferred: the manual has
        # base offset 0 for patterns that begin at multiples of their size.
        return at ^ (at >> 7 & pieces - 1) << 4


def uniform(values, what):
    if (values != values[0]).any():
        raise PtxError(f"{what} differs within the warpgroup")
    return values[0]


# Asynchronous state of a warpgroup: products of groups that were not waited for, and registers that
# need a fence.
class Begun:
    def __init__(self, registers):
        self.groups, self.open = [], []
        self.stale = set(registers)  # accessed since the last wgmma.fence; initially all

    def registers(self):
        return {r for group in self.groups + [self.open] for product in group for r in product.registers}


def begun_of(m):
    """Returns the state of each warpgroup. From the first such instruction on, all others are
    watched. Earlier instructions make all registers stale."""
    if "wgmma" not in m.asynchronous:
        m.asynchronous["wgmma"] = [Begun(m.bits_of) for _ in range(m.lanes // GROUP_ITEMS)]
        m.watch = lambda ins, mask: watch(m, ins, mask)
    return m.asynchronous["wgmma"]


def touched(operand):
    if operand.kind == VECTOR:
        return {r for x in operand.value for r in touched(x)}
    if operand.kind == "address":
        return touched(operand.value)
    return {operand.value} if operand.kind == REGISTER else set()


def watch(m, ins, mask):
    if ins.name.startswith("wgmma") or "wgmma" not in m.asynchronous:
        return
    registers = {r for x in ins.operands for r in touched(x)} | ({ins.guard[1]} if ins.guard else set())
    lanes = m.chosen(mask)
    for g in np.unique(lanes // GROUP_ITEMS):
        begun = m.asynchronous["wgmma"][g]
        begun.stale |= registers
        if registers & begun.registers():
            raise PtxError(f"touches {sorted(registers & begun.registers())[0]}, which a product that was not waited for has")


class Product:
    """One wgmma.mma_async of one warpgroup, from its start on."""

    def __init__(self, m, group, shape, kind, to, left, right, adds, signs):
        self.m, self.group, self.shape, self.kind = m, group, shape, kind
        self.lanes = slice(GROUP_ITEMS * group, GROUP_ITEMS * (group + 1))
        self.to, self.left, self.right, self.adds, self.signs = to, left, right, adds, signs
        self.accumulators = {x.value for x in to}
        self.inputs = {x.value for x in left}
        self.registers = self.accumulators | self.inputs
        self.before = self._matrices("begins")

    def _matrices(self, what):
        """Reads A and B as they are now."""
        n, right, a = self.shape[1], self.right, np.empty((4, 16, 16))
        gets = [lambda x=x: self.m.registers[x.value][self.lanes].view(np.uint32) for x in self.left]
        a[:, A_ROWS, A_COLUMNS] = fragment(gets, self.kind)
        places = right.places(n, 16, right.turned)
        shared = self.m.shared.load_async(places, 4 * self.group, f"wgmma.mma_async, when it {what}")
        return a.reshape(64, 16), numbers(shared, self.kind)

    def end(self):
        n, m = self.shape[1], self.m
        now = self._matrices("ends")
        if any(x.tobytes() != y.tobytes() for x, y in zip(now, self.before)):
            raise PtxError("a product's A or B changed before it was waited for")
        (a, b), result = now, np.zeros((4, 16, n))
        # d[4 j ..]: the eight columns starting with 8 j, like C of mma
        columns = np.concatenate([C_COLUMNS + 8 * j for j in range(n // 8)], 1)
        rows = np.concatenate([C_ROWS] * (n // 8), 1)
        if self.adds:
            before = np.stack([m.registers[x.value][self.lanes].view(np.float32) for x in self.to], 1)
            result[:, rows, columns] = before.reshape(4, WARP, -1)
        result += (self.signs * (a @ b.T)).reshape(4, 16, n)
        values = result.astype(np.float32)[:, rows, columns].reshape(GROUP_ITEMS, -1)
        for i, x in enumerate(self.to):
            register = m.registers[x.value].copy()
            register[self.lanes] = np.ascontiguousarray(values[:, i]).view(RAW[32])
            m.registers[x.value] = register


def multiply(m, ins, shape, kind):
    """d = scale_a a scale_b b + d, or without d if scale_d is false. imm: scale_a, scale_b, and
    whether b is transposed. a is in registers."""
    to, left, right, adds, *flags = ins.operands
    to = operands_of(to)
    if m.lanes % GROUP_ITEMS:
        raise PtxError("work-groups are of whole warpgroups here")
    if len(to) != shape[1] // 2 or left.kind != VECTOR or len(flags) != 3 or any(x.kind != NUMBER for x in flags):
        raise PtxError("operands of another product")
    scale_a, scale_b, turned = (x.value for x in flags)
    if abs(scale_a) != 1 or abs(scale_b) != 1 or turned not in (0, 1):
        raise PtxError("a scale that is neither 1 nor -1, or a matrix that is neither turned nor not")
    get_right, get_adds = m.reader(right, "u64"), m.reader(adds, "pred")
    for x in (*to, *left.value):
        m.reader(x, "b32")  # rejects anything but a 32-bit register

    def run(mask):
        for g in np.flatnonzero(m.whole_warps(mask, 4, "wgmma.mma_async")):
            lanes, begun = slice(GROUP_ITEMS * g, GROUP_ITEMS * (g + 1)), begun_of(m)[g]
            b, with_d = Descriptor(int(uniform(get_right()[lanes], "a descriptor"))), bool(uniform(get_adds()[lanes], "scale_d"))
            b.turned = bool(turned)
            product = Product(m, g, shape, kind, to, left.value, b, with_d, scale_a * scale_b)
            if product.registers & begun.stale:
                raise PtxError(f"{sorted(product.registers & begun.stale)[0]} was touched, and no wgmma.fence is behind it")
            for other in (x for group in begun.groups + [begun.open] for x in group):
                same = product.accumulators & other.accumulators and product.shape != other.shape
                if same or product.accumulators & other.inputs or product.inputs & other.accumulators:
                    raise PtxError("shares registers with a product that was not waited for")
            begun.open.append(product)
    return run


for k in ("f16", "bf16"):
    WARPGROUPS[f"wgmma.mma_async.sync.aligned.m64n64k16.f32.{k}.{k}"] = lambda m, ins, k=k: multiply(m, ins, (64, 64, 16), k)


def of_groups(name, what):
    """An instruction that all work-items of a warpgroup execute."""
    def make(m, ins):
        def run(mask):
            for g in np.flatnonzero(m.whole_warps(mask, 4, name)):
                what(begun_of(m)[g], ins)
        return run
    WARPGROUPS[name] = make


def commit(begun, ins):
    begun.groups.append(begun.open)
    begun.open = []


def wait(begun, ins):
    most = ins.operands[0].value
    while len(begun.groups) > most:
        for product in begun.groups[0]:
            product.end()
        begun.groups.pop(0)


of_groups("wgmma.fence.sync.aligned", lambda begun, ins: begun.stale.clear())
of_groups("wgmma.commit_group.sync.aligned", commit)
of_groups("wgmma.wait_group.sync.aligned", wait)
for where in ("", ".shared::cta"):
    WARPGROUPS[f"fence.proxy.async{where}"] = lambda m, ins: lambda mask: m.shared.fence(m.chosen(mask))
