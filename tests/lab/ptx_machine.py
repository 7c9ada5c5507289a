"""Executes a kernel of ptx_text.py: a whole work-group at once, with a numpy vector over its
work-items for each register.

Each work-item has its own next instruction. The work-items at the lowest one run first, so that
diverged paths meet again where they join. At an instruction of a whole warp or warpgroup they wait
for its other work-items, and at a barrier for all that have not ended. The files ptx_plain,
ptx_warps and ptx_warpgroups implement the instructions, by name. An unknown one is an error.
"""
import numpy as np

import ptx_memory
from ptx_text import ADDRESS, FLOAT, NUMBER, REGISTER, SINK, SPECIAL, SYMBOL, VECTOR, PtxError

WARP = 32
MOST_STEPS = 10_000_000  # of a work-group; more is an endless loop
RAW = {1: np.dtype(bool), 8: np.dtype("u1"), 16: np.dtype("u2"), 32: np.dtype("u4"), 64: np.dtype("u8")}
TYPES = {"pred": np.dtype(bool),
         **{f"{kind}{bits}": np.dtype(f"{'i' if kind == 's' else 'u'}{bits // 8}") for kind in "bus" for bits in (8, 16, 32, 64)},
         "f16": np.dtype("f2"), "f32": np.dtype("f4"), "f64": np.dtype("f8")}
np.seterr(all="ignore")


