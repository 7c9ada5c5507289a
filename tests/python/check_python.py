"""The Python module of a build folder: the layout of every struct and the value of every enum must
equal a C compiler's. Calls are compared with numpy in float64. Also refused arguments and their
messages.

   check_python.py BUILD
"""
import copy
import glob
import importlib
import os
import pickle
import subprocess
import sys
import tempfile
import threading

import numpy as np

import python_checks
from python_checks import check, clattn, close, reference, refused


def structs():
    return [(name, kind) for name, kind in vars(clattn).items() if name.startswith("clattn_") and hasattr(kind, "words")]


def layouts():
    """Returns a C compiler's layout of every struct and field, and its values of enums."""
    lines = ["#include <stdio.h>", "#include <stddef.h>", "#include <clattn/clattn.h>", "int main(void) {"]
    for name, kind in structs():
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        for field in kind.words:
            lines.append(f'    printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));')
    for values in clattn.ENUMS.values():
        lines += [f'    printf("{constant} %d\\n", (int){constant});' for constant, _ in values]
    lines += ["    return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        open(source, "w", encoding="utf-8").write("\n".join(lines))
        subprocess.run(["cc", "-std=c11", "-DCL_TARGET_OPENCL_VERSION=120", "-Iinclude", source, "-o", program], check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    expected = []
    for name, kind in structs():
        expected.append(f"{name} {clattn.c.sizeof(kind)}")
        for field in kind.words:
            at = getattr(kind, field)
            expected.append(f"{name}.{field} {at.offset} {at.size}")
    for values in clattn.ENUMS.values():
        expected += [f"{constant} {value}" for constant, value in values]
    for python, c in zip(expected, said):
        check(python == c, f"Python has {python!r}, C {c!r}")
    check(len(expected) == len(said) and len(structs()) >= 15, f"{len(structs())} structs")
    # Every struct and function of the header exists in the module.
    text = "".join(open(os.path.join("include/clattn", name), encoding="utf-8").read()
        for name in os.listdir("include/clattn") if name != "mpi.h")
    opaque = sum(text.count(f"typedef struct clattn_{name} clattn_{name};") for name in ("context", "group", "recording"))
    check(text.count("typedef struct clattn_") - opaque == len(structs()), "a struct is left out")
    check(text.count("CLATTN_API ") - text.count("define CLATTN_API ") == len(clattn.FUNCTIONS), "a function is left out")


def calls():
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal(shape, np.float32) for shape in ((2, 4, 37, 16), (2, 2, 37, 16), (2, 2, 37, 16)))
    out, lse, p = reference(q, k, v, causal=True)
    close(clattn.attention(q, k, v, causal=True), out, "causal")
    got = clattn.attention(q, k, v, causal=True, lse=True, weights=True)
    for x, want, words in zip(got, (out, lse, p), ("out", "lse", "weights")):
        close(x, want, words)
    bias, mask = random.standard_normal((1, 4, 37, 37), np.float32), random.random((37, 37)) < 0.7
    mask |= np.eye(37, dtype=bool)
    close(clattn.attention(q, k, v, softcap=5.0, window=(7, 3), bias=bias, mask=mask),
          reference(q, k, v, softcap=5.0, window=(7, 3), bias=bias, mask=mask)[0], "many options")
    close(clattn.attention(q, k, v, kv_lengths=[5, 37])[0], reference(q[:1], k[:1, :, :5], v[:1, :, :5])[0][0], "lengths")
    close(clattn.attention(q, k, v, mask_mod="j <= buffer0(b)", mod_buffers=[np.array([3, 36], np.int32)])[:1],
          reference(q[:1], k[:1, :, :4], v[:1, :, :4])[0], "an expression of the caller's")
    half = clattn.attention(q.astype(np.float16), k.astype(np.float16), v.astype(np.float16))
    check(half.dtype == np.float16, "f16 gives f16")
    close(half, reference(q, k, v)[0], "float16", 4e-3)
    close(clattn.attention(clattn.to_bf16(q), clattn.to_bf16(k), clattn.to_bf16(v)), reference(q, k, v)[0], "bfloat16", 3e-2)
    close(clattn.attention(q[:, :, ::2].transpose(0, 1, 2, 3), k, v), reference(q[:, :, ::2], k, v)[0], "a strided array")
    check(clattn.attention(q[:0], k[:0], v[:0]).shape == (0, 4, 37, 16), "an empty batch")
    with clattn.Context(0, cache_dir=None) as context:
        x, w = q.reshape(2, 37, 64), [random.standard_normal((64, 64), np.float32) / 8 for _ in range(4)]
        heads = lambda y: (x.astype(np.float64) @ y.T).reshape(2, 37, 4, 16).transpose(0, 2, 1, 3)
        inner = reference(*(heads(y) for y in w[:3]))[0].transpose(0, 2, 1, 3).reshape(2, 37, 64)
        got = context.layer(x, wq=w[0], wk=w[1], wv=w[2], wo=w[3], heads=4, projection="native")
        close(got, inner @ w[3].T, "a layer", 1e-5)
        close(context.linear(x, w[0], projection="native"), x @ w[0].T.astype(np.float64), "a projection", 1e-5)
        results = [None] * 4

        def work(n):
            results[n] = context.attention(q * (n + 1), k, v)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        for n in range(4):
            close(results[n], reference(q * (n + 1), k, v)[0], f"thread {n}", 1e-5)
    refused("the context is closed", context.attention, q, k, v)
    context.close()


def library_name(status):
    return clattn.library().clattn_status_name(status).decode()


def refusals():
    x = np.zeros((1, 1, 4, 8), np.float32)
    error = refused("k", clattn.attention, x, x[..., :4], x)
    check(error.status == clattn.CLATTN_INVALID_ARGUMENT and error.name == library_name(error.status), f"{error.status} is {error.name}")
    refused("did you mean softcap", clattn.attention, x, x, x, softcapp=3.0)
    refused("is none of", clattn.attention, x, x, x, alignment="middle")
    refused("float64 are not taken", clattn.attention, x.astype(np.float64), x, x)
    refused("5 axes", clattn.attention, x, x, x, mask=np.ones((1, 1, 1, 4, 4), bool))
    refused("is for C alone", clattn.attention, x, x, x, workspace=3)
    refused("there is no device 99", clattn.Context, 99)
    refused("devices are called", clattn.Context, "no device has this name")
    refused("line", clattn.Context, 0, tuned_rows="not a row")
    close(clattn.attention(x, x, x), x.astype(np.float64), "the context goes on")
    values = np.float32([0.0, -1.5, np.inf, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38])
    rounded = np.float32([0.0, -1.5, np.inf, 1, 1 + 2**-6, 1 + 2**-7, np.inf])
    check(np.array_equal(clattn.from_bf16(clattn.to_bf16(values)), rounded), "bfloat16 rounds to nearest, ties to even")
    check(np.isnan(clattn.from_bf16(clattn.to_bf16(np.float32([np.nan, 1.0])))[0]), "bfloat16 keeps NaN")


def lengths():
    """Lengths of host arrays are checked by the header's comments. If a field's comment has no
    length, generating the module fails."""
    q, k = np.ones((3, 4, 5, 8), np.float32), np.ones((3, 2, 6, 8), np.float32)
    arrays = {**clattn.clattn_score.host_lengths, **clattn.clattn_kv.host_lengths, **clattn.clattn_attention_params.host_lengths}
    check(set(arrays.values()) == {"B", "H", "B+1"} and len(arrays) == 9, f"{arrays}")
    for name, letter in arrays.items():
        sequences = {"sequences": 3} if letter == "B+1" else {}
        count = {"B": 3, "H": 4, "B+1": 4}[letter]
        for wrong in ([1] * (count - 1), [1] * (count + 1), [[1] * count], 5, np.int32(1), []):
            refused(f"{name}: shape {np.shape(wrong)} was given, [{letter}] is wanted, ({count},)", clattn.attention, q, k, k, **sequences,
                **{name: wrong})
    refused("[B+1] is wanted, (4,)", clattn.layer, q[0], wq=q[0, 0], wk=q[0, 0], wv=q[0, 0], wo=q[0, 0], heads=1, cu_seqlens_q=[0, 1],
        sequences=3)
    refused("q, k, v are taken by place", clattn.attention_plan, q, q, q, True)
    refused("heads: an integer", clattn.layer_plan, np.ones((1, 2, 8), np.float32), wo=np.ones((8, 8), np.float32))
    refused("axes", clattn.dropout_mask, (1, 1, 1, 2, 2), dropout=0.5)
    refused("block_mask: an array or a Buffer", clattn.block_mask, q, q, mask_mod="j <= i", block_mask=[[1]])
    refused("offsets: 2147483648", clattn.rope, q, layout="half", offsets=np.full(3, 2**31, np.float32))
    refused("offsets: shape (1,) was given, [B] is wanted, (3,)", clattn.rope, q, layout="half", offsets=[1])
    with tempfile.TemporaryDirectory() as folder:
        head = open("include/clattn/rope.h", encoding="utf-8").read()
        files = [os.path.join(folder, name) for name in ("_abi.py", "rope.h")]
        for text in (head.replace("/* [B], host memory", "/* host memory"), head.replace("[B], host memory", "[B, H], host memory")):
            check(text != head, "offsets of rope.h has its length in its comment")
            open(files[1], "w", encoding="utf-8").write(text)
            rest = [name for name in glob.glob("include/clattn/*.h") if not name.endswith(("rope.h", "mpi.h", "clattn.h"))]
            # which other headers include
            first = ["tensor", "runtime", "opencl", "attention", "backward"]
            order = sorted(rest, key=lambda name: first.index(stem) if (stem := os.path.basename(name)[:-2]) in first else len(first))
            done = subprocess.run([sys.executable, "src/bindings/python/generate.py", files[0], "lib", "/a", "/b", "/c", *order[:3], files[1],
                *order[3:]],
                                  capture_output=True, text=True)
            check("clattn_rope_params.offsets" in done.stderr and "length" in done.stderr, f"a field without its length: {done.stderr!r}")


def values():
    """Values that do not fit a field are refused. Values of another type that fit are accepted."""
    x = np.ones((2, 2, 4, 8), np.float32)
    attend = lambda **options: clattn.attention(x, x, x, **options)
    for name, wrong in (("window", (2**32 + 1, 0)), ("window", (0, -2**31 - 1)), ("splits", 2**32), ("offset", 2**31), ("offset", -2**40),
        ("dropout_seed", 2**64),
                        ("dropout_seed", -1), ("kv_lengths", np.array([2**32 + 3, 1])), ("kv_lengths", [2**31, 1]),
                            ("offsets", [1, -2**31 - 1]), ("softcap", 1e300),
                        ("sinks", [1e300, 0]), ("kernel", 2**32 + 1), ("page_size", 2**32)):
        refused("does not fit", attend, **{name: wrong})
    refused("heads: 4294967298 does not fit", clattn.layer, x[0], wq=x[0, 0], wk=x[0, 0], wv=x[0, 0], wo=x[0, 0], heads=2**32 + 2)
    refused("rotary_dim: 4294967304 does not fit", attend, rope={"layout": "half", "rotary_dim": 2**32 + 8})
    refused("does not fit int32", attend, mask_mod="j <= buffer0(b)", mod_buffers=[np.array([3, 2**32 + 3])])
    refused("start: 4294967296 does not fit", clattn.append, x, x, k=clattn.Buffer(x), v=clattn.Buffer(x), start=2**32)
    for name, wrong in (("splits", 1.5), ("kv_lengths", [2.7, 3.2]), ("kv_lengths", [True, False]), ("offset", "3"),
        ("offset", None.__class__), ("heads", 1)):
        refused(name, attend, **{name: wrong})
    for name, wrong in (("causal", "no"), ("causal", 2), ("causal", np.ones(1)), ("softcap", "30"), ("softcap", [1.0]), ("softcap", True),
        ("splits", True),
                        ("score_mod", 3), ("mask_mod", ["j <= i"]), ("sinks", ["a", "b"]), ("sinks", None.__class__), ("rope", "half"),
                            ("progress", 3), ("window", "all")):
        refused(f"{name}: ", attend, **{name: wrong})
    refused("window: (left, right) is taken", attend, window=(1, 2, 3))
    refused("NUL", attend, score_mod="score\0 ; }")
    refused("NUL", clattn.Context, cache_dir="a\0b")
    check(not os.path.exists("a"), "no folder of half a name")
    refused("cache_dir: a text is taken", clattn.Context, cache_dir=7)
    # fields that are not for Python are refused, with any value
    for name, word in clattn.clattn_context_params.words.items():
        if name not in ("device", "log"):
            for wrong in (4096, object(), [4096], {"fn": 4096, "create": 4096, "load": 4096, "allocate": 4096}):
                if not (isinstance(wrong, int) and word in clattn.INTEGERS):
                    refused(name if not isinstance(wrong, dict) else "", clattn.Context, **{name: wrong})
    for name in ("context", "log"):
        refused("is for C alone", clattn.Context, **{name: 4096})
    refused("is for C alone", attend, workspace=4096)
    refused("auto, unfused, flash, decode", attend, kernel="fast")
    refused("is none of", attend, kernel=17)
    check(clattn.kernel_names() == ["auto", "unfused", "flash", "decode"], f"{clattn.kernel_names()}")
    refused("q: shape () was given, [B, H, Nq, D] is wanted", clattn.attention, np.float32(1), x, x)
    refused("q: shape (4, 8) was given", clattn.attention, x[0, 0], x, x)
    refused("k: an array or a Buffer [B, Hkv, Nkv, D] is needed", clattn.attention, x, None, x)
    refused("q: ", clattn.attention, [["a"]], x, x)
    refused("q: arrays of object are not taken", clattn.attention, object(), x, x)
    refused("k: ", clattn.attention, x, x.astype(complex), x)
    refused("past_k: shape (2, 4, 8) was given", attend, past_k=x[0], past_v=x[0], weights=True)
    refused("rope: base is given, layout is not", attend, rope={"base": 1e5})
    refused("rope: base is given, layout is not", clattn.rope, x, base=1e5)
    refused("sections: 3 numbers are taken", attend, rope={"layout": "half", "sections": [1, 2]})
    refused("mod_buffers: a list", attend, mod_buffers=5)
    refused("out: 5 is no type", attend, out=5)
    refused("weights: arrays of f17 are not taken", attend, weights="f17")
    refused("mod_buffers: 5 were given, at most 4", attend, mod_buffers=[x] * 5)
    random = np.random.default_rng(7)
    q, k = random.standard_normal((2, 4, 5, 16), np.float32), random.standard_normal((2, 2, 6, 16), np.float32)
    plain = clattn.attention(q, k, k)
    bias = random.standard_normal((5, 6), np.float32)
    big = clattn.attention(q.astype(">f4"), k.astype(">f4"), k.astype(">f4"), bias=bias.astype(">f4"))
    check(big.dtype.isnative and np.array_equal(big, clattn.attention(q, k, k, bias=bias)), "the other byte order")
    for given in (np.array([4, 5]), np.array([4, 5], ">i4"), np.array([4, 5], np.uint8), [4.0, 5.0], (4, 5),
        np.array([9, 4, 9, 5], np.int64)[1::2]):
        close(clattn.attention(q, k, k, kv_lengths=given)[:1], reference(q[:1], k[:1, :, :4], k[:1, :, :4])[0], "lengths of another type")
    check(np.array_equal(clattn.attention(q, k, k, splits=np.int64(0), causal=np.bool_(False), softcap=np.float64(0), offset=0.0), plain),
        "numbers of numpy's")
    for name in ("bottom_right", "bottom-right", "CLATTN_ALIGN_BOTTOM_RIGHT", 1):
        check(np.array_equal(clattn.attention(q, k, k, causal=True, alignment=name),
            clattn.attention(q, k, k, causal=True, offset=1, alignment="offset")), name)
    table, pool = [[1, 0], [0, 2]], random.standard_normal((3, 2, 3, 16), np.float32)
    paged = np.stack([np.concatenate([pool[n] for n in row], 1) for row in table])
    close(clattn.attention(q, pool, pool, block_table=table, page_size=3), reference(q, paged, paged)[0], "a block table that is a list")
    turned = clattn.attention(q, k, k, rope={"layout": "half", "positions": np.arange(5)[None], "k_positions": np.arange(6)[None]})
    check(np.array_equal(turned, clattn.attention(q, k, k, rope={"layout": "half"})), "positions of int64")
    axes = np.stack([np.arange(5)[None]] * 3), np.stack([np.arange(6)[None]] * 3)
    for sections in ([2, 3, 3], (2, 3, 3), np.array([2, 3, 3])):
        close(clattn.attention(q, k, k, rope={"layout": "half", "positions": axes[0], "k_positions": axes[1], "sections": sections}),
            turned.astype(np.float64), "sections")
    pairs = lambda factors, **more: {"layout": "half", "scaling": "pairs", "pair_factors": factors, **more}
    linear = clattn.attention(q, k, k, rope={"layout": "half", "scaling": "linear", "factor": 4})
    close(clattn.attention(q, k, k, rope=pairs([4] * 8)), linear.astype(np.float64), "factors of pairs")
    close(clattn.rope(q, **pairs([np.inf] * 8, attention_factor=0.5)), q * 0.5, "pairs without rotation")
    refused("rope.pairs: 7 factors: R/2 = 8", clattn.attention, q, k, k, rope=pairs([1] * 7))
    refused("pair_factors: shape (2, 4) was given", clattn.attention, q, k, k, rope=pairs(np.ones((2, 4))))
    refused("pairs is for C alone", clattn.attention, q, k, k, rope=pairs([1] * 8, pairs=8))
    for buffers, n in (([None, np.array([3, 3])], 1), (np.array([3, 3]), 0), ([np.array([3, 3])], 0)):
        close(clattn.attention(q, k, k, mask_mod=f"j <= buffer{n}(b)", mod_buffers=buffers), reference(q, k[:, :, :4], k[:, :, :4])[0],
            "mod_buffers")


def results():
    """The returned values and their shapes, and the contents of rows that the call does not write.
    """
    random = np.random.default_rng(8)
    q, k = random.standard_normal((2, 4, 5, 16), np.float32), random.standard_normal((2, 2, 6, 16), np.float32)
    out, lse, p = reference(q, k, k)
    for _ in range(3):
        dirty = np.full((2, 4, 5, 16), np.nan, np.float32)
        del dirty
        got = clattn.attention(q, k, k, q_lengths=[2, 5], lse=True)
        check(not got[0][0, :, 2:].any() and np.isfinite(got[0]).all(), "rows past q_lengths are zero")
        check(not got[1][0, :, 2:].any(), "lse past q_lengths is zero")
    into, lse_into = np.full_like(q, 9), np.full((2, 4, 5), 9, np.float32)
    back = clattn.attention(q, k, k, q_lengths=[2, 5], out=into, lse=lse_into)
    check(back[0] is into and back[1] is lse_into and (into[0, :, 2:] == 9).all(), "out and lse are written into")
    close(into[1], out[1], "out=")
    close(lse_into[1], lse[1], "lse=")
    refused("out: shape (2, 4, 5, 15) was given, (2, 4, 5, 16) is wanted", clattn.attention, q, k, k, out=into[..., 1:])
    refused("lse: True", clattn.attention, q, k, k, lse="yes")
    half = clattn.attention(q, k, k, out=np.zeros(q.shape, np.float16))
    check(half.dtype == np.float16, "out of another type")
    s = np.einsum("bhid,bhjd->bhij", q.astype(np.float64), np.repeat(k, 2, 1)) / 4
    for tap in (0, "raw", "RAW"):
        close(clattn.attention(q, k, k, scores=tap)[1], s, f"the tap {tap!r}")
    taps = np.zeros(s.shape, np.float32)
    clattn.attention(q, k, k, scores=taps, scores_at="softmax")
    close(taps, p, "a tap into an array")
    w = {name: random.standard_normal((64, 64), np.float32) / 8 for name in ("wq", "wk", "wv", "wo")}
    x = random.standard_normal((2, 5, 64), np.float32)
    got = clattn.layer(x, heads=4, lse=True, weights="float16", scores="raw", projection="native", **w)
    check([y.shape for y in got] == [(2, 5, 64), (2, 4, 5), (2, 4, 5, 5), (2, 4, 5, 5)] and got[2].dtype == np.float16, "a layer's results")
    check(clattn.layer(x, heads=4, out=x.copy(), projection="native", **w).shape == x.shape, "a layer's out")
    for rows in (x[0], x[0, 0]):
        got = clattn.linear(rows, w["wq"], projection="native")
        close(got, rows.astype(np.float64) @ w["wq"].T, "a projection of fewer axes", 1e-5)
        check(clattn.linear(rows, w["wq"], out=np.zeros_like(rows), projection="native").shape == rows.shape, "into fewer axes")
    past = clattn.attention(q, k[:, :, :2], k[:, :, :2], past_k=k[:, :, 2:], past_v=k[:, :, 2:], weights=True)
    check(past[1].shape == (2, 4, 5, 6), "weights beside a past count both")
    flat = np.concatenate([q[0, :, :2], q[1, :, :5]], 1)[None]
    keys = np.concatenate([k[0, :, :3], k[1]], 1)[None]
    ends, key_ends = np.array([0, 2, 7]), np.array([0, 3, 9])
    for bounds in ({}, {"max_q": 8, "max_kv": 9}, {"kv_lengths": [3, 4]}):
        got = clattn.attention(flat, keys, keys, cu_seqlens_q=ends, cu_seqlens_kv=key_ends, weights=True, scores="raw", lse=True, **bounds)
        shape = (2, 4, bounds.get("max_q", 5), bounds.get("max_kv", 6))
        check(got[0].shape == flat.shape and got[1].shape == (1, 4, 7) and got[2].shape == got[3].shape == shape,
            f"a ragged batch: {got[2].shape}")
        close(got[2][0, :, :2, :3], reference(q[:1, :, :2], k[:1, :, :3], k[:1, :, :3])[2][0], "weights of a ragged batch")
    rows = random.standard_normal((1, 7, 64), np.float32)
    got = clattn.layer(rows, heads=4, cu_seqlens_q=ends, weights=True, projection="native", **w)
    check(got[0].shape == rows.shape and got[1].shape == (2, 4, 5, 5), "a ragged layer")
    check(clattn.attention(q[:0], k[:0], k[:0], k_new=None, block_table=np.zeros((0, 3), np.int32), page_size=6).shape == (0, 4, 5, 16),
        "no items, and pages of none")
    check(clattn.attention(flat[:, :, :0], keys[:0], keys[:0], cu_seqlens_q=[0], kv_lengths=[]).shape == (1, 4, 0, 16), "no sequences")


def lifetimes():
    """close() waits for another thread's call, logs are limited, and a context that a script does
    not close still stores its kernels."""
    x = np.ones((1, 2, 64, 16), np.float32)
    context, started, closed = clattn.Context(), threading.Event(), threading.Event()
    seen = []

    def tell(done):
        started.set()
        seen.append(closed.wait(0.3))

    def end():
        started.wait()
        context.close()
        closed.set()

    thread = threading.Thread(target=end)
    thread.start()
    context.attention(x, x, x, progress=tell)
    thread.join()
    check(seen and not any(seen) and context.handle is None, "close() waits for the call")
    inside = clattn.Context()
    refused("from inside a call", inside.attention, x, x, x, progress=lambda done: inside.close())
    check(np.array_equal(inside.attention(x, x, x), clattn.attention(x, x, x)), "the context goes on")

    refused("not copied", copy.copy, inside)
    refused("cancel", inside.attention, x, x, x, kernel="unfused", progress=lambda done: np.False_)
    # A group that is created while its context is closing is destroyed with the context.
    context, made = clattn.Context(), []

    def make(done):
        if not made:
            made.append(threading.Thread(target=context.close))
            made[0].start()
            made[0].join(0.2)
            made.append(clattn.Group([context]))
    context.attention(x, x, x, progress=make)
    made[0].join()
    check(context.handle is None and made[1].handle is None, "a group that is made beside close()")
    # PoCL 3.1 initialises itself in its first query. Contexts of several threads must make these
    # queries one after another.
    script = f"import sys; sys.path.insert(0, {sys.argv[1]!r}); import clattn, threading\nfor t in [threading.Thread(target=clattn.Context) " \
             "for _ in range(6)]: t.start()"
    check(all(subprocess.run([sys.executable, "-B", "-c", script]).returncode == 0 for _ in range(3)), "contexts of several threads")

    class Stop(ValueError):
        pass

    def stop(done):
        raise Stop("stop")
    check(isinstance(refused("stop", inside.attention, x, x, x, progress=stop), Stop), "an exception of a callback is raised")
    for _ in range(50):
        refused("k", inside.attention, x, x[..., :8], x)
    check(0 < len(inside._log.said) <= 20, f"{len(inside._log.said)} lines are kept")
    inside.close()
    with tempfile.TemporaryDirectory() as folder:
        script = f"import sys; sys.path.insert(0, {sys.argv[1]!r}); import clattn, numpy as np\nc = clattn.Context(cache_dir={folder!r})\n" \
                 "x = np.ones((1, 1, 4, 8), np.float32)\nc.attention(x, x, x)\ng = clattn.Group([c])\nleft = clattn.Buffer(x, context=c)"
        subprocess.run([sys.executable, "-B", "-c", script], check=True)
        # clattn reads no binaries from PoCL, so the folder stays empty
        # (src/lib/device/driver_quirks.c).
        unkept = "PoCL " in clattn.devices()[0]["platform"]
        check(unkept or os.listdir(folder), "a context that is left open keeps its kernels")
        forked = script + "\nimport os, sys\npid = os.fork()\nif pid: sys.exit(os.waitpid(pid, 0)[1] // 256)\nc.close()\nif not c.handle: sys.exit(2)\n" \
                          "try:\n    c.attention(x, x, x)\nexcept ValueError as error:\n    sys.exit(0 if \"another process's\" in str(error) else 3)"
        check(subprocess.run([sys.executable, "-B", "-c", forked]).returncode == 0, "a child of fork leaves its parent's context alone")


def package():
    """The modules of the package, the names of its classes, and each way to find and start it."""
    modules = [f"clattn.{os.path.basename(name)[:-3]}" for name in glob.glob("src/bindings/python/clattn/[a-z]*.py")]
    for name in (*modules, "clattn._abi"):
        module = importlib.import_module(name)
        check(module.__name__ == name and module.__doc__ and os.path.dirname(module.__file__) == clattn.__path__[0], name)
    check(len(modules) >= 13 and os.path.samefile(clattn.__file__, os.path.join(clattn.__path__[0], "__init__.py")), clattn.__file__)
    check(os.path.samefile(os.path.dirname(clattn.library()._name), sys.argv[1]), f"the library is {clattn.library()._name}")
    for name in clattn.__all__:
        value = getattr(clattn, name)
        check(not callable(value) or value.__module__ == "clattn", f"{name} is another module's")
    check(clattn._Call is importlib.import_module("clattn.call")._Call, "a name of a module")
    check(not hasattr(clattn, "nothing") and not hasattr(clattn, "__nothing__"), "a name that is nowhere")
    error = refused("k", clattn.attention, *[np.ones((1, 1, 2, n), np.float32) for n in (8, 4, 8)])
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        check(type(same) is clattn.Error and (same.status, same.name, str(same)) == (error.status, error.name, str(error)), repr(same))
    there = {**os.environ, "PYTHONPATH": sys.argv[1]}
    for way in (["-m", "clattn"], ["-I", os.path.join(sys.argv[1], "clattn.py")], ["-c", "import clattn; clattn.main()"]):
        done = subprocess.run([sys.executable, "-B", *way, "--version"], env=there, capture_output=True, text=True)
        check(done.stdout.startswith("clattn ") or not os.path.exists(os.path.join(sys.argv[1], "clattn")), f"{way}: {done}")
    # Threads that import at once, without docstrings, and a module of the package first.
    script = "import threading, sys\ndef load():\n    import clattn.buffer, clattn\n    clattn.Group, clattn.attention_plan; found.append(1)\n" \
             "found = []; many = [threading.Thread(target=load) for _ in range(8)]\nfor t in many: t.start()\n" \
             "for t in many: t.join()\nsys.exit(len(found) != 8)"
    check(subprocess.run([sys.executable, "-B", "-OO", "-c", script], env=there).returncode == 0, "imports of several threads")


package()
layouts()
lengths()
values()
results()
lifetimes()
listed = clattn.devices()
check(listed and listed[0]["name"] and listed[0]["compute_units"] >= 1, "devices")
calls()
refusals()
print(f"{python_checks.checks} checks, {len(structs())} structs, {len(clattn.FUNCTIONS)} functions")
