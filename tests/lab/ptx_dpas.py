"""Intel's sub-group product, as an additional PTX instruction, which dpas_prelude.cl generates from
the function. [OpenCL extension cl_intel_subgroup_matrix_multiply_accumulate]: sums of 8 rows and
one column for each work-item, over 16 numbers. With 8 work-items each has numbers 2 i and 2 i + 1
of all rows of the left operand, and with 16 it has number i. It also has all 16 numbers of its
column of the right operand."""
import numpy as np

from ptx_machine import WARP, operands_of
from ptx_text import PtxError
from ptx_warps import numbers

DPAS = {}


def dpas(m, ins, kind):
    """The order of the sum is unspecified. Here it is computed in double precision, and rounded
    once."""
    sums, left, right = (operands_of(x) for x in ins.operands)
    if (len(sums), len(left), len(right)) != (8, 8, 8):
        raise PtxError("8 sums, and two operands of 8, are all that is known here")
    size = 16 if m.bits_of[left[0].value] == 16 else 8
    word = "b16" if size == 16 else "b32"
    put, of_sums = [m.writer(x) for x in sums], [m.reader(x, "f32") for x in sums]
    of_left, of_right = [m.reader(x, word) for x in left], [m.reader(x, "b32") for x in right]

    def run(mask):
        m.whole_warps(mask, 1, "dpas")
        groups = m.lanes // size
        # [group][row][number]
        a = np.stack([np.ascontiguousarray(g()).view(np.uint16).reshape(groups, 16) for g in of_left], 1)
        # [group][column][number]
        b = np.stack([g() for g in of_right], 1).view(np.uint16).reshape(groups, size, 16)
        c = np.stack([g() for g in of_sums], 1).reshape(groups, size, 8)
        result = (c + numbers(b, kind) @ numbers(a, kind).swapaxes(1, 2)).astype(np.float32).reshape(m.lanes, 8)
        for i, p in enumerate(put):
            p(np.ascontiguousarray(result[:, i]), mask)
    return run


assert WARP % 16 == 0
for k in ("f16", "bf16"):
    DPAS[f"dpas.{k}"] = lambda m, ins, k=k: dpas(m, ins, k)
