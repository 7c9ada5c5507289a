"""Executes a kernel from the assembly text that clang writes for an AMD chip. Work-groups run one
after another. The waves of a group alternate, each from barrier to barrier. A vector register is a
numpy vector over a wave's work-items.

The kernel's descriptor and metadata define its initial state: [LLVM] "User Guide for AMDGPU
Backend", "Initial Kernel Execution State" and "Code Object V5 Metadata". The instructions are in
amd_scalars, amd_vectors and amd_engine, by AMD's guides to the instruction sets of CDNA 2, CDNA 3,
RDNA 3 and RDNA 4. An unknown instruction, or an unknown word of one, is an error. Memory is that of
ptx_memory. Accesses outside of buffers are errors, and so are accesses to local memory that another
wave accessed since the last barrier. Unwritten registers hold values that no kernel can need. Waits
and cache control do nothing here, because every instruction completes at once.
"""
import re

import numpy as np

import ptx_memory
from offline_loops import AMD, instructions
from ptx_text import PtxError

GARBAGE = 0xdeadbeef
MOST_STEPS = 3_000_000  # of a wave; more is an endless loop
IGNORED = re.compile(r"s_(delay_alu|nop|clause|sendmsg|barrier_signal|wait(cnt|cnt_depctr|_(alu|loadcnt|storecnt|dscnt|kmcnt|loadcnt_dscnt)))$"
                     r"|buffer_gl0_inv$|global_(wb|inv)$")
# Register numbers of scalars with names.
VCC, TTMP, NULL, M0, EXEC = 106, 108, 124, 125, 126
NAMED = {"vcc": VCC, "vcc_lo": VCC, "vcc_hi": VCC + 1, "exec": EXEC, "exec_lo": EXEC, "exec_hi": EXEC + 1, "null": NULL, "m0": M0}
np.seterr(all="ignore")


def register_of(word):
    """Returns (file, first, count) of "v7", "s[2:3]", "vcc". None if the word is no register."""
    if word in NAMED:
        return "s", NAMED[word], 2 if word in ("vcc", "exec") else 1
    found = re.match(r"(v|s|ttmp)(?:(\d+)|\[(\d+):(\d+)\])$", word)
    if not found:
        return None
    first = int(found[2] or found[3])
    return found[1][0] if found[1] != "ttmp" else "s", first + TTMP * (found[1] == "ttmp"), int(found[4] or first) - first + 1


def constant(word):
    """The bits of a constant. A floating-point constant is a float32."""
    if re.match(r"-?\d+\.\d+$", word):
        return int(np.float32(word).view(np.uint32))
    try:
        return int(word, 0)
    except ValueError:
        raise PtxError(f"{word} is no operand that is known") from None


class Instruction:
    """A name, its operands and its notes, such as offset:16. The implementation of an instruction
    removes the notes that it uses. A remaining note is an error."""

    def __init__(self, text, chip):
        self.chip, self.notes = chip, {}
        self.name, _, rest = text.partition(" ")
        rest = re.sub(r"\s(\w+):(\S+)", self._note, " " + rest).strip()
        self.words = [x.strip() for x in re.split(r",(?![^\[]*\])", rest)] if rest else []

    def _note(self, found):
        self.notes[found[1]] = found[2]
        return ""

    def place(self, n, file):
        """The first register of operand n, which must be in this file."""
        found = register_of(self.words[n])
        if not found or found[0] != file:
            raise PtxError(f"operand {self.words[n]} is no {file} register")
        return found[1]