class Machine:
    """groups: number of work-groups, in three dimensions. apart: each warp runs alone from barrier
    to barrier, the last first."""

    def __init__(self, kernel, instructions, lanes, groups, arguments, buffers, apart=False):
        self.kernel, self.lanes, self.buffers = kernel, lanes, buffers
        if lanes % WARP:
            raise PtxError("work-groups are of whole warps here")
        if len(arguments) != kernel.param_bytes:
            raise PtxError(f"{kernel.name} takes {kernel.param_bytes} bytes of arguments, not {len(arguments)}")
        self.arguments = np.frombuffer(arguments, np.uint8)
        self.lane = np.arange(lanes)
        self.warp, self.bits_of = self.lane // WARP, kernel.registers
        self.shared, self.local = ptx_memory.Shared(kernel.shared), ptx_memory.Local(kernel.local, lanes)
        self.special = {"laneid": self.lane % WARP, "warpid": self.warp}
        for d, axis in enumerate("xyz"):
            self.special[f"tid.{axis}"] = self.lane if d == 0 else 0 * self.lane
            self.special[f"ntid.{axis}"] = np.full(lanes, lanes if d == 0 else 1)
            self.special[f"nctaid.{axis}"] = np.full(lanes, groups[d])
        self.special = {k: v.astype(np.uint32) for k, v in self.special.items()}
        self.units = [self.warp == w for w in reversed(range(lanes // WARP))] if apart else [np.ones(lanes, bool)]
        self.asynchronous = {}  # state of asynchronous instructions: ptx_warps.py
        # if set, called with (an instruction's operands, its text, mask) before each instruction
        self.watch = None
        self.code = [self._compile(x, instructions) for x in kernel.code]

    # Operands, for the implementations of instructions.
    def reader(self, operand, kind):
        """Returns a function that reads an operand's values in a type of TYPES. From a wider
        register it reads the lower bits."""
        dtype = TYPES[kind]
        if operand.kind == REGISTER:
            name, width, negated = operand.value, self.bits_of[operand.value], operand.offset
            if negated:
                return lambda: ~self.registers[name]
            if (dtype == bool) != (width == 1) or width < 8 * dtype.itemsize and width != 1:
                raise PtxError(f"{name} of {width} bits read as {kind}")
            if RAW[width] == dtype:
                return lambda: self.registers[name]
            if width == 8 * dtype.itemsize:
                return lambda: self.registers[name].view(dtype)
            lower = RAW[8 * dtype.itemsize]
            return lambda: self.registers[name].astype(lower).view(dtype)
        if operand.kind == SPECIAL:
            name = operand.value
            return lambda: self.special[name].astype(RAW[8 * dtype.itemsize]).view(dtype)
        values = self._constant(operand, dtype)
        return lambda: values

    def _constant(self, operand, dtype):
        if operand.kind == NUMBER and dtype.kind != "f":
            bits = operand.value & ((1 << 8 * dtype.itemsize) - 1) if dtype != bool else int(operand.value != 0)
        elif operand.kind == FLOAT:
            bits = operand.value
        elif operand.kind == SYMBOL:
            bits = self.symbol(operand.value)
        else:
            raise PtxError(f"{operand.kind} {operand.value} as {dtype}")
        return np.full(self.lanes, bits, RAW[8 * dtype.itemsize if dtype != bool else 1]).view(dtype)

    def symbol(self, name):
        for places in (self.shared.places, self.local.places):
            if name in places:
                return places[name]
        if name in self.kernel.params:
            return self.kernel.params[name][0]
        raise PtxError(f"no variable {name}")

    def writer(self, operand):
        """Returns a function of (values, mask) that writes a register. A narrower type is
        sign-extended."""
        if operand.kind == SINK:
            return lambda values, mask: None
        if operand.kind != REGISTER:
            raise PtxError(f"writes to {operand.kind} {operand.value}")
        name, raw = operand.value, RAW[self.bits_of[operand.value]]

        def write(values, mask):
            if values.dtype != raw:
                if values.dtype.itemsize < raw.itemsize:
                    values = values.astype(np.dtype(f"{'i' if values.dtype.kind == 'i' else 'u'}{raw.itemsize}"))
                values = np.ascontiguousarray(values).view(raw)
            self.registers[name] = values if mask is None else np.where(mask, values, self.registers[name])
        return write

    def address(self, operand):
        """Returns a function that computes addresses, in 64 bits."""
        if operand.kind != ADDRESS:
            raise PtxError(f"{operand.kind} {operand.value} is no address")
        base, offset = operand.value, np.uint64(operand.offset & ((1 << 64) - 1))
        wide = base.kind != REGISTER or self.bits_of[base.value] == 64
        get = self.reader(base, "u64" if wide else "u32")
        if wide:
            return lambda: get() + offset
        short = np.uint32(operand.offset & 0xffffffff)
        return lambda: (get() + short).astype(np.uint64)

    def chosen(self, mask):
        """The numbers of the work-items in a mask."""
        return self.lane if mask is None else np.flatnonzero(mask)

    def whole_warps(self, mask, warps, what):
        """Returns which groups of this many warps are active. A group must be active completely."""
        if mask is None:
            return np.ones(self.lanes // (WARP * warps), bool)
        parts = mask.reshape(-1, WARP * warps)
        if (parts.any(1) != parts.all(1)).any():
            raise PtxError(f"{what}: some work-items of {'a warp' if warps == 1 else 'a warpgroup'} take part, and not all")
        return parts.all(1)

    # Instructions become functions of a mask (None: all work-items), or one of these constants.
    # TOGETHER: the number of warps whose work-items execute the instruction together.
    BRANCH, END, BARRIER = "branch", "end", "barrier"
    TOGETHER = {"shfl": 1, "mma": 1, "ldmatrix": 1, "wgmma": 4}

    def _compile(self, ins, instructions):
        try:
            return self._guarded(ins, instructions)
        except PtxError as e:
            raise PtxError(f"{ins.text}: {e}") from e

    def _guarded(self, ins, instructions):
        guard = None
        if ins.guard:
            negated, name = ins.guard
            guard = (lambda: ~self.registers[name]) if negated else (lambda: self.registers[name])
        if ins.name in ("bra", "bra.uni"):
            return self.BRANCH, guard, self.kernel.labels[ins.operands[0].value], ins
        if ins.name in ("ret", "exit"):
            return self.END, guard, None, ins
        if ins.name in ("bar.sync", "barrier.sync.aligned", "bar.red.or.pred", "bar.red.and.pred"):
            return self.BARRIER, guard, self._barrier(ins), ins
        make = instructions.get(ins.name)
        if make is None:
            raise PtxError("no such instruction is known here")
        return self.TOGETHER.get(ins.name.split(".")[0]), guard, make(self, ins), ins

    def _barrier(self, ins):
        """The result is written when all work-items have arrived: [PTX ISA] "bar, barrier"."""
        name = ins.operands[1 if "red" in ins.name else 0]
        if len(ins.operands) != (3 if "red" in ins.name else 1) or name.kind != NUMBER or name.value != 0:
            raise PtxError("barrier 0 of the whole work-group is all that is known here")
        if "red" not in ins.name:
            return lambda mask: None
        put, get = self.writer(ins.operands[0]), self.reader(ins.operands[2], "pred")
        combine = np.any if ".or." in ins.name else np.all
        return lambda mask: put(np.full(self.lanes, combine(get()[mask])), mask)

    # Execution.
    def run(self, group):
        """Run one work-group from its first instruction to its last."""
        for d, axis in enumerate("xyz"):
            self.special[f"ctaid.{axis}"] = np.full(self.lanes, group[d], np.uint32)
        self.registers = {name: np.full(self.lanes, True if bits == 1 else (0xdeadbeefdeadbeef & ((1 << bits) - 1)), RAW[bits])
                          for name, bits in self.bits_of.items()}
        self.shared.reset()
        self.asynchronous.clear()
        self.steps, self.alive, self.waiting, self.parts = 0, np.ones(self.lanes, bool), {}, {}
        ready = [{0: unit.copy()} for unit in self.units]
        while any(ready):
            for ways in ready:
                while ways:
                    self._go(ways)
            ready = self._release()

    def _release(self):
        """All live work-items wait at barriers, or none is alive."""
        for at in self.parts:
            raise PtxError(f"{self.kernel.code[at].text}: some work-items of a warp wait here for others, who do not come")
        if len(self.waiting) > 1 and not all(self.kernel.code[at].name == "bar.sync" for at in self.waiting):
            raise PtxError("work-items wait at several barriers, one of which makes a number of all")
        everybody = np.zeros(self.lanes, bool)
        for at, mask in self.waiting.items():
            self.whole_warps(mask, 1, self.kernel.code[at].text)
            self.code[at][2](mask)
            everybody |= mask
        if (everybody != self.alive).any():
            raise PtxError("some work-items wait at a barrier where others do not come")
        self.shared.meet()
        ready = [{at + 1: mask & unit for at, mask in self.waiting.items() if (mask & unit).any()} for unit in self.units]
        self.waiting = {}
        return ready

    def _park(self, at, mask):
        self.waiting[at] = self.waiting.get(at, False) | mask

    def _gather(self, at, warps, mask):
        """Returns the work-items of a mask whose warps, or groups of warps, are complete here. The
        others wait for the rest of theirs."""
        mask = mask | self.parts.pop(at, False)
        whole = np.repeat(mask.reshape(-1, WARP * warps).all(1), WARP * warps)
        if (mask & ~whole).any():
            self.parts[at] = mask & ~whole
        return mask & whole

    @staticmethod
    def _join(ways, at, mask):
        ways[at] = ways[at] | mask if at in ways else mask

    def _go(self, ways):
        """The work-items at the lowest instruction run until they diverge, wait, end or meet
        others."""
        at = min(ways)
        mask = ways.pop(at)
        meets = min(ways) if ways else len(self.code)
        short = None if mask.all() else mask
        while True:
            if at >= len(self.code):
                raise PtxError("runs past its last instruction")
            kind, guard, what, ins = self.code[at]
            self.steps += 1
            if isinstance(kind, int) and short is not None:
                mask = self._gather(at, kind, mask)
                if not mask.any():
                    return
                short = None if mask.all() else mask
            taken = short
            if guard is not None:
                taken = guard() & mask
                if not taken.any() and kind not in (self.BRANCH, self.END, self.BARRIER):
                    taken = False
                elif taken.all():
                    taken = None
            if kind is None or isinstance(kind, int):
                if taken is not False:
                    self._do(what, taken, ins)
                at += 1
            else:
                taken = np.ones(self.lanes, bool) if taken is None else taken
                self._control(kind, what, at, taken, ways)
                rest = mask & ~taken
                if rest.any():
                    self._join(ways, at + 1, rest)
                return
            if at >= meets:
                self._join(ways, at, mask)
                return

    def _do(self, what, mask, ins):
        try:
            if self.watch:
                self.watch(ins, mask)
            what(mask)
        except PtxError as e:
            raise PtxError(f"{ins.text}: {e}") from e

    def _control(self, kind, what, at, taken, ways):
        if self.steps > MOST_STEPS:
            raise PtxError("it does not come to an end")
        if kind == self.BRANCH:
            if taken.any():
                self._join(ways, what, taken)
        elif kind == self.END:
            self.alive &= ~taken
        else:
            self._park(at, taken)


def operands_of(operand):
    """The parts of a vector, or the operand itself."""
    return operand.value if operand.kind == VECTOR else (operand,)


def launch(kernel, instructions, lanes, groups, arguments, buffers, apart=False):
    """Run all work-groups, one after another. Returns the number of executed instructions."""
    machine, steps = Machine(kernel, instructions, lanes, groups, arguments, buffers, apart), 0
    for z in range(groups[2]):
        for y in range(groups[1]):
            for x in range(groups[0]):
                machine.run((x, y, z))
                steps += machine.steps
    return steps
