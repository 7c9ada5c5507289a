"""The bytes of Q, K and V that attention kernels for GPUs read, counted in compiled code and
compared with formulas.

decode_groups has the formula at the top of cl/tiles/decode_groups.cl. A work-item reads eight
numbers of four keys, in loads of 16 bytes (int8: 8), and then the same of V. On NVIDIA, the path
through the code with the most loads, each loop once, must load exactly that. This holds however the
compiler arranges complete blocks, the last keys and conditional loads. AMD's chips execute all
branches one after another under masks. There the two basic blocks with the most loads must have
that size. Repeated or split loads, and loads of other keys, lead to another number. Multiplied by a
group's work-items this is the cost of a block of keys.

In flash_tiles a work-item copies a chunk of the first product and a slice of the second to local
memory. These copies are counted in loads of 16 bytes (int8: 8). Narrower loads are not counted, so
they lead to another number as well. In backward_tiles the chunks of both products and a slice of
each result are counted.
"""
import re

from offline_loops import AMD, GLOBAL_READ, SASS

SIZES = {0: 4, 1: 2, 2: 2, 4: 1}  # of the storage types
KEYS, NUMBERS = 4, 8  # of a work-item at once


def knob(options, name, default=0):
    found = re.search(rf"-D{name}=(\d+)", options)
    return int(found.group(1)) if found else default


def blocks_of(code, language, least):
    """Returns (bytes of loads of at least `least` in each basic block, possible successors of
    each)."""
    starts = [n for n, i in enumerate(code) if n == 0 or i.labels or re.match(language.branch, code[n - 1].name)]
    place = {label: b for b, n in enumerate(starts) for label in code[n].labels}
    weights, ways = [], {}
    for b, (first, end) in enumerate(zip(starts, starts[1:] + [len(code)])):
        last = code[end - 1]
        kinds = [language.kind(i) for i in code[first:end]]
        weights.append(sum(each for kind, each in kinds if kind == GLOBAL_READ and each >= least))
        branches = re.match(language.branch, last.name)
        conditional = last.condition or re.search(r"\bU?P\d", last.rest)
        ends = re.match(r"BRA\b|EXIT|s_branch|s_endpgm", last.name) and not conditional
        ways[b] = [place[word] for word in re.findall(r"[.\w]+", last.rest) if word in place] if branches else []
        ways[b] += [] if ends or b + 1 == len(starts) else [b + 1]
    return weights, ways


def components(ways):
    """Strongly connected components, in topological order (Tarjan's algorithm)."""
    order, low, stack, result = {}, {}, [], []

    def visit(n):
        order[n] = low[n] = len(order)
        stack.append(n)
        for x in ways[n]:
            if x not in order:
                visit(x)
            if x in stack:
                low[n] = min(low[n], low[x])
        if low[n] == order[n]:
            at = stack.index(n)
            result.append(stack[at:])
            del stack[at:]

    for n in ways:
        if n not in order:
            visit(n)
    return result


def most_on_a_way(weights, ways, start):
    """The largest sum of weights on a path from a node, with each loop's body once."""
    best = {}
    for group in components(ways):
        after = max((best[x] for n in group for x in ways[n] if x not in group), default=0)
        inside = weights[group[0]]
        if len(group) > 1:
            heads = [n for n in group if n == start or any(n in ways[m] for m in ways if m not in group)]
            inside = max(most_on_a_way(weights, {m: [x for x in ways[m] if x in group and x != h] for m in group}, h) for h in heads)
        best.update(dict.fromkeys(group, inside + after))
    return best[start]


def counted_in(code, language, least, stretches):
    """Bytes of loads of at least `least`, on the path with the most, or in this many basic blocks
    with the most."""
    weights, ways = blocks_of(code, language, least)
    if language is SASS:
        return most_on_a_way(weights, ways, 0)
    most = sorted(weights)[-stretches:]
    return sum(most) if sorted(weights)[-stretches - 1:-stretches] != [most[-1]] else sum(weights)


