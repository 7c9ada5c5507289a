"""A layer learns to copy. Each row has a token and its position, and the layer must output the
token of the previous row. Attention has to find that row by its position. Plain gradient descent on
any OpenCL device: one call forward, one call for all gradients.
    python3 train.py
"""
import numpy as np

import clattn

BATCH, ROWS, TOKENS, HEADS, SIZE, STEPS, RATE = 16, 8, 8, 2, 16, 400, 1.0
random = np.random.default_rng(1)


def batch():
    """x [B, N, tokens + positions], with one number each, and the token of the previous row. The
    first row copies itself."""
    tokens = random.integers(0, TOKENS, (BATCH, ROWS))
    before = np.concatenate([tokens[:, :1], tokens[:, :-1]], 1)
    one = np.eye(TOKENS, dtype=np.float32)
    places = np.broadcast_to(np.eye(ROWS, dtype=np.float32), (BATCH, ROWS, ROWS))
    return np.concatenate([one[tokens], places], 2), one[before]


def main():
    width, inner = TOKENS + ROWS, HEADS * SIZE
    shapes = {"wq": (inner, width), "wk": (inner, width), "wv": (inner, width), "wo": (TOKENS, inner)}
    weights = {name: (random.standard_normal(shape) * 0.3).astype(np.float32) for name, shape in shapes.items()}
    first = last = kept = None
    for step in range(STEPS):
        x, wanted = batch()
        out, kept = clattn.layer_forward(x, kept=kept, heads=HEADS, causal=True, **weights)
        wrong = out - wanted
        last = float((wrong ** 2).sum() / (BATCH * ROWS) / 2)
        first = last if first is None else first
        if step % 80 == 0 or step == STEPS - 1:
            print(f"step {step}: loss {last:.4f}")
        gradients = clattn.layer_backward(x, wrong / (BATCH * ROWS), kept=kept, heads=HEADS, causal=True, dx=False, **weights)
        for name in weights:
            weights[name] -= RATE * gradients["d" + name]
    assert last < 0.1 * first, "it did not learn"
    print(f"largest difference of the last batch {np.abs(wrong).max():.3f}; the loss fell from {first:.4f} to {last:.4f}")


main()
