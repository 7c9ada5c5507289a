#!/usr/bin/env python3
"""Writes the fuzzers' binary seeds beside this file. Run it after changing it. The seeds are
committed, so that test machines need no Python. A seed whose name begins with "good" must be
accepted.

    python3 tests/fuzz/seeds/make.py
"""
import hashlib
import json
import os
import struct

HERE = os.path.dirname(os.path.abspath(__file__))


def write(name, data):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def npy(descr, shape, data, version=1):
    """A .npy file. `data` repeats until the shape is full."""
    count = int(descr[2:])
    for size in shape:
        count *= size
    axes = ", ".join(str(s) for s in shape) + ("," if len(shape) == 1 else "")
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}"
    start = 10 if version == 1 else 12
    header += " " * (-(start + len(header) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + (data * (count // len(data) + 1))[:count]


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def safetensors(tensors, metadata=None):
    """tensors: name -> (dtype, shape, bytes)."""
    index, data = {}, b""
    if metadata:
        index["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        index[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    header = json.dumps(index, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data


def make_npy():
    for name, descr in {"f4": "<f4", "f2": "<f2", "i4": "<i4", "i8": "<i8", "b1": "|b1", "u2": "<u2"}.items():
        write(f"npy/good_{name}.npy", npy(descr, [2, 3], b"\x01\x00\x80\x3f"))
    write("npy/good_version2.npy", npy("<f4", [2], floats(1, 2), 2))
    write("npy/good_version3.npy", npy("<f4", [1, 1, 1, 1, 2], floats(1, 2), 3))
    write("npy/good_scalar.npy", npy("<f4", [], floats(1)))
    write("npy/good_empty.npy", npy("<f4", [3, 0, 2], floats(1)))
    write("npy/good_python2.npy", npy("<f4", [2], floats(1, 2)).replace(b"(2,), } ", b"(2L,), }"))
    write("npy/float64.npy", npy("<f8", [2], floats(1, 2)))
    write("npy/structured.npy", npy("<f4", [2], floats(1, 2)).replace(b"'<f4'", b"[<f4]"))
    write("npy/fortran.npy", npy("<f4", [2], floats(1, 2)).replace(b"False", b"True "))
    write("npy/cut.npy", npy("<f4", [2, 3], floats(1, 2))[:-1])
    write("npy/large.npy", npy("<f4", [2], floats(1, 2)).replace(b"(2,)", b"(9223372036854775807,)"))


def make_safetensors():
    one = ("F32", [2, 2], floats(1, 2, 3, 4))
    write("safetensors/good_one", safetensors({"a": one}))
    write("safetensors/good_types", safetensors({
        "f": one, "h": ("F16", [3], b"\x00\x3c" * 3), "b": ("BF16", [1, 2], b"\x80\x3f" * 2),
        "i": ("I32", [1], b"\x01\0\0\0"), "l": ("I64", [1], b"\x01" + bytes(7)), "t": ("BOOL", [2], b"\x01\x00"),
        "empty": ("F32", [0, 5], b"")}, {"format": "pt"}))
    write("safetensors/unread_types", safetensors({"d": ("F64", [1], bytes(8)), "n": ("F4", [2], b"\0"), "x": ("NEW", [1], b"\0")}))
    write("safetensors/good_and_axes", safetensors({"deep": ("F32", [1] * 9, floats(1)), "a": one}))
    good = safetensors({"a": one, "b": one})
    write("safetensors/gap", good.replace(b"[16,32]", b"[17,33]"))
    write("safetensors/overlap", good.replace(b"[16,32]", b"[00,16]").replace(b"[00", b"[ 0"))
    write("safetensors/negative", good.replace(b"[2,2]", b"[-2,2]", 1))
    write("safetensors/cut", good[:-3])
    write("safetensors/no_json", struct.pack("<Q", 4) + b"{\"a\"")
    write("safetensors/huge_header", struct.pack("<Q", 1 << 62) + b"{}")


def make_heatmap():
    """A byte for each choice of fuzz_heatmap.c: B, H, rows, columns, flags, out, heads; then
    labels, type, weights."""
    values = floats(0.0, 0.5, 1.0, 0.25)
    for out in range(1, 4):
        write(f"heatmap/good_{out}", bytes([1, 1, 3, 4, 1, out, 0, 0]) + values)
    write("heatmap/good_negative", bytes([0, 0, 2, 2, 0, 0, 0, 0]) + floats(-1.0, -2.0, -0.5))
    write("heatmap/good_negative_svg", bytes([0, 1, 2, 2, 0, 2, 0, 0]) + floats(-1.0, -2.0, -0.5))
    write("heatmap/good_not_finite", bytes([0, 0, 2, 2, 0, 0, 0, 0]) + floats(float("nan"), float("inf"), 1.0, 0.5, float("-inf")))
    write("heatmap/good_no_finite", bytes([0, 0, 2, 2, 0, 3, 0, 0]) + floats(float("nan")))
    write("heatmap/good_equal", bytes([0, 0, 3, 3, 0, 2, 0, 0]) + floats(0.25))
    write("heatmap/good_wide", bytes([0, 0, 1, 15, 0, 0, 0, 0]) + values)
    write("heatmap/good_large_png", bytes([0, 0, 14, 12, 0, 3, 0, 0]) + values)
    write("heatmap/good_half", bytes([0, 0, 3, 3, 0, 0, 0, 1]) + b"\x00\x3c\x00\x38")
    write("heatmap/good_bf16", bytes([0, 0, 3, 3, 32, 3, 0, 2]) + b"\x80\x3f\x00\x3f")
    write("heatmap/good_heads", bytes([0, 2, 3, 3, 2, 2, 2, 0]) + values)
    labels = bytes([2, 5]) + b"hello" + bytes([3]) + "\u2581\u4e2d".encode()[:3] + bytes([4]) + "\U0001f600".encode()
    for out in (0, 2, 3):
        write(f"heatmap/good_tokens_{out}", bytes([0, 0, 3, 3, 4, out, 0]) + labels + bytes([0]) + values)
        write(f"heatmap/good_both_tokens_{out}", bytes([0, 0, 3, 3, 12, out, 0]) + labels + labels + bytes([0]) + values)
    write("heatmap/bool", bytes([0, 0, 3, 3, 0, 0, 0, 5]) + b"\x01\x00")
    # Flag 64 adds two bytes, which select scale, vmax, per-head, color, json, COLUMNS and quiet,
    # and then their values.
    for name, out, which, chosen in (("log", 2, 1, 2), ("vmax", 3, 2, 0), ("by_head", 0, 4, 0), ("colours", 0, 8, 32), ("json", 2, 16, 0),
                                     ("narrow", 0, 32, 0), ("all", 0, 47, 34)):
        write(f"heatmap/good_{name}", bytes([0, 2, 4, 8, 64, out, 0, which, chosen, 0]) + values)
    for out in 0, 2, 3:  # a cell shows a block of weights
        write(f"heatmap/good_blocks_{out}", bytes([0, 0, 2, 10, 64, out, 0, 1, 2, 0]) + values)
    # Cyrillic and CJK, from the machine's fonts
    script = "\u043f\u0440\u0438\u0432".encode() + "\u4e2d\u6587".encode()
    write("heatmap/good_fonts", bytes([0, 0, 1, 1, 4, 3, 0, 1, 14]) + script + bytes([2]) + b"ab" + bytes([0]) + values)
    # Flag 128 is a mask: rows, keys, length of the expression, the expression.
    for name, flags, text in ("mask", 128, "j <= i"), ("mask_window", 128 | 16 | 2, "i != j"), ("mask_heads", 128 | 32 | 8 | 1, "x"):
        write(f"heatmap/good_{name}", bytes([0, 0, 0, 0, flags, 2, 2, 6, 7, len(text) - 1]) + text.encode())
    write("heatmap/mask_large", bytes([0, 0, 0, 0, 128 | 2, 2, 0, 4, 3, 5]) + b"j <= i")
    write("heatmap/batch", bytes([0, 0, 3, 3, 17, 0, 7, 0]) + values)


def make_cache():
    """The first byte selects the way of fuzz_cache.c. Two bytes for a position, one for a bit, and
    the payload follow."""
    key, payload = bytes((7 * i + 3) & 255 for i in range(32)), b"a compiled kernel"
    head = b"clattn\r\n" + struct.pack("<II", 1, 0) + key + struct.pack("<Q", len(payload))
    entry = head + hashlib.sha256(head + payload).digest() + payload
    write("cache/good_entry", b"\x00" + entry)
    write("cache/good_empty", b"\x01\0\0\0")
    write("cache/good_payload", b"\x01\0\0\0" + payload)
    write("cache/good_blocks", b"\x01\0\0\0" + bytes(range(256)) * 3)
    for name, way, place in (("flipped_magic", 2, 0), ("flipped_version", 2, 8), ("flipped_key", 2, 16), ("flipped_count", 2, 48),
                             ("flipped_digest", 2, 56), ("flipped_payload", 2, 90), ("cut_header", 3, 40), ("cut_payload", 3, 95),
                             ("cut_to_nothing", 3, 0), ("longer", 4, 7), ("another_key", 5, 3), ("folder", 6, 0)):
        write(f"cache/{name}", bytes([way]) + struct.pack("<HB", place, 1) + payload)


def make_files():
    """Files that the options of fuzz_options.c may name: see tests/fuzz/seeds/options."""
    number = floats(0.5, -1.0, 0.25)
    for name, shape in {"q": [1, 2, 5, 8], "k": [1, 2, 7, 8], "v": [1, 2, 7, 8], "w": [2, 5, 7], "bias": [5, 7], "h": [2],
        "x": [1, 3, 4]}.items():
        write(f"files/{name}.npy", npy("<f4", shape, number))
    write("files/u.npy", npy("<u2", [1, 2, 5, 8], b"\x80\x3f"))
    write("files/mask.npy", npy("|b1", [5, 7], b"\x01\x00\x01"))
    write("files/n.npy", npy("<i4", [1], b"\x03\0\0\0"))
    matrix = ("F32", [4, 4], (number * 6)[:64])
    names = {f"l.self.{n}.weight": matrix for n in ("query", "key", "value")}
    names["l.output.dense.weight"] = matrix
    write("files/m.safetensors", safetensors({**names, **{n: matrix for n in ("wq", "wk", "wv", "wo")},
        "bq": ("F32", [4], number + floats(1))}))
    write("files/t.txt", b"a\nb\nc\n")
    rows = [{"case": "attend-f32-b1-h1-n2-d8-full", "device": "d", "status": "ok", "time_ns": 10, "time_ns_spread": 1}]
    write("files/a.json", json.dumps({"format_version": 1, "rows": rows}).encode())


def make_api():
    """The choices of fuzz_api.c and fuzz_call*.c in their order, followed by zeros: no change."""
    names = {0: "attention", 3: "layer", 5: "linear", 6: "layer_kv", 7: "merge", 10: "append", 11: "rope"}
    for entry, name in names.items():
        write(f"api/good_{name}", bytes([entry, 1, 1, 1, 3, 4, 0, 1, 0, 1]))
        write(f"api/good_{name}_small", bytes([entry]))
    write("api/good_dropout_mask", bytes([12, 1, 1, 1, 3, 4, 0, 1, 0, 3]))
    # Entry, sizes, type of q, and that k has the same type; then options, kernel, queue.
    types = bytes([0, 0, 0, 1, 3, 3, 0, 1, 0, 1, 1])
    for kernel in range(1, 4):
        write(f"api/good_kernel_{kernel}", types + bytes([0, 0, kernel]))
    for bit in (0, 3, 4, 5, 6, 7):
        write(f"api/good_with_{bit}", types + bytes([1 << bit, 1 << bit, 0]))
    for bit in (1, 2): # only the unfused kernel returns weights and scores
        write(f"api/good_with_{bit}", types + bytes([1 << bit, 1 << bit, 1]))
    for bit in range(7):
        write(f"api/arrays_{bit}", types + bytes([0, 0, 0, 0, 0, 0, 0, 1 << bit, 0]) + bytes([1] * 8))
    # More options: sizes, types, none of `with`, kernel, queue, then these bits twice.
    plain = types + bytes([0, 0, 0, 0])
    more = {"past": 1, "shared_past": 1 | 128, "pages": 2, "append": 4, "many_append": 4 | 128, "ragged": 8, "ragged_keys": 8 | 128,
            "ragged_device": 8 | 16, "ragged_device_keys": 8 | 16 | 128, "positions": 32}
    for name, bits in more.items():
        write(f"api/good_{name}", plain + bytes([bits, bits]))
        write(f"api/{name}_of_i8", types[:-1] + bytes([0, 0, 0, 0, 0, bits, bits]))
        for other, also in more.items():
            if bits < also:
                write(f"api/{name}_and_{other}", plain + bytes([bits | also] * 2))
    for texts in (2, 4, 6, 8, 2 | 16, 4 | 32 | 16, 2 | 48, 4 | 96, 4 | 128, 2 | 64, 14):
        write(f"api/texts_{texts}", plain + bytes([64, 64, texts]))
    write("api/good_text", plain + bytes([64, 64, 2]))
    write("api/block_mask", bytes([13]) + plain[1:] + bytes([64, 64, 4]))
    # Sinks and lengths on the device, cascades, latents, and a layer's caches: one byte after the
    # entry.
    def also(bits, more=0):
        return bytes([1, bits]) + types[1:] + bytes([0, 0, 0, 0, more, more])
    for name, bits, more_bits in (("sinks", 1, 0), ("lengths", 2, 8 | 16), ("cascade", 4, 1 | 128), ("cascade_always", 8, 1 | 128),
        ("latent", 16, 0),
                                  ("latent_past", 16, 1), ("sinks_ragged", 1, 8), ("append_past", 1, 1 | 4), ("append_pages", 1, 2 | 4),
                                  ("append_ragged_lengths", 2, 4 | 8 | 16), ("pages_lengths", 2, 2 | 8 | 16)):
        write(f"api/also_{name}", also(bits, more_bits))
    write("api/good_also_sinks", also(1))
    write("api/good_also_latent", also(16))
    for bits in (1, 3, 5, 8, 24, 9, 13, 11, 33, 25):
        write(f"api/layer_also_{bits}", bytes([4, bits, 0, 0, 1, 3, 3, 0, 1, 0, 1, 0, 0, 0, 0, 0]))
    # A page table and first rows on the device with values outside everything.
    write("api/pages_anywhere", plain + bytes([2, 2, 1, 0] + [240 + n for n in range(16)] * 2))
    write("api/sequences_anywhere", plain + bytes([8 | 16 | 128] * 2) + bytes([1, 0]) + bytes([255, 30, 254, 40, 253, 60] * 8))
    # Every option of calls that have few.
    for bit in range(8):
        write(f"api/layer_kv_{bit}", bytes([6, 1, 1, 1, 3, 4, 0, 1, 0, 1 << bit, 0]))
        write(f"api/append_{bit}", bytes([10, 1, 1, 1, 3, 4, 0, 1, 0, 1 << bit, 0]))
        write(f"api/rope_{bit}", bytes([11, 1, 1, 1, 3, 4, 0, 1, 0, 1 << bit, 0]))
        write(f"api/layer_more_{bit}", bytes([3, 0, 0, 1, 3, 3, 0, 1, 0, 1, 0, 0, 0, 1 << bit, 1 << bit]))
    write("api/rope_in_place", bytes([11, 1, 1, 1, 3, 4, 0, 1, 0, 33, 0]))
    # One change of a call: the first eight bytes are sizes, then types, options, kernel, queue, no
    # further options, no host arrays.
    call = bytes([0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1])
    for tensor in (0, 1, 3):
        for what in range(11):
            write(f"api/tensor_{tensor}_{what}", call + bytes([1, 0, tensor, what, 49 if what < 9 else 6]))
        for handle in (0, 32, 33, 34, 35, 36):
            write(f"api/tensor_{tensor}_buffer_{handle}", call + bytes([1, 0, tensor, 11, handle]))
        write(f"api/tensor_{tensor}_past_its_end", call + bytes([1, 0, tensor, 8, 128, 192]))
        write(f"api/tensor_{tensor}_steps_of_0", call + bytes([2, 0, tensor, 4, 0, 0, tensor, 0, 14]))
    for change in (8, 9, 10, 11, 14, 15):
        for field in range(8):
            write(f"api/change_{change}_{field}", call + bytes([1, change, field, 50, field]))
    # Inputs that once ended a run: a bias of an invalid type; a layer with more rows than 32 bits
    # count; norms together with positions.
    write("api/good_layer_norm_with_positions", bytes([3, 0, 0, 1, 3, 3, 0, 1, 0, 1, 0, 0, 0, 33, 33]))
    write("api/bias_of_a_huge_type", types + bytes([16, 16, 0, 0, 0, 0, 1, 1, 0, 19, 9, 100]))
    for number in (24, 27, 30, 33):
        write(f"api/layer_rows_past_32_bits_{number}", bytes([3, 0, 0, 0, 0, 0, 0, 1, 5, 3, number, 0]))
    for launch in range(12, 16):
        write(f"api/launch_{launch}", bytes([7, 0, 0, 0, 0, 0, 0, 1, 0, 0, launch]))


if __name__ == "__main__":
    make_api()
    make_npy()
    make_safetensors()
    make_heatmap()
    make_cache()
    make_files()
