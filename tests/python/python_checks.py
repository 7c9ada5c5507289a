"""Shared by the checks of the Python module: the module of a build folder, counted checks, and
attention in float64."""
import os
import sys

import numpy as np

build = sys.argv[1]
sys.path.insert(0, build)
sys.dont_write_bytecode = True
import clattn  # noqa: E402

checks = 0


def check(right, words):
    global checks
    checks += 1
    if not right:
        sys.exit(f"{os.path.basename(sys.argv[0])}: {words}")


def refused(words, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except (clattn.Error, TypeError, ValueError, IndexError) as error:
        check(words in str(error), f"{error!r} does not say {words!r}")
        return error
    return sys.exit(f"{os.path.basename(sys.argv[0])}: not refused: {words}")


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def reference(q, k, v, causal=False, softcap=0.0, window=None, bias=None, mask=None):
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[3])
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
    seen = np.ones(s.shape, bool) if mask is None else np.broadcast_to(mask, s.shape).copy()
    if causal:
        seen &= j <= i
    if window:
        seen &= (j >= i - window[0]) & (j <= i + window[1])
    s = np.where(seen, s, -np.inf)
    return softmax(s) @ v, np.log(np.exp(s).sum(-1)), softmax(s)


def close(got, want, words, tolerance=2e-6):
    got = clattn.from_bf16(got) if got.dtype == clattn.BF16 else got.astype(np.float64)
    error = np.abs(got - want).max()
    check(got.shape == want.shape and error <= tolerance, f"{words}: shape {got.shape}, error {error}")
