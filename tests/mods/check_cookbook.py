"""Every recipe of docs/cookbook.md, compared with NumPy code for its meaning, with and without a
block mask.

   check_cookbook.py BUILD
"""
import os
import re
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import python_checks  # noqa: E402
from python_checks import check, clattn, softmax  # noqa: E402

BATCH, HEADS, ROWS, SIZE = 2, 3, 96, 16
random = np.random.default_rng(7)
i, j = np.arange(ROWS)[:, None], np.arange(ROWS)[None, :]
documents = np.sort(random.integers(0, 5, (BATCH, ROWS)), 1).astype(np.int32)
prefixes, pads = np.array([0, 11], np.int32), np.array([9, 40], np.int32)
intervals = np.array([[0, 70], [10, 50], [30, 96]], np.int32)
blocks = np.eye(6, dtype=bool) | (random.random((HEADS, 6, 6)) < 0.3)
slopes = np.array([0.5, 0.25, 0.125], np.float32)
everywhere = random.random(ROWS) < 0.05
answers, prompts = np.repeat(np.arange(8), 12).astype(np.int32), np.array([0, 0, 0, 3, 3, 3, 6, 6], np.int32)
tree = np.tril(random.random((40, 40)) < 0.3) | np.eye(40, dtype=bool)
distances, lengths = (random.integers(0, most, (BATCH, ROWS, ROWS)).astype(np.int32) for most in (7, 3))
kinds, of_edges = random.integers(0, 5, (BATCH, ROWS, ROWS, 2)).astype(np.int32), random.standard_normal((HEADS, 2, 5)).astype(np.float32)
waves = np.cos(np.arange(ROWS)[:, None] / 10000 ** (np.arange(64) / 64)).sum(1).astype(np.float32)
factors = (HEADS / (8 * np.arange(1, HEADS + 1))).astype(np.float32)
bias, products = (random.standard_normal(shape).astype(np.float32) for shape in ((HEADS, 32), (BATCH, HEADS, ROWS, ROWS)))


