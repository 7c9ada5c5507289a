#!/usr/bin/env python3
"""One causal call of an installed clattn, compared with numpy.

   attend_installed.py WORD       a word that the platform's name must contain
"""
import sys

import clattn
import numpy as np

q, k, v = np.random.default_rng(1).standard_normal((3, 2, 4, 33, 64)).astype("float32")
s = q.astype("float64") @ k.swapaxes(2, 3) / 8
s[..., np.triu(np.ones((33, 33), bool), 1)] = -np.inf
p = np.exp(s - s.max(-1, keepdims=True))
error = np.abs(clattn.attention(q, k, v, causal=True) - p / p.sum(-1, keepdims=True) @ v).max()
assert error < 1e-5, error
assert sys.argv[1] in clattn.devices()[0]["platform"], clattn.devices()[0]
print(clattn.__file__)
