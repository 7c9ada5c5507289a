"""A kernel in PTX, written by hand, that multiplies with a tile of 64 rows of 128 numbers of 16 bits by a warpgroup's instructions.

The tile lies in shared memory as two panels of 64 columns, a row 128 bytes, the piece p of 16 bytes of row r at p ^ (r & 7). Of one tile B
four products are made: S = A B^T, A from registers, B with K as its rows are; T = B B^T, both from shared memory; O = P B, B turned, each
panel by itself; and O again, both panels by one instruction.
"""
ROWS, COLUMNS, PANEL = 64, 128, 8192

# What a descriptor says beside where a matrix begins: offsets in units of 16 bytes, and the swizzle of 128 bytes.
KEYS = dict(leading=1, stride=1024 // 16, mode=1)             # rows of 128 bytes, eight of them after 1024; leading means nothing
VALUES = dict(leading=PANEL // 16, stride=1024 // 16, mode=1)  # the same turned; the next 64 columns are in the next panel


def high(leading, stride, mode):
    """A descriptor's upper half."""
    return stride | mode << 30


def descriptor(to, offset, leading, stride, mode):
    return f"""
        add.s32 %at, %tile, {offset};
        and.b32 %at, %at, 262143;
        shr.u32 %at, %at, 4;
        or.b32 %at, %at, {leading << 16};
        mov.b64 {to}, {{%at, %high{high(leading, stride, mode)}}};"""


def stage():
    """Eight pieces a work-item, from global memory to their places."""
    text = ""
    for i in range(8):
        text += f"""
        add.s32 %i, %me, {128 * i};
        shr.u32 %row, %i, 4;
        and.b32 %piece, %i, 15;
        mul.wide.u32 %from, %i, 16;
        add.s64 %from, %from, %b;
        shr.u32 %to, %piece, 3;
        shl.b32 %to, %to, 13;
        shl.b32 %at, %row, 7;
        add.s32 %to, %to, %at;
        xor.b32 %at, %piece, %row;
        and.b32 %at, %at, 7;
        shl.b32 %at, %at, 4;
        add.s32 %to, %to, %at;
        add.s32 %to, %to, %tile;
        cp.async.cg.shared.global [%to], [%from], 16, 16;"""
    return text + """
        cp.async.wait_all;
        fence.proxy.async;
        bar.sync 0;"""


def load_left(name, base, columns):
    """A from global memory: of each 16 columns four registers."""
    text = ""
    for step in range(columns // 16):
        for e in range(4):
            row, column = 8 * (e % 2), 16 * step + 8 * (e // 2)
            text += f"""
        ld.global.u32 %{name}{4 * step + e}, [%{base}+{2 * (row * columns + column)}];"""
    return text


def operands(name, first, count):
    return "{" + ", ".join(f"%{name}{i}" for i in range(first, first + count)) + "}"


def multiply(kind, width, left, right, step, turned):
    of_both = "0, " if left.startswith("%") else ""  # where A is in shared memory it may be turned, too
    return f"""
        {{
        .reg .pred %adds;
        setp.ne.b32 %adds, {step}, 0;
        wgmma.mma_async.sync.aligned.m64n{width}k16.f32.{kind}.{kind} {operands("s", 0, width // 2)}, {left}, {right}, %adds, 1, 1, {
            of_both}{turned};
        }}"""


BEGIN = """
        wgmma.fence.sync.aligned;"""
END = """
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;"""


def write(base, columns, width, first):
    """The accumulators: of each eight columns two in each of two rows."""
    text = ""
    for j in range(width // 8):
        for e in range(4):
            text += f"""
        st.global.f32 [%{base}+{4 * (e // 2 * 8 * columns + first + 8 * j + e % 2)}], %s{4 * j + e};"""
    return text


def place(name, param, row_bytes, pair_bytes):
    """Where a work-item's elements begin: row 16 of its warp, plus its lane / 4; column 2 of its lane % 4."""
    return f"""
        ld.param.u64 %{name}, [{param}];
        mul.lo.s32 %at, %row, {row_bytes};
        mad.lo.s32 %at, %pair, {pair_bytes}, %at;
        cvt.u64.u32 %from, %at;
        add.s64 %{name}, %{name}, %from;"""


def kernel(kind):
    keys = [descriptor(f"%k{s}", s // 4 * PANEL + s % 4 * 32, **KEYS) for s in range(8)]
    values = [descriptor(f"%v{4 * c + s}", c * PANEL + s * 2048, **VALUES) for c in range(2) for s in range(4)]
    highs = sorted({high(**x) for x in (KEYS, VALUES)})
    text = f""".version 8.0
.target sm_90a
.address_size 64
.visible .entry wgmma_tile(.param .u64 a, .param .u64 b, .param .u64 p, .param .u64 s, .param .u64 t, .param .u64 o, .param .u64 o2)
.reqntid 128, 1, 1
{{
        .shared .align 1024 .b8 room[{2 * PANEL}];
        .reg .b32 %me, %row, %pair, %tile, %at, %i, %piece, %to, %a<32>, %p<16>;
        .reg .b32 {", ".join(f"%high{h}" for h in highs)};
        .reg .b64 %b, %from, %ga, %gp, %gs, %gt, %go, %go2, %k<8>, %v<8>;
        .reg .f32 %s<64>;
        mov.u32 %me, %tid.x;
        mov.u32 %tile, room;
        ld.param.u64 %b, [b];"""
    text += "".join(f"\n        mov.u32 %high{h}, {h};" for h in highs) + stage()
    text += """
        shr.u32 %row, %me, 5;
        shl.b32 %row, %row, 4;
        and.b32 %i, %me, 31;
        shr.u32 %at, %i, 2;
        add.s32 %row, %row, %at;
        and.b32 %pair, %i, 3;"""
    text += place("ga", "a", 2 * COLUMNS, 4) + place("gp", "p", 2 * ROWS, 4) + place("gs", "s", 4 * ROWS, 8) + place("gt", "t", 4 * ROWS, 8)
    text += place("go", "o", 4 * COLUMNS, 8) + place("go2", "o2", 4 * COLUMNS, 8)
    text += load_left("a", "ga", COLUMNS) + load_left("p", "gp", ROWS) + "".join(keys + values)
    text += BEGIN + "".join(multiply(kind, 64, operands("a", 4 * s, 4), f"%k{s}", s, 0) for s in range(8)) + END + write("gs", ROWS, 64, 0)
    text += BEGIN + "".join(multiply(kind, 64, f"%k{s}", f"%k{s}", s, 0) for s in range(8)) + END
    text += write("gt", ROWS, 64, 0)
    for c in range(2):
        text += BEGIN + "".join(multiply(kind, 64, operands("p", 4 * s, 4), f"%v{4 * c + s}", s, 1) for s in range(4)) + END
        text += write("go", COLUMNS, 64, 64 * c)
    text += BEGIN + "".join(multiply(kind, 128, operands("p", 4 * s, 4), f"%v{s}", s, 1) for s in range(4)) + END
    return text + write("go2", COLUMNS, 128, 0) + "\n        ret;\n}\n"
