"""The storage types of tensors, and the conversions of numbers to and from them."""
from typing import Any

import numpy as np

from ._abi import (
    CLATTN_TYPE_BF16, CLATTN_TYPE_BOOL, CLATTN_TYPE_F8E4M3, CLATTN_TYPE_F8E5M2, CLATTN_TYPE_F16,
    CLATTN_TYPE_F32, CLATTN_TYPE_I4, CLATTN_TYPE_I8, CLATTN_TYPE_I32, CLATTN_TYPE_Q4_0,
    CLATTN_TYPE_Q4_1, CLATTN_TYPE_Q8_0, CLATTN_TYPE_U4,
)

BF16 = np.dtype([("bf16", "<u2")])  # the upper half of a float32
# Bytes of k, v and weights, which have scales.
F8E4M3, F8E5M2 = np.dtype([("f8e4m3", "u1")]), np.dtype([("f8e5m2", "u1")])
# Bytes of two numbers each, the first in the lower half, also with scales: a row of D numbers has D
# / 2 bytes.
I4, U4 = np.dtype([("i4", "u1")]), np.dtype([("u4", "u1")])
# Blocks of 32 weights, or of numbers of k and v, in the layout of ggml and GGUF files. A matrix of
# K columns has K / 32 blocks in a row.
BLOCKS = {"q8_0": np.dtype([("d", "<f2"), ("n", "i1", 32)]), "q4_0": np.dtype([("d", "<f2"), ("n", "u1", 16)]),
          "q4_1": np.dtype([("d", "<f2"), ("m", "<f2"), ("n", "u1", 16)])}
# A storage type's word: its number, and its numpy type. A block mask has the header's type bool,
# but its values are 0, 1 and 2.
STORAGE: dict[str, tuple[int, np.dtype[Any]]] = {
    "float32": (CLATTN_TYPE_F32, np.dtype(np.float32)), "float16": (CLATTN_TYPE_F16, np.dtype(np.float16)),
    "bfloat16": (CLATTN_TYPE_BF16, BF16), "bool": (CLATTN_TYPE_BOOL, np.dtype(bool)),
    "uint8": (CLATTN_TYPE_BOOL, np.dtype(np.uint8)), "int8": (CLATTN_TYPE_I8, np.dtype(np.int8)),
    "int32": (CLATTN_TYPE_I32, np.dtype(np.int32)), "float8_e4m3fn": (CLATTN_TYPE_F8E4M3, F8E4M3),
    "float8_e5m2": (CLATTN_TYPE_F8E5M2, F8E5M2), "q8_0": (CLATTN_TYPE_Q8_0, BLOCKS["q8_0"]),
    "q4_0": (CLATTN_TYPE_Q4_0, BLOCKS["q4_0"]), "q4_1": (CLATTN_TYPE_Q4_1, BLOCKS["q4_1"]),
    "int4": (CLATTN_TYPE_I4, I4), "uint4": (CLATTN_TYPE_U4, U4)}
# Other words for the types, from the header, torch, safetensors and ggml. Case does not matter.
SHORT = {word: name for name, words in (
    ("float32", "f32 fp32 float single"), ("float16", "f16 fp16 half"), ("bfloat16", "bf16 bfloat"), ("bool", "bool_ boolean"),
    ("uint8", "u8 byte"), ("int8", "i8 s8 char"), ("int32", "i32 s32 int"), ("int4", "i4 s4"), ("uint4", "u4"),
    ("float8_e4m3fn", "f8e4m3 f8_e4m3 fp8_e4m3 fp8e4m3 float8_e4m3 e4m3 f8_e4m3fn"),
    ("float8_e5m2", "f8e5m2 f8_e5m2 fp8_e5m2 fp8e5m2 e5m2")) for word in words.split()}


def to_bf16(x):
    """Round float32 numbers to bfloat16, to nearest, ties to even; NaN stays NaN."""
    x = np.ascontiguousarray(x, np.float32)
    bits = x.view(np.uint32)
    rounded = (bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(x), (bits >> 16) | 0x40, rounded).astype(np.uint16).view(BF16)


def from_bf16(x):
    """Convert bfloat16 numbers to float32."""
    return (np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def to_blocks(x, dtype):
    """Convert numbers [..., K] to blocks [..., K / 32] of "q8_0", "q4_0" or "q4_1", rounded as in
    ggml.

    The largest number of a block, or its range, sets the scale."""
    x = np.asarray(x, np.float32)
    if not x.ndim or x.shape[-1] % 32:
        raise ValueError(f"x: shape {x.shape}: a last size that is a multiple of 32 is wanted")
    x = x.reshape(*x.shape[:-1], -1, 32)
    blocks, low, high = np.zeros(x.shape[:-1], BLOCKS[dtype]), x.min(-1), x.max(-1)
    d = np.maximum(-low, high) / 127 if dtype == "q8_0" else \
        np.where(high >= -low, high, low) / -8 if dtype == "q4_0" else (high - low) / 15
    blocks["d"] = d
    by = np.divide(1, d, out=np.zeros_like(d), where=d != 0)[..., None]
    if dtype == "q8_0":
        blocks["n"] = np.rint(x * by)
        return blocks
    if dtype == "q4_1":
        blocks["m"] = low
    n = np.clip(np.floor((x - low[..., None]) * by + 0.5 if dtype == "q4_1" else x * by + 8.5), 0, 15).astype(np.uint8)
    blocks["n"] = n[..., :16] | n[..., 16:] << 4
    return blocks


def from_blocks(blocks):
    """Convert blocks [..., K / 32] to their numbers [..., K], in float32."""
    n, d = blocks["n"], blocks["d"].astype(np.float32)[..., None]
    if blocks.dtype != BLOCKS["q8_0"]:
        n = np.concatenate([n & 15, n >> 4], -1)
    x = n.astype(np.float32) * d + blocks["m"].astype(np.float32)[..., None] if blocks.dtype == BLOCKS["q4_1"] else \
        (n.astype(np.float32) - (8 if blocks.dtype == BLOCKS["q4_0"] else 0)) * d
    return x.reshape(*blocks.shape[:-1], -1)
