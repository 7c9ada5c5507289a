"""The probe of matrix fragments as AMD's compiler made it, executed: each item's registers and the group's local memory, instruction
by instruction, so that the compiled loads, places, exchanges and stores are seen to fit what the engine does.

The matrix instructions are written from AMD's instruction set architectures (RDNA3 and RDNA4, "Wave Matrix Multiply Accumulate", and
AMD's matrix instruction calculator for v_mfma_f32_32x32x8), apart from the kernel's macros. Only what the probe is made of is known.
"""
import re

import numpy as np

ROWS = 32  # for which the probe's input has room
SIDE = 32
ITEMS = 128
OUT = 1 << 20  # where the result begins; the input begins at 0, the arguments at ARGUMENTS
ARGUMENTS = 1 << 22
IGNORED = re.compile(r"s_(delay_alu|wait\w*|nop|clause|sendmsg|barrier_signal)$|buffer_gl0_inv|global_(wb|inv)$")


class Unknown(Exception):
    pass


def number(i):
    """src/probe/fragments.c's."""
    mixed = (i + 1) * 2654435761 % 2**32
    if i < ROWS * SIDE:
        return (mixed >> 13) % 3 - 1
    return (mixed >> 15) % 7 - 3 if i < 2 * ROWS * SIDE - 8 else 0


def expected(rows):
    a = np.array([number(i) for i in range(ROWS * SIDE)]).reshape(ROWS, SIDE)[:rows]
    b = np.array([number(ROWS * SIDE + i) for i in range(SIDE * SIDE)]).reshape(SIDE, SIDE)
    p = a @ b.T
    return np.concatenate([p.ravel(), (p @ b).ravel(), p.max(axis=1)]).astype(np.float32)


def to_16(x, bf16):
    return (np.float32(x).view(np.uint32) >> 16).astype(np.uint16) if bf16 else np.float16(x).view(np.uint16)


def from_16(bits, bf16):
    return (bits.astype(np.uint32) << 16).view(np.float32) if bf16 else bits.astype(np.uint16).view(np.float16).astype(np.float32)


class Wave:
    def __init__(self, lanes, first, memory, local):
        self.lanes, self.memory, self.local = lanes, memory, local
        self.v = np.zeros((512, lanes), np.uint32)
        self.v[0] = first + np.arange(lanes)
        self.s = {"exec": (1 << lanes) - 1, "vcc": 0}
        self.scc = 0

    # Scalars; a pair's value is one number.
    def span(self, word):
        found = re.match(r"([sv])\[(\d+):(\d+)\]$", word)
        if found:
            return [f"{found[1]}{n}" for n in range(int(found[2]), int(found[3]) + 1)]
        return [word.replace("_lo", "")]

    def scalar(self, word):
        names = self.span(word)
        if names[0] in ("exec", "vcc") or names[0][0] == "s":
            return sum(self.s.get(n, 0) << 32 * k for k, n in enumerate(names))
        return constant(word)

    def set_scalar(self, word, value):
        names = self.span(word)
        if names[0] in ("exec", "vcc"):
            self.s[names[0]] = value & ((1 << self.lanes) - 1)
            return
        for k, n in enumerate(names):
            self.s[n] = value >> 32 * k & 0xffffffff

    def active(self):
        return self.mask(self.s["exec"])

    def mask(self, bits):
        return np.array([bits >> n & 1 for n in range(self.lanes)], bool)

    def vector(self, word):
        if re.match(r"v\d+$", word):
            return self.v[int(word[1:])]
        return np.full(self.lanes, self.scalar(word) & 0xffffffff, np.uint32)

    def wide(self, word):
        """64 bits of each item."""
        if word[0] == "v":
            low = int(self.span(word)[0][1:])
            return self.v[low].astype(np.uint64) | self.v[low + 1].astype(np.uint64) << np.uint64(32)
        return np.full(self.lanes, self.scalar(word), np.uint64)

    def put(self, word, value):
        where = self.active()
        self.v[int(word[1:])][where] = np.asarray(value).astype(np.uint32)[where] if np.ndim(value) else np.uint32(value)

    def registers(self, word):
        return [int(n[1:]) for n in self.span(word)]

    def floats(self, word):
        return self.vector(word).view(np.float32)


