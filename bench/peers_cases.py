"""The cases of bench/peers.py, the targets for each, and the formulas for operations and bytes.

Other files run the cases (peers_runtimes.py, peers_clattn.py) and judge the results
(peers_measure.py).
"""
import dataclasses

SIZE = {"f32": 4, "f16": 2, "bf16": 2}


@dataclasses.dataclass(frozen=True)
class Target:
    """Least ratios to PyTorch, OpenVINO and the best peer, and least percentage of the limit
    `limit_of`; 0: no target.
    """
    torch: float = 0
    openvino: float = 0
    best: float = 0
    limit: float = 0
    limit_of: str = "limit"  # or "loads": multiply-adds with their loads

    def text(self):
        best = "ahead of all" if self.best == 1 else f"{self.best}x best"
        parts = [f"{self.torch}x PyTorch" if self.torch else "", f"{self.openvino}x OpenVINO" if self.openvino else "",
                 best if self.best else "",
                 f"{self.limit:.0f} %{' of FMA with loads' if self.limit_of == 'loads' else ''}" if self.limit else ""]
        return ", ".join(p for p in parts if p)


# The engine that a CPU computes bfloat16 with, which sets its targets: "amx", "dot" (AVX-512's dot
# product) or "plain".
KINDS = ("amx", "dot", "plain")


def same(**target):
    return {kind: Target(**target) for kind in KINDS}


@dataclasses.dataclass(frozen=True)
class Case:
    op: str  # attend, decode, layer, linear, backward, or train: a layer and all its gradients
    dtype: str
    b: int
    heads: int
    n: int
    d: int
    targets: dict  # by kind of CPU
    causal: bool = False
    n_kv: int = 0
    kv_heads: int = 0
    weights: bool = False
    model: str = ""
    quick: bool = False

    def __post_init__(self):
        object.__setattr__(self, "n_kv", self.n_kv or self.n)
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)

    @property
    def projects(self):
        return self.op in ("layer", "linear", "train")

    @property
    def width(self):
        return self.heads * self.d

    @property
    def name(self):
        """The case's name in clattn's tests, verify and bench (src/verification/case/case.h). train
        is two calls and has no such name.
        """
        kv_heads = f"-hkv{self.kv_heads}" if self.kv_heads != self.heads else ""
        n_kv = f"-nkv{self.n_kv}" if self.n_kv != self.n else ""
        width, biases = (f"-m{self.width}", "-biases") if self.projects else ("", "")
        return (f"{self.op}-{self.dtype}-b{self.b}-h{self.heads}{kv_heads}-n{self.n}{n_kv}-d{self.d}{width}"
                f"-{'causal' if self.causal else 'full'}{biases}{'-weights' if self.weights else ''}")

    @property
    def title(self):
        return f"{self.name} ({self.model})" if self.model else self.name

    @property
    def flops(self):
        """4 B H Nq Nkv D operations; half of it for a causal square; 2.5 times that for gradients.

        A layer adds its four projections of 2 B N M^2 each, and twice that for their gradients. A
        linear is one such projection.
        """
        if self.op == "linear":
            return 2 * self.b * self.n * self.width**2
        attention = 4 * self.b * self.heads * self.n * self.n_kv * self.d / (2 if self.causal else 1)
        if self.op == "backward":
            return 2.5 * attention
        if self.op == "train":
            return 3.5 * attention + 24 * self.b * self.n * self.width**2
        return attention + (8 * self.b * self.n * self.width**2 if self.op == "layer" else 0)

    @property
    def kv_bytes(self):
        return 2 * self.b * self.kv_heads * self.n_kv * self.d * SIZE[self.dtype]


def attend(dtype, shape, targets, **options):
    return Case("attend", dtype, *shape, targets, **options)


def decode(dtype, b, **options):
    return Case("decode", dtype, b, 32, 1, 128, same(limit=85), n_kv=4096, kv_heads=8, **options)


def backward(dtype, shape, **options):
    return Case("backward", dtype, *shape, same(torch=1), **options)