def decode_reads(code, language, options):
    """Returns (bytes per key of K and its V: counted, by the formula)."""
    size, lanes = SIZES[knob(options, "TYPE_KV")], knob(options, "HEAD_DIM") // NUMBERS
    counted = counted_in(code, language, min(16, NUMBERS * size), 2)
    keys = knob(options, "WORK_GROUP", 128) // lanes * KEYS  # that the group reads at once
    return counted * lanes * (keys // KEYS) / keys, 2 * knob(options, "HEAD_DIM") * size


def tiles_reads(code, language, options):
    """Returns (bytes that a work-item reads for a chunk and a slice: counted, by the formula), or
    None if rows end inside a piece."""
    wide, chunk, width = (knob(options, x, 64) for x in ("WIDE", "CHUNK", "HEAD_DIM_V"))
    rows, columns = (knob(options, x) for x in ("GROUP_ROWS", "GROUP_COLUMNS"))
    group, micro, piece = rows * columns, knob(options, "MICRO_ROWS"), 4 * wide
    slices = -(-width // (4 * columns)) * 4 * columns
    if not 1 <= wide <= 2 or knob(options, "HEAD_DIM", 64) % chunk or slices != width or knob(options, "SCORE_OPS"):
        return None
    sizes = SIZES[knob(options, "TYPE_Q")], SIZES[knob(options, "TYPE_KV")]
    pieces = micro * rows * chunk, 4 * columns * chunk, columns * width
    if any(x // piece % group for x in pieces):
        return None
    bytes_of = [x // group * size for x, size in zip(pieces, (sizes[0], sizes[1], sizes[1]))]
    return counted_in(code, language, min(16, *(piece * x for x in sizes)), 2), sum(bytes_of)


def gradient_reads(code, language, options):
    """The same for backward_tiles: a chunk of both products, and a slice of each result, if rows
    end with chunks and slices."""
    wide, chunk, d, dv = knob(options, "WIDE"), knob(options, "CHUNK"), knob(options, "HEAD_DIM"), knob(options, "HEAD_DIM_V")
    rows, columns, keys = (knob(options, x) for x in ("GROUP_ROWS", "GROUP_COLUMNS", "GRADIENT_OF_KV"))
    group, own, piece = rows * columns, knob(options, "MICRO_ROWS") * rows, 4 * wide
    if not 1 <= wide <= 2 or d % chunk or dv % chunk or d % (4 * columns) or dv % (4 * columns) or knob(options, "SCORE_OPS"):
        return None
    q, kv, dout = (SIZES[knob(options, x)] for x in ("TYPE_Q", "TYPE_KV", "TYPE_OUT"))
    reads = [(own * chunk, kv if keys else q), (own * chunk, kv if keys else dout)]
    reads += [(4 * columns * chunk, q if keys else kv), (4 * columns * chunk, dout if keys else kv)]
    reads += [(columns * d, q if keys else kv)] + ([(columns * dv, dout)] if keys else [])
    if any(x // piece % group for x, _ in reads):
        return None
    least = min(16, *(piece * size for _, size in reads))
    return counted_in(code, language, least, 5 if keys else 4), sum(x // group * size for x, size in reads)


def reads_of(kernel, code, language, options):
    """Returns (bytes read: counted, by the formula) if both are known."""
    if kernel == "decode_groups" and "-DLOADS_OF_8=1" in options:
        return decode_reads(code, language, options)
    if kernel == "backward_tiles":
        return gradient_reads(code, language, options) if language is SASS else None
    # For small tiles AMD's compiler splits the loads of a chunk into blocks with one or two loads.
    taken = language is SASS or (language is AMD and knob(options, "MICRO_ROWS") >= 8)
    return tiles_reads(code, language, options) if kernel == "flash_tiles" and taken else None