def constant(word):
    if re.match(r"-?\d+\.\d+$", word):
        return int(np.float32(word).view(np.uint32))
    return int(word, 0)


def operand_bits(w, word):
    """[item][number] of 16 bits."""
    words = np.stack([w.v[r] for r in w.registers(word)], axis=1)
    return np.stack([words & 0xffff, words >> 16], axis=2).reshape(w.lanes, -1)


def matrix(w, name, words):
    """Of the engine: where numbers of A and B, and sums, lie."""
    bf16, mfma = "bf16" in name, name.startswith("v_mfma")
    side, step = (32, 8) if mfma else (16, 16)
    a, b = (from_16(operand_bits(w, x), bf16) for x in words[1:3])
    each = a.shape[1]  # numbers of an item
    lane = np.arange(w.lanes)
    if each == step:  # both halves have all
        if (a[:side] != a[side:]).any() or (b[:side] != b[side:]).any():
            raise Unknown("the halves of a wave have other numbers")
        left, right = a[:side], b[:side]
    else:
        left, right = np.zeros((side, step), np.float32), np.zeros((side, step), np.float32)
        for n in range(w.lanes):
            left[n % side, each * (n // side):each * (n // side + 1)] = a[n]
            right[n % side, each * (n // side):each * (n // side + 1)] = b[n]
    product = left.astype(np.float64) @ right.astype(np.float64).T
    half = lane // side
    for i, r in enumerate(w.registers(words[0])):
        row = 8 * (i // 4) + 4 * half + i % 4 if mfma else 2 * i + half if each == step else 8 * half + i
        before = w.v[w.registers(words[3])[i]].view(np.float32) if words[3][0] == "v" else np.float32(0)
        w.new.append((r, (before + product[row, lane % side]).astype(np.float32).view(np.uint32)))


def compare(name, x, y):
    if "_u_f32" in name:
        return np.isnan(x.view(np.float32)) | np.isnan(y.view(np.float32))
    return {"eq": x == y, "ne": x != y, "gt": x > y, "lt": x < y}[name.split("_")[2]]


def address(w, words, offset):
    base = w.wide(words[0]) if words[1] == "off" else w.vector(words[0]).astype(np.uint64) + np.uint64(w.scalar(words[1]))
    return base + np.uint64(offset)


def local_bytes(w, name, words, notes):
    at, where = w.vector(words[0] if "store" in name or "write" in name else words[1]), w.active()
    if "swizzle" in name:
        w.new.append((w.registers(words[0])[0], at[np.arange(w.lanes) ^ notes["swap"]]))
    elif "bpermute" in name:
        source = w.vector(words[2])[(w.vector(words[1]) >> 2) % w.lanes]
        w.put(words[0], source)
    elif "load" in name or "read" in name:
        for k, r in enumerate(w.registers(words[0])):
            offset = notes.get(f"offset{k // 2}", 0) * 8 + k % 2 * 4 if "read2" in name else notes.get("offset", 0) + 4 * k
            w.new.append((r, np.array([w.local[(int(x) + offset) // 4] if y else 0 for x, y in zip(at, where)], np.uint32)))
    elif "b16" in name:
        value = w.vector(words[1]) >> (16 if "hi" in name else 0) & 0xffff
        for x, y in zip(at[where], value[where]):
            w.local.view(np.uint16)[(int(x) + notes.get("offset", 0)) // 2] = y
    else:
        for k, r in enumerate(w.registers(words[1])):
            for x, y in zip(at[where], w.v[r][where]):
                w.local[(int(x) + notes.get("offset", 0)) // 4 + k] = y


def global_words(w, name, words, notes):
    load, where = "load" in name, w.active()
    at = address(w, words[1:] if load else [words[0], words[2]], notes.get("offset", 0))
    for k, r in enumerate(w.registers(words[0] if load else words[1])):
        for n in np.flatnonzero(where):
            place = int(at[n]) // 4 + k
            if load:
                w.new.append((r, n, w.memory[place]))
            else:
                w.memory[place] = w.v[r][n]


FLOAT = {"v_add_f32": lambda x, y: x + y, "v_max_f32": np.fmax, "v_max_num_f32": np.fmax}
THREE = {"v_mad_u32_u24": lambda x, y, z: x * y + z, "v_and_or_b32": lambda x, y, z: x & y | z, "v_lshl_or_b32": lambda x, y, z: x << y | z,
         "v_bfe_u32": lambda x, y, z: x >> y & ((1 << z) - 1), "v_add3_u32": lambda x, y, z: x + y + z}
TWO = {"v_and_b32": lambda x, y: x & y, "v_or_b32": lambda x, y: x | y, "v_xor_b32": lambda x, y: x ^ y, "v_lshlrev_b32": lambda x, y: y << x,
       "v_lshrrev_b32": lambda x, y: y >> x, "v_add_u32": lambda x, y: x + y, "v_add_nc_u32": lambda x, y: x + y, "v_mul_u32_u24": lambda x, y: x * y}


def vector_instruction(w, name, words):
    name = re.sub(r"_e(32|64)$", "", name).replace("v_dual_", "v_")
    wide = "u64" in name
    if name.startswith(("v_wmma", "v_mfma")):
        matrix(w, name, words)
    elif name.startswith("v_cmp"):
        to = "exec" if name.startswith("v_cmpx") else words.pop(0)
        x, y = (w.wide(i) if wide else w.vector(i) for i in words)
        bits = sum(1 << n for n in np.flatnonzero(compare(name, x, y) & w.active()).tolist())
        w.set_scalar(to, bits)
    elif name == "v_mov_b32":
        w.new.append((w.registers(words[0])[0], w.vector(words[1])))
    elif name == "v_cndmask_b32":
        chosen = w.mask(w.scalar(words[3] if len(words) > 3 else "vcc"))
        w.new.append((w.registers(words[0])[0], np.where(chosen, w.vector(words[2]), w.vector(words[1]))))
    elif name in FLOAT:
        w.new.append((w.registers(words[0])[0], FLOAT[name](*map(w.floats, words[1:])).view(np.uint32)))
    elif name in ("v_max3_f32", "v_max3_num_f32"):
        x, y, z = map(w.floats, words[1:])
        w.new.append((w.registers(words[0])[0], np.fmax(np.fmax(x, y), z).view(np.uint32)))
    elif name == "v_cvt_f16_f32":
        w.new.append((w.registers(words[0])[0], w.floats(words[1]).astype(np.float16).view(np.uint16).astype(np.uint32)))
    elif name == "v_pack_b32_f16":
        w.new.append((w.registers(words[0])[0], w.vector(words[1]) & 0xffff | w.vector(words[2]) << 16))
    elif name == "v_permlanex16_b32":
        x, lane = w.vector(words[1]), np.arange(w.lanes)
        picks = w.scalar(words[2]) | w.scalar(words[3].split()[0]) << 32
        pick = np.array([picks >> 4 * (int(n) % 16) & 15 for n in lane])
        w.new.append((w.registers(words[0])[0], x[(lane // 16 ^ 1) * 16 + pick]))
    elif name == "v_lshl_add_u64":
        value = (w.wide(words[1]) << np.uint64(constant(words[2]))) + w.wide(words[3])
        low = w.registers(words[0])[0]
        w.new += [(low, value & np.uint64(0xffffffff)), (low + 1, value >> np.uint64(32))]
    elif name in ("v_add_co_u32", "v_addc_co_u32"):
        carry = w.mask(w.scalar(words[4])) if name[5] == "c" else np.zeros(w.lanes, bool)
        value = w.vector(words[2]).astype(np.int64) + w.vector(words[3]) + carry
        w.set_scalar(words[1], sum(1 << n for n in np.flatnonzero((value >> 32 > 0) & w.active()).tolist()))
        w.new.append((w.registers(words[0])[0], value & 0xffffffff))
    elif name in TWO or name in THREE:
        value = (TWO.get(name) or THREE[name])(*(w.vector(x).astype(np.int64) for x in words[1:]))
        w.new.append((w.registers(words[0])[0], value & 0xffffffff))
    else:
        raise Unknown(name)


def scalar_instruction(w, name, words):
    if name.startswith("s_load"):
        for k, n in enumerate(w.span(words[0])):
            w.s[n] = int(w.memory[(w.scalar(words[1]) + constant(words[2])) // 4 + k])
    elif name.startswith("s_mov"):
        w.set_scalar(words[0], w.scalar(words[1]))
    elif "saveexec" in name:
        before, x = w.s["exec"], w.scalar(words[1])
        w.set_scalar("exec", x & ~before if name.startswith(("s_and_not1", "s_andn2")) else x | before if name.startswith("s_or_") else x & before)
        w.set_scalar(words[0], before)
    elif name.startswith(("s_or_b", "s_xor_b", "s_add_")):
        x, y = (w.scalar(n) for n in words[1:])
        w.set_scalar(words[0], x | y if "or_b" in name and "xor" not in name else x ^ y if "xor" in name else (x + y) & 0xffffffff)
    elif name.startswith("s_cmp"):
        x, y = (w.scalar(n) - (1 << 32) * (w.scalar(n) >> 31 & 1) for n in words)
        w.scc = int({"lt": x < y, "lg": x != y, "eq": x == y}[name.split("_")[2]])
    else:
        raise Unknown(name)


def step(w, name, rest):
    """One instruction; of two that are one the second reads what was before the first."""
    w.new = []
    for part in f"{name} {rest}".split(" :: "):
        name, _, rest = part.strip().partition(" ")
        notes = {k: int(v) for k, v in re.findall(r"(offset\d?):(\d+)", rest)}
        notes.update({"swap": int(x) for x in re.findall(r"swizzle\(SWAP,(\d+)\)", rest)})
        words = [x.strip().split(" ")[0] for x in re.split(r",(?![^\[]*\])", re.split(r"\s(?:offset|scope|op_sel)", rest)[0])]
        if name.startswith("ds_"):
            local_bytes(w, name, words, notes)
        elif name.startswith("global_"):
            global_words(w, name, words, notes)
        elif name.startswith("v_"):
            vector_instruction(w, name, words)
        else:
            scalar_instruction(w, name, words)
    where = w.active()
    for new in w.new:
        if len(new) == 3:
            w.v[new[0]][new[1]] = new[2]
        else:
            w.v[new[0]][where] = np.asarray(new[1]).astype(np.uint32)[where]


def run_wave(w, code):
    """Stops at each barrier."""
    labels = {x: n for n, i in enumerate(code) for x in i.labels}
    at = 0
    arguments = next(i for i in code if i.name.startswith("s_load")).rest.split(", ")[1]
    w.set_scalar(arguments, ARGUMENTS)
    while not code[at].name.startswith("s_endpgm"):
        name, rest = code[at].name, code[at].rest.split(";")[0].strip()
        at += 1
        if name in ("s_barrier", "s_barrier_wait"):
            yield
        elif name.startswith(("s_cbranch", "s_branch")):
            taken = {"execz": w.s["exec"] == 0, "scc1": w.scc == 1, "scc0": w.scc == 0, "vccz": w.s["vcc"] == 0}.get(name.split("_")[-1], True)
            at = labels[rest] if taken else at
        elif not IGNORED.match(name):
            step(w, name, rest)


def wrong_numbers(code, lanes, rows, bf16):
    """How many numbers of the result are not what they should be, of how many."""
    memory, local = np.zeros((ARGUMENTS + 64) // 4, np.uint32), np.zeros(16384, np.uint32)
    memory.view(np.uint16)[:2 * ROWS * SIDE] = to_16([number(i) for i in range(2 * ROWS * SIDE)], bf16)
    memory[ARGUMENTS // 4:ARGUMENTS // 4 + 5] = 0, 0, OUT, 0, 0  # words, result, no rounds
    waves = [run_wave(Wave(lanes, n, memory, local), code) for n in range(0, ITEMS, lanes)]
    while waves:
        waves = [w for w in waves if next(w, "done") != "done"]
    want = expected(rows)
    return int((memory[OUT // 4:OUT // 4 + len(want)].view(np.float32) != want).sum()), len(want)