def near(places, sizes, window):
    """Returns true if key j is in the window around row i, shifted to lie inside the picture. An
    even window has one more key before the row."""
    seen = np.ones((len(places[0]),) * 2, bool)
    for place, size, width in zip(places, sizes, window):
        first = np.clip(place - width // 2, 0, size - width)
        seen &= (place[None] >= first[:, None]) & (place[None] < first[:, None] + width)
    return seen


def tiled(counts, tiles):
    """The coordinates of tokens that are stored tile by tile."""
    grid = np.indices([n // t for n, t in zip(counts, tiles)] + list(tiles)).reshape(2 * len(counts), -1)
    return [grid[n] * tiles[n] + grid[len(counts) + n] for n in range(len(counts))]


def bits(numbers, first):
    return sum((numbers >> first + 2 * n & 1) << n for n in range(3))


def bucket(distance):
    """T5's relative_position_bucket of transformers: both directions, 32 buckets, distances up to
    128."""
    far = 8 + (np.log(np.maximum(np.abs(distance), 1) / 8) / np.log(16) * 8).astype(int)
    return np.where(distance > 0, 16, 0) + np.where(np.abs(distance) < 8, np.abs(distance), np.minimum(far, 15))


token = np.arange(ROWS)
picture, video = tiled((8, 8), (2, 2)), tiled((4, 6, 4), (1, 2, 2))
in_tiles = np.ones((ROWS, ROWS), bool)
in_tiles[:64, :64] = [[all(abs(min(max(a[n] // 2, 1), 2) - c[n] // 2) <= 1 for n in (0, 1)) for c in zip(*picture)] for a in zip(*picture)]
frames = [place // size for place, size in zip(video, (1, 2, 2))]
# For each recipe: the visible keys or the resulting score, and its buffers.
MEANS = {
    "Causal": (j <= i,),
    "Sliding window": ((j <= i) & (j > i - 6),),
    "Dilated sliding window": (np.isin(i - j, (-6, -4, -2, 0, 2, 4, 6)),),
    "Prefix": (np.stack([j <= np.maximum(i, n - 1) for n in prefixes])[:, None], prefixes),
    "Documents": ((documents[:, :, None] == documents[:, None])[:, None], documents),
    "Causal documents": ((documents[:, :, None] == documents[:, None])[:, None] & (j <= i), documents),
    "Attention sinks": ((j <= i) & ((j >= i - 5) | (j < 3)),),
    "Neighbourhood": (near((token // 8, token % 8), (12, 8), (3, 3)),),
    "Tiled neighbourhood": (near(tiled((12, 8), (2, 4)), (12, 8), (3, 3)),),
    "Neighbourhood along a Morton curve": (near((bits(token[:64], 1), bits(token[:64], 0)), (8, 8), (3, 3)),),
    "Sliding tiles": (in_tiles,),
    "Sliding tiles of a video": (near(frames, (4, 3, 2), (3, 2, 1)),),
    "Pictures between text": ((i >= np.repeat(intervals[:, 0], 32)) & (i < np.repeat(intervals[:, 1], 32)), intervals),
    "Frames near each other": ((i < 5) | (j < 18) | (np.abs(i - j) <= 25),),
    "The same place in all frames": ((i < 5) | (j < 5) | (np.abs((i - 5) % 13 - (j - 5) % 13) <= 2),),
    "Window and global tokens": (~((np.abs(i - j) > 6) & ~everywhere[:, None] & ~everywhere), everywhere),
    "Answers to one prompt": (np.array([[(answers[r] == answers[c] and c <= r) or (prompts[answers[r]] == answers[c] != answers[r])
                                         for c in token] for r in token]), answers, prompts),
    "Block diffusion": (np.block([[np.kron(np.eye(6), np.ones((8, 8))), np.kron(np.tri(6, 6, -1), np.ones((8, 8)))],
                                  [np.zeros((48, 48)), np.kron(np.tri(6), np.ones((8, 8)))]]) > 0,),
    "A drafted tree": (np.concatenate([np.ones((40, 56), bool), tree], 1), tree),
    "Drafted blocks": (np.concatenate([np.ones((72, 24)), np.kron(np.eye(9), np.tri(8))], 1) > 0,),
    "Padding on the left": ((j >= pads[:, None, None])[:, None], pads),
    "Random blocks": (np.repeat(np.repeat(blocks, 16, 1), 16, 2), blocks),
    "ALiBi": (lambda s: s - slopes[:, None, None] * np.abs(i - j), slopes),
    "Soft cap": (lambda s: 20 * np.tanh(s / 20),),
    "Relative positions": (lambda s: s + 0.125 * (j - i),),
    "T5's buckets": (lambda s: s + bias[:, bucket(j - i)], bias),
    "Latent attention's positions": (lambda s: s + products, products),
    "Sandwich": (lambda s: s + waves[np.abs(i - j)] * factors[:, None, None], waves, factors),
    "Distances in a graph": (lambda s: s + bias.T[distances].transpose(0, 3, 1, 2), bias, distances),
    "Edges in a graph": (lambda s: s + sum(np.where(lengths[:, None] > n, of_edges[:, n].T[kinds[..., n]].transpose(0, 3, 1, 2), 0)
                                           for n in (0, 1)) / np.maximum(lengths, 1)[:, None], of_edges, kinds, lengths),
    "Another function in place of the softmax": (lambda s: np.log(np.maximum(s, 0) + 1),),
}

with open("docs/cookbook.md") as file:
    recipes = {name: (kind, text) for name, kind, text in
               re.findall(r"^### ([^\n]+)\n(?:(?!^#)[^`]|`(?!``))*```mod\n(mask_mod|score_mod): (.*?)\n```", file.read(), re.S | re.M)}
check(list(recipes) == list(MEANS), f"recipes and what they mean differ: {set(recipes) ^ set(MEANS) or 'their order'}")
tensors = [2 * random.standard_normal((BATCH, HEADS, ROWS, SIZE)).astype(np.float32) for _ in "qkv"]
share = int(sys.argv[2]) if len(sys.argv) > 2 else 1
taken = [name for n, name in enumerate(recipes) if n % share == 0]
for name in taken:
    kind, text = recipes[name]
    means, *buffers = MEANS[name]
    q, k, v = (x[:, :, :means.shape[-1 - (n == 0)]] if kind == "mask_mod" else x for n, x in enumerate(tensors))
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 1, 3, 2) / 4
    changed = np.where(means, scores, -np.inf) if kind == "mask_mod" else means(scores)
    check(kind == "score_mod" or 0.01 < np.mean(means) < 0.99, f"{name}: it hides nothing, or all")
    with np.errstate(invalid="ignore"):
        want = np.nan_to_num(softmax(changed)) @ v.astype(np.float64)
    given = {kind: text, "mod_buffers": buffers} if buffers else {kind: text}
    if kind == "mask_mod":
        got = [clattn.attention(q, k, v, **given), clattn.attention(q, k, v, **given, block_mask=clattn.block_mask(q, k, **given))]
    else:
        got = [clattn.attention(q, k, v, **given)]
    for n, out in enumerate(got):
        error = np.abs(out - want).max()
        check(error < 1e-5, f"{name}{', by its block mask' if n else ''}: {error:.3g} apart")
q, k, v = tensors
out, lse = clattn.attention(q, k, v, score_mod=recipes["Another function in place of the softmax"][1], lse=True)
want = np.maximum(q.astype(np.float64) @ k.astype(np.float64).transpose(0, 1, 3, 2) / 4, 0) @ v.astype(np.float64)
error = np.abs(out * np.exp(lse)[..., None] - v.sum(2, keepdims=True) - want).max()
check(error < 1e-5 * np.abs(want).max(), f"a function in place of the softmax: {error:.3g} apart")
print(f"counted: {len(taken)} of {len(recipes)} recipes, {python_checks.checks} checks")