class Wave:
    def __init__(self, machine, number, scalars):
        self.lanes, self.buffers, self.local, self.number = machine.lanes, machine.buffers, machine.local, number
        self.v = np.full((machine.vectors, self.lanes), GARBAGE, np.uint32)
        self.v[0] = np.arange(self.lanes) + number * self.lanes
        self.items = np.arange(self.lanes) + number * self.lanes
        self.waves = np.full(self.lanes, number)
        self.s, self.scc = [GARBAGE] * 128, 0
        for place, value in scalars.items():
            self.s[place] = value
        self.put(EXEC, 2, (1 << self.lanes) - 1)

    def get(self, place, count):
        if place == NULL:
            return 0
        return self.s[place] if count == 1 else sum(self.s[place + k] << 32 * k for k in range(count))

    def put(self, place, count, value):
        for k in range(count):
            self.s[place + k] = value >> 32 * k & 0xffffffff
        if place >= EXEC:
            self.mask = self.bools(self.get(EXEC, self.lanes // 32))
            self.whole = bool(self.mask.all())

    # Convert a scalar with one bit for each work-item to booleans.
    def bools(self, bits):
        return np.unpackbits(np.frombuffer(int(bits).to_bytes(8, "little"), np.uint8), bitorder="little")[:self.lanes].astype(bool)

    def put_bools(self, place, bools):
        self.put(place, self.lanes // 32, int.from_bytes(np.packbits(bools, bitorder="little").tobytes(), "little"))

    def put_vector(self, n, bits, everywhere=False):
        if self.whole or everywhere:
            self.v[n] = bits
        else:
            np.copyto(self.v[n], bits, where=self.mask)

    def chosen(self):
        return np.flatnonzero(self.mask)


STEP, BRANCH, BARRIER, END = range(4)
CONDITIONS = {"s_branch": lambda w: True, "s_cbranch_scc0": lambda w: not w.scc, "s_cbranch_scc1": lambda w: w.scc,
              "s_cbranch_vccz": lambda w: not w.get(VCC, w.lanes // 32), "s_cbranch_vccnz": lambda w: w.get(VCC, w.lanes // 32),
              "s_cbranch_execz": lambda w: not w.mask.any(), "s_cbranch_execnz": lambda w: w.mask.any()}


class Kernel:
    """The contents of an assembly text about a kernel. known: (text, chip) converts an instruction
    to a function of a wave."""

    def __init__(self, text, name, chip, known):
        self.name, self.chip = name, chip
        notes = text[text.index("amdhsa.kernels:"):]
        head = re.search(rf"\.amdhsa_kernel {name}\n(.*?)\.end_amdhsa_kernel", text, re.S)[1]
        self.says = {k: int(v) for k, v in re.findall(r"\.amdhsa_(\w+) (\d+)", head)}
        self.lanes = int(re.search(r"\.wavefront_size: +(\d+)", notes)[1])
        self.items = int(re.search(r"\.reqd_workgroup_size:\s+- (\d+)", notes)[1])
        self.arguments = [(int(a), int(b), c) for a, b, c in re.findall(r"\.offset: +(\d+)\s+\.size: +(\d+)(?:\s+\.type_name: +\S+)?"
                                                                      r"\s+\.value_kind: +(\w+)", notes)]
        if self.says["private_segment_fixed_size"] or self.says["kernarg_size"] < max(a + b for a, b, _ in self.arguments):
            raise PtxError("private memory and preloaded arguments are not known here")
        code = list(instructions(text, name, AMD))
        labels = {label: n for n, i in enumerate(code) for label in i.labels}
        self.texts = [f"{i.name} {i.rest.split(';')[0].strip()}".strip() for i in code]
        self.code = [self._compiled(x, labels, known) for x in self.texts]

    def _compiled(self, text, labels, known):
        name, _, rest = text.partition(" ")
        if name in ("s_barrier", "s_barrier_wait"):
            return BARRIER, None, None
        if name == "s_endpgm":
            return END, None, None
        if name in CONDITIONS:
            return BRANCH, CONDITIONS[name], labels[rest]
        if IGNORED.match(name):
            return STEP, lambda w: None, None
        try:
            return STEP, known(text, self.chip), None
        except (PtxError, KeyError, ValueError, IndexError) as e:
            raise PtxError(f"{text}: {e}") from e

    def segment(self, arguments, groups):
        """The arguments in memory, with those that the OpenCL compiler adds."""
        own = [(a, b) for a, b, kind in self.arguments if not kind.startswith("hidden")]
        if len(arguments) != max(a + b for a, b in own):
            raise PtxError(f"{self.name} takes {max(a + b for a, b in own)} bytes of arguments, not {len(arguments)}")
        sizes = dict(zip("xyz", (self.items, 1, 1)))
        hidden = {"hidden_grid_dims": 3}
        for axis, count in zip("xyz", groups):
            hidden.update({f"hidden_block_count_{axis}": count, f"hidden_group_size_{axis}": sizes[axis],
                           f"hidden_remainder_{axis}": 0, f"hidden_global_offset_{axis}": 0})
        whole = bytearray(b"\xff" * self.says["kernarg_size"])
        whole[:len(arguments)] = arguments
        for a, b, kind in self.arguments:
            if kind.startswith("hidden"):
                whole[a:a + b] = hidden[kind].to_bytes(b, "little")
        return np.frombuffer(bytes(whole), np.uint8)


class Machine:
    def __init__(self, kernel, items, groups, arguments, buffers):
        if items != kernel.items:
            raise PtxError(f"a group of {kernel.name} has {kernel.items} work-items, not {items}")
        self.kernel, self.lanes, self.items, self.buffers = kernel, kernel.lanes, items, buffers
        self.vectors = kernel.says["next_free_vgpr"]
        self.local = ptx_memory.Shared({"all": (16, max(16, kernel.says["group_segment_fixed_size"]))})
        self.arguments = buffers.place(kernel.segment(arguments, groups))

    def scalars(self, group):
        """Initialise a wave's scalars."""
        says, (x, y, z) = self.kernel.says, group
        if says.get("user_sgpr_dispatch_ptr") or says.get("user_sgpr_queue_ptr") or not says["user_sgpr_kernarg_segment_ptr"]:
            raise PtxError("kernels ask for their arguments alone here")
        at = 4 * says.get("user_sgpr_private_segment_buffer", 0)
        begin = {at: self.arguments & 0xffffffff, at + 1: self.arguments >> 32}
        if self.kernel.chip.startswith("gfx12"):
            return {**begin, TTMP + 9: x, TTMP + 7: y | z << 16}
        at = says["user_sgpr_count"]
        for axis, value in zip("xyz", group):
            if says[f"system_sgpr_workgroup_id_{axis}"]:
                begin[at] = value
                at += 1
        return begin

    def run(self, group):
        self.local.reset()
        waves = [self._turns(Wave(self, n, self.scalars(group))) for n in range(self.items // self.lanes)]
        while waves:
            there = [w for w in waves if next(w, END) != END]
            if there and len(there) != len(waves):
                raise PtxError("some waves wait at a barrier where others do not come")
            waves = there
            self.local.meet()

    def _turns(self, w):
        """Run a wave to its next barrier."""
        at, code = 0, self.kernel.code
        for _ in range(MOST_STEPS):
            kind, what, to = code[at]
            try:
                if kind == STEP:
                    what(w)
                elif kind == BRANCH and what(w):
                    at = to - 1
            except PtxError as e:
                raise PtxError(f"{self.kernel.texts[at]}: {e}") from e
            if kind == BARRIER:
                yield BARRIER
            elif kind == END:
                return
            at += 1
        raise PtxError("it does not come to an end")


def launch(kernel, items, groups, arguments, buffers):
    machine = Machine(kernel, items, groups, arguments, buffers)
    for z in range(groups[2]):
        for y in range(groups[1]):
            for x in range(groups[0]):
                machine.run((x, y, z))
