"""The Python module of a build folder: the layout of every struct and the value of every enum as a C compiler has them, calls
against numpy in float64, and what is refused with which words.   check_python.py BUILD"""
import os
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
    """What C says of every struct, field and enum."""
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
    # Every struct and function of the header is there.
    text = "".join(open(os.path.join("include/clattn", name), encoding="utf-8").read() for name in os.listdir("include/clattn") if name != "mpi.h")
    opaque = sum(text.count(f"typedef struct clattn_{name} clattn_{name};") for name in ("context", "group"))
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


layouts()
listed = clattn.devices()
check(listed and listed[0]["name"] and listed[0]["compute_units"] >= 1, "devices")
calls()
refusals()
print(f"{python_checks.checks} checks, {len(structs())} structs, {len(clattn.FUNCTIONS)} functions")
