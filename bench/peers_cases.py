"""The rows of bench/peers.py, and what each of them should reach: data, and the formulas for work and bytes.

Leaves out how a case is run (peers_runtimes.py, peers_clattn.py) and judged (peers_measure.py).
"""
import dataclasses

SIZE = {"f32": 4, "f16": 2, "bf16": 2}


@dataclasses.dataclass(frozen=True)
class Target:
    """Least ratios against PyTorch and against the best peer, and least percent of the device's limit; 0: none."""
    torch: float = 0
    best: float = 0
    limit: float = 0

    def text(self):
        parts = [f"{self.torch}x PyTorch" if self.torch else "", f"{self.best}x best" if self.best else "",
                 f"{self.limit:.0f} %" if self.limit else ""]
        return ", ".join(p for p in parts if p)


@dataclasses.dataclass(frozen=True)
class Case:
    op: str  # attend, decode, layer
    dtype: str
    b: int
    heads: int
    n: int
    d: int
    target: Target
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
    def width(self):
        return self.heads * self.d

    @property
    def name(self):
        """As clattn's own tests, verify and bench name it (src/evidence/case.h)."""
        kv_heads = f"-hkv{self.kv_heads}" if self.kv_heads != self.heads else ""
        n_kv = f"-nkv{self.n_kv}" if self.n_kv != self.n else ""
        width, biases = (f"-m{self.width}", "-biases") if self.op == "layer" else ("", "")
        return (f"{self.op}-{self.dtype}-b{self.b}-h{self.heads}{kv_heads}-n{self.n}{n_kv}-d{self.d}{width}"
                f"-{'causal' if self.causal else 'full'}{biases}{'-weights' if self.weights else ''}")

    @property
    def title(self):
        return f"{self.name} ({self.model})" if self.model else self.name

    @property
    def flops(self):
        """4 B H Nq Nkv D, half of it for a causal square; a layer adds its four projections of 2 B N M^2."""
        attention = 4 * self.b * self.heads * self.n * self.n_kv * self.d / (2 if self.causal else 1)
        return attention + (8 * self.b * self.n * self.width**2 if self.op == "layer" else 0)

    @property
    def kv_bytes(self):
        return 2 * self.b * self.kv_heads * self.n_kv * self.d * SIZE[self.dtype]


def attend(dtype, shape, target, **options):
    return Case("attend", dtype, *shape, target, **options)


def decode(dtype, b, **options):
    return Case("decode", dtype, b, 32, 1, 128, Target(torch=3.5, limit=90), n_kv=4096, kv_heads=8, **options)


def layer(model, b, n, width, heads, **options):
    target = Target(torch=2.2 if options.get("weights") else 2.0)
    return Case("layer", "f32", b, heads, n, width // heads, target, model=model, **options)


SMALL = Target(torch=1.6)
SQUARE_64 = Target(torch=2.4, limit=78)
CASES = (
    attend("f32", (1, 16, 4096, 128), Target(torch=2.4, best=1.7, limit=85)),
    attend("f32", (1, 12, 2048, 64), SQUARE_64),
    attend("f32", (1, 12, 2048, 64), Target(torch=2.7, limit=72), causal=True, quick=True),
    attend("f32", (1, 12, 1024, 64), SQUARE_64, quick=True),
    attend("f32", (1, 8, 512, 64), SQUARE_64, quick=True),
    attend("bf16", (1, 16, 4096, 128), Target(torch=4.2, best=2.1)),
    attend("bf16", (1, 12, 1024, 64), Target(torch=4.0, best=2.1), quick=True),
    attend("f16", (1, 16, 4096, 128), Target(torch=2.5)),
    decode("f32", 1, quick=True),
    decode("f32", 8),
    decode("bf16", 1, quick=True),
    decode("bf16", 8),
    attend("f32", (32, 12, 128, 64), SMALL, quick=True),
    attend("f32", (1, 12, 77, 64), SMALL, quick=True),
    attend("f32", (64, 12, 16, 64), SMALL, quick=True),
    attend("f32", (1, 8, 1024, 40), SMALL),
    attend("f32", (1, 8, 1024, 80), SMALL, quick=True),
    attend("f32", (1, 8, 1024, 96), SMALL),
    attend("f32", (1, 8, 1024, 256), SMALL),
    layer("BERT-base", 1, 512, 768, 12, quick=True),
    layer("BERT-base", 1, 512, 768, 12, weights=True),
    layer("BERT-large", 1, 512, 1024, 16),
    layer("GPT-2-small", 1, 1024, 768, 12, causal=True, quick=True),
    layer("GPT-2-small", 1, 1024, 768, 12, causal=True, weights=True, quick=True),
    layer("GPT-2-large", 1, 1024, 1280, 20, causal=True),
    layer("mha(512, 8) on 2x10", 2, 10, 512, 8, quick=True),
)