def layer(model, b, n, width, heads, targets=None, dtype="f32", **options):
    more = 2.0 if dtype == "bf16" else 0
    targets = targets if targets is not None else {"amx": Target(torch=more or 1.5), "dot": Target(torch=more or 1.35),
        "plain": Target(torch=1.2)}
    return Case("layer", dtype, b, heads, n, width // heads, targets, model=model, **options)


def train(model, b, n, width, heads, dtype="f32", **options):
    return Case("train", dtype, b, heads, n, width // heads, same(torch=1), model=model, **options)


def linear(n, width, dtype="f32", **options):
    more = {"amx": Target(torch=1.0 if n < 1024 else 1.4)} if dtype == "bf16" else {
        "amx": Target(torch=1.1), "dot": Target(limit=88), "plain": Target(limit=80)}
    return Case("linear", dtype, 1, width // 64, n, 64, more, **options)


PREFILL = {"amx": Target(torch=1.35, best=1, limit=90, limit_of="loads"), "dot": Target(best=1, limit=88),
    "plain": Target(best=1, limit=78)}
SMALL = same(torch=2, best=1)
NONE = {}


def bf16_targets(torch, openvino=0):
    return {"amx": Target(torch=torch, openvino=openvino), "dot": Target(torch=2.3), "plain": Target(torch=1.2)}


CASES = (
    attend("f32", (1, 16, 4096, 128), PREFILL),
    attend("f32", (1, 12, 2048, 64), PREFILL),
    attend("f32", (1, 12, 2048, 64), PREFILL, causal=True, quick=True),
    attend("f32", (1, 12, 1024, 64), PREFILL, quick=True),
    attend("f32", (1, 8, 512, 64), PREFILL, quick=True),
    attend("bf16", (1, 16, 4096, 128), bf16_targets(1.8, 3)),
    attend("bf16", (1, 16, 4096, 128), bf16_targets(2.2), causal=True),
    attend("bf16", (1, 12, 1024, 64), bf16_targets(2.5, 2.5), quick=True),
    attend("bf16", (1, 12, 1024, 64), bf16_targets(2.0), causal=True),
    attend("f16", (1, 16, 4096, 128), NONE),
    decode("f32", 1, quick=True),
    decode("f32", 8),
    decode("bf16", 1, quick=True),
    decode("bf16", 8),
    attend("f32", (32, 12, 128, 64), PREFILL, quick=True),
    attend("f32", (1, 12, 77, 64), SMALL, quick=True),
    attend("f32", (64, 12, 16, 64), NONE, quick=True),
    attend("f32", (1, 8, 1024, 40), NONE),
    attend("f32", (1, 8, 1024, 80), PREFILL, quick=True),
    attend("f32", (1, 8, 1024, 96), NONE),
    attend("f32", (1, 8, 1024, 256), NONE),
    backward("f32", (1, 12, 1024, 64), quick=True),
    backward("f32", (1, 12, 2048, 64), causal=True),
    backward("f32", (1, 16, 2048, 128)),
    backward("f32", (1, 16, 1024, 128), kv_heads=4, causal=True),
    backward("bf16", (1, 12, 1024, 64), quick=True),
    backward("bf16", (1, 16, 2048, 128), causal=True),
    train("BERT-base", 1, 512, 768, 12, quick=True),
    train("BERT-base", 1, 512, 768, 12, dtype="bf16"),
    train("GPT-2-small", 1, 1024, 768, 12, causal=True, quick=True),
    train("GPT-2-small", 1, 1024, 768, 12, dtype="bf16", causal=True),
    linear(512, 768, quick=True),
    linear(2048, 2048),
    linear(512, 768, dtype="bf16"),
    linear(2048, 2048, dtype="bf16"),
    layer("BERT-base", 1, 512, 768, 12, quick=True),
    layer("BERT-base", 1, 512, 768, 12, dtype="bf16"),
    layer("BERT-base", 1, 512, 768, 12, weights=True, targets=NONE),
    layer("BERT-large", 1, 512, 1024, 16, targets=NONE),
    layer("GPT-2-small", 1, 1024, 768, 12, causal=True, quick=True),
    layer("GPT-2-small", 1, 1024, 768, 12, dtype="bf16", causal=True),
    layer("GPT-2-small", 1, 1024, 768, 12, causal=True, weights=True, targets=NONE, quick=True),
    layer("GPT-2-large", 1, 1024, 1280, 20, causal=True, targets=NONE),
    layer("mha(512, 8) on 2x10", 2, 10, 512, 8, targets=SMALL, quick=True),
)
