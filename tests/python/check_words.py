"""Keywords of the Python module: each one with each function that has it. Also help and signatures,
errors for words of other libraries, and objects that are copied or shared by threads.

   check_words.py BUILD
"""
import copy
import inspect
import os
import pickle
import re
import subprocess
import sys
import threading
import warnings

import numpy as np

import python_checks
from python_checks import check, clattn, close, refused

random = np.random.default_rng(9)
context = clattn.Context()
lib = clattn.library()


def numbers(*shape):
    return random.standard_normal(shape, np.float32)


# ---- each keyword of each function


def held(tensor, host):
    """The contents of a C view, with the bytes of a dense tensor in device memory. None: it is
    absent."""
    if not tensor.rank:
        return None
    shape, data = tuple(tensor.shape[:tensor.rank]), b""
    word = next(word for word, (number, _) in clattn.STORAGE.items() if number == tensor.type)
    nbytes = int(np.prod(shape)) * clattn.STORAGE[word][1].itemsize
    if tensor.buffer and not host:
        data = np.zeros(nbytes, np.uint8)
        lib.clEnqueueReadBuffer(context.queue, tensor.buffer, 1, 0, nbytes, data.ctypes.data, 0, None, None)
        data = data.tobytes()
    return tensor.type, shape, tuple(tensor.stride[:tensor.rank]), data


def told(struct, sizes, host, path=""):
    """The arguments that a C function receives: each field that is not zero, by its path."""
    found = {}
    for name, word in struct.words.items():
        value, here = getattr(struct, name), f"{path}{name}"
        if word == "clattn_tensor":
            found[here] = held(value, host)
        elif word == "clattn_tensor[]":
            found[here] = [x for x in (held(x, host) for x in value) if x] or None
        elif word == "clattn_packed":
            found[here] = tuple(value.layout_id) if any(value.layout_id) else None
        elif word in clattn.HEADER:
            found.update(told(value, sizes, host, here + "."))
        elif word in clattn.HOST and value:
            letter = struct.host_lengths[name]
            count = getattr(struct, letter) if letter in struct.words else sizes.get(name, sizes[letter])
            found[here] = tuple((np.ctypeslib.as_ctypes_type(clattn.HOST[word]) * count).from_address(value))
        elif word.endswith("[]"):
            found[here] = tuple(value) if any(value) else None
        else:
            found[here] = bool(value) if word in ("cl_mem", "const clattn_progress *") else value
    return {name: value for name, value in found.items() if value}


class Told:
    """Replaces a function of the library. Nothing runs, and the arguments are stored."""

    def __init__(self, name):
        self.name, self.kept, self.host = name, getattr(lib, name), "_group_" in name

    def __enter__(self):
        setattr(lib, self.name, self.hear)
        return self

    def hear(self, *arguments):
        self.heard = told(next(x._obj for x in arguments if hasattr(getattr(x, "_obj", None), "words")), self.sizes, self.host)
        return clattn.CLATTN_OK

    def __exit__(self, *_):
        setattr(lib, self.name, self.kept)

    def __call__(self, function, given, **sizes):
        self.sizes = {"B": 1, "H": 2, "B+1": 2, "members": 1, **sizes}
        function(**given)
        return self.heard


def dense(array, planned):
    word, kind = clattn._type("", array.dtype), array.dtype
    strides = tuple(int(np.prod(array.shape[at + 1:])) for at in range(array.ndim))
    return clattn.STORAGE[word][0], array.shape, strides, b"" if planned else array.astype(kind).tobytes()


def samples(struct, name, whole):
    """Values of a keyword, and the field or fields that C must receive for each."""
    word, host = struct.words[name], isinstance(whole, clattn.Group)
    device = lambda array: array if host else clattn.Buffer(array, context=context)
    if name == "window":
        return [((3, 1), {"window": True, "window_left": 3, "window_right": 1}), (True, {"window": True})]
    if name in ("cu_seqlens_q", "cu_seqlens_q_device"):
        ends = np.array([0, 1, 4], np.int32)
        return [(ends if name == "cu_seqlens_q" else device(ends), {name: (0, 1, 4) if name == "cu_seqlens_q" else ends, "sequences": 2})]
    if word in clattn.HOST:
        letter = struct.host_lengths[name]
        if letter in struct.words:  # the length is a separate field
            return [([2] * 4, {name: (2,) * 4, letter: 4})]
        count = {"B": 1, "H": 2, "B+1": 2, "members": 1}[letter]
        return [([2] * count, {name: (2,) * count})]
    if word == "clattn_tensor":
        index, rows = name in clattn.I32, re.match("past|[kv]_new|[kvy]$", name)
        kind = np.int32 if index else bool if name == "mask" else np.uint8 if name == "block_mask" else np.float32
        array = np.ones((1, 2) if index else (1, 2, 4, 8) if rows else (4, 4), kind)
        return [(device(array) if re.match(r"[kv](_scale|_zero)?$", name) or name == "lengths" else array, {name: array})]
    if word == "clattn_tensor[]":
        return [([np.ones((2, 2), np.float32), np.ones(3, np.int32)], {name: [np.ones((2, 2), np.float32), np.ones(3, np.int32)]})]
    if word == "clattn_packed":
        packed = clattn.clattn_packed(layout_id=(7, 0, 0, 0, 0, 0, 0))
        return [(clattn.Packed(packed, None), {name: (7, 0, 0, 0, 0, 0, 0)})]
    if word == "clattn_rope":
        return [({"layout": "half", "base": 500.0}, {"layout": 1, "base": 500.0})]
    if word in clattn.ENUMS:
        return [(text, {name: number}) for text, number in clattn._words(word).items() if number]
    if word == "const char *":
        return [("j <= i", {name: b"j <= i"})]
    if word == "cl_mem":
        return [(clattn.Buffer.zeros((64,), "int8", context), {name: True})]
    if word == "const clattn_progress *":
        return [(lambda done: True, {name: True})]
    if word.endswith("[]"):
        return [((1, 2, 3), {name: (1, 2, 3)})]
    return [(True, {name: True})] if word == "bool" else [(3, {name: 3})] if word in clattn.INTEGERS else [(0.5, {name: 0.5})]


def functions():
    """Each function, the name of the C function that it calls, its params, and a minimal set of
    arguments."""
    x4, k4 = np.ones((1, 2, 4, 8), np.float32), clattn.Buffer(np.ones((1, 2, 4, 8), np.float32), context=context)
    x3, m, vector = np.ones((1, 4, 16), np.float32), np.ones((16, 16), np.float32), np.ones(16, np.float32)
    attend = {"q": x4, "k": k4, "v": k4}
    layer = {"x": x3, "wq": m, "wk": m, "wv": m, "wo": m, "heads": 2}
    given = {"attention": attend, "attention_backward": {**attend, "out": x4, "lse": x4[..., 0], "dout": x4}, "block_mask": attend,
             "layer": layer, "layer_forward": {**layer, "kept": clattn.Buffer.zeros((3,), context=context)},
             "layer_backward": {**layer, "dout": x3}, "layer_kv": {"y": x3, "wk": m, "wv": m, "kv_heads": 2},
             "linear": {"x": x3, "w": m}, "linear_backward": {"dout": x3, "x": x3, "w": m},
             "rope": {"x": x4, "layout": "half"}, "hadamard": {"x": x4}, "append": {"k_new": x4, "v_new": x4, "k": k4, "v": k4},
             "shift": {"k": k4, "rope": {"layout": "half"}}, "norm": {"x": x3, "weight": vector},
             "activation": {"x": x3, "activation": "relu"}, "embedding": {"ids": np.ones((1, 4), np.int32), "table": m},
             "argmax": {"x": x3}, "sample": {"x": x3}, "dropout_mask": {"shape": (1, 2, 4, 4), "dropout": 0.25}}
    for call, arguments in given.items():
        kind = clattn.HEADER[f"clattn_{'attention' if call == 'block_mask' else 'layer' if call == 'layer_forward' else call}_params"]
        yield context, call, f"clattn_{call}_enqueue", kind, arguments
        for what in clattn._ANSWERS:
            if hasattr(clattn.Context, f"{call}_{what}"):
                yield context, f"{call}_{what}", f"clattn_{call}_{what}", kind, arguments
    group, host = clattn.Group([context]), {name: value.numpy() if isinstance(value, clattn.Buffer) else value
                                            for name, value in given["attention_backward"].items()}
    for call, c_name, of in (("attention", "attention", "attention"), ("attention_backward", "attention_backward", "attention_backward"),
                             ("plan", "plan", "attention"), ("backward_plan", "backward_plan", "attention_backward")):
        arguments = {name: host[name] for name in (given[of])}
        yield group, call, f"clattn_group_{c_name}", clattn.HEADER[f"clattn_group_{of}_params"], arguments


# Keywords that select results, which check_python.py and check_calls.py test. The lookahead
# excludes fields with similar names.
RESULTS = re.compile(r"(out|lse|weights|scores|block_mask|y|sum|kept|d(?!ropout|eltas?$|eal$|lse$)[a-z_]+)$")


def left_out(whole, call, name):
    """Returns true for a keyword that is tested elsewhere, or that this call has otherwise."""
    return RESULTS.match(name) or (call.startswith("rope") and name == "rope") or (call, name) == ("dropout_mask", "mask") or \
        (name == "workspace" and (call == "layer_forward" or isinstance(whole, clattn.Group)))


def keywords():
    """Each keyword of each function: C receives its field, the same fields as before, and nothing
    else."""
    count = 0
    for whole, call, c_name, kind, given in functions():
        function, planned, host = getattr(whole, call), c_name.rpartition("_")[2] in clattn._ANSWERS, isinstance(whole, clattn.Group)
        with Told(c_name) as hear:
            before = hear(function, given)
            for name, struct in clattn._keywords(kind).items():
                if name in given or left_out(whole, call, name):
                    continue
                for value, fields in samples(struct, name, whole):
                    after = hear(function, {**given, name: value}, **({"B": 2, "B+1": 3} if "cu_seqlens_q" in name else {}))
                    new = {path.rpartition(".")[2]: what for path, what in after.items() if before.get(path) != what}
                    if call == "block_mask":
                        new.pop("block_mask", None)  # its result, whose shape may differ
                    # without device memory
                    bare = (planned or host) and not isinstance(value, clattn.Buffer)
                    want = {field: dense(x, bare) if isinstance(x, np.ndarray) else [dense(one, bare) for one in x]
                            if isinstance(x, list) else x for field, x in fields.items()}
                    if (f"d{name}", name, None) in clattn._LAYER_GRADIENTS and call.startswith("layer_backward"):
                        # computed by default
                        want[f"d{name}"] = dense(np.zeros_like(value), planned)
                    check(new == want and before.keys() <= after.keys(), f"{call}({name}={value!r}): {new}, not {want}")
                    count += 1
    return count


def ragged():
    """Gradients of a packed batch without `sequences`, in a group and recorded, equal those of each
    sequence alone."""
    q, k, v, dout = (numbers(1, 2, 9, 32) for _ in range(4))
    ends = {"cu_seqlens_q": [0, 4, 9], "cu_seqlens_kv": [0, 4, 9]}
    out, lse = context.attention(q, k, v, lse=True, **ends)
    parts = [context.attention_backward(*(x[:, :, at] for x in (q, k, v, out, lse, dout))) for at in (slice(0, 4), slice(4, 9))]
    want = [np.concatenate(pair, 2) for pair in zip(*parts)]
    with clattn.Group([context]) as group, warnings.catch_warnings():
        grouped = group.attention_backward(q, k, v, out, lse, dout, **ends)
    buffers = [clattn.Buffer(x, context=context) for x in (q, k, v, out, lse, dout)]
    with context.record() as step:
        kept = context.attention_backward(*buffers, **ends)
    step()
    for words, found in (("", context.attention_backward(q, k, v, out, lse, dout, **ends)), ("sequences said", context.attention_backward(
            q, k, v, out, lse, dout, sequences=2, **ends)), ("a group", grouped), ("recorded", [x.numpy() for x in kept])):
        for name, x, y in zip("qkv", found, want):
            close(x, y, f"d{name} of a packed batch: {words}", 1e-5)
    plan = context.attention_backward_plan(q, k, v, out, lse, dout, **ends)
    check(plan == context.attention_backward_plan(q, k, v, out, lse, dout, sequences=2, **ends), f"{plan}")
    x, w = numbers(4, 8), numbers(3, 8)
    close(context.linear(x, w, residual=np.ones((4, 3), np.float32), projection="native"), x @ w.T + 1, "a residual of two axes", 1e-5)
    check(context.linear_plan(x, w, projection="native") == context.linear_plan(x[None], w, projection="native"), "a plan of two axes")
    refused("weights: has no gradient", clattn.attention_backward, q, k, v, out, lse, dout, weights=True)


# ---- help, names and signatures

UNWANTED = re.compile(r"NULL|rank 0|see the table|host memory|clattn_[a-z]\w*|\bf(32|16)\b|\bT is\b|Deal|\bdealt\b|_enqueue")


def help_of(name, function, holder=None):
    text = (holder or function).__doc__
    check(text and not UNWANTED.search(text), f"help({name}) has words of C: {UNWANTED.search(text or '')}")


def helped():
    check(re.fullmatch(r"\d+\.\d+\.\d+", clattn.__version__) and clattn.__version__ == clattn.version(), clattn.__version__)
    everything = {}
    exec("from clattn import *", everything)
    listed = set(everything) - {"__builtins__"}
    check(listed == set(clattn.__all__) and {"attention", "Context", "Buffer", "devices", "BF16"} <= listed < set(dir(clattn)), f"{listed}")
    for names in (clattn.__all__, dir(clattn)):
        strangers = [name for name in names if name.startswith("CLATTN") or inspect.ismodule(getattr(clattn, name)) or
                     (name.startswith("_") and not name.startswith("__")) or name.startswith("clattn_")]
        check(not strangers and len(names) < 100, f"{strangers}")
    check(clattn.CLATTN_OK == 0 and clattn.clattn_score.words["softcap"] == "float", "constants and structs are there")
    for call, kind in clattn._PARAMS.items():
        function = getattr(clattn.Context, call)
        signature = inspect.signature(function).parameters
        check(not any(x.kind is x.VAR_KEYWORD for x in signature.values()), f"{call} takes any keyword")
        help_of(call, function, clattn.Context if call == "__init__" else None)
        for name, struct in clattn._keywords(kind).items():
            check(clattn._about(struct, name, call), f"help({call}): {name} has no text")
        fields = [name for name in clattn._keywords(kind) if name in signature]
        places = [clattn._PLACES[name] for name in fields if signature[name].kind is inspect.Parameter.KEYWORD_ONLY and
                  name not in inspect.getsource(function).partition(":")[0]]
        check(places == sorted(places), f"{call}: its keywords are in another order than those of help()")
    for name in clattn.__all__:
        value = getattr(clattn, name)
        if callable(value) and name != "Context":
            help_of(name, value)
            inspect.signature(value)
        for member, method in (vars(value).items() if isinstance(value, type) else ()):
            if inspect.isfunction(method) and not member.startswith("_"):
                help_of(f"{name}.{member}", method)
    words = list(inspect.signature(clattn.attention).parameters)
    check(words[:7] == ["q", "k", "v", "out", "lse", "weights", "scores"] and words.index("causal") < words.index("softcap") <
          words.index("past_k") < words.index("k_rotation") < words.index("workspace"), f"{words}")
    check(list(inspect.signature(clattn.Context).parameters)[:2] == ["device", "cache_dir"] and "partition" in inspect.signature(
        clattn.Group.attention).parameters, "signatures of classes")
    check(list(inspect.signature(clattn.attention_plan).parameters) == words, "a plan's signature is the call's")
    facts = clattn.devices()[0]
    check(facts["device"] == facts["name"] and facts["type"] in ("cpu", "gpu", "other") and
          facts["memory_bytes"] == facts["global_memory_bytes"], f"{facts}")
    source = open("src/cli/common/report.c", encoding="utf-8").read().partition("json_t *report_device")[2].partition(";")[0]
    names = set(re.findall(r'"(\w+)"', source)) - {"gpu", "cpu", "other"}
    check(len(names) == 15 and names <= set(facts), f"the program's JSON has {names - set(facts)}")


# ---- words of other libraries


def porting():
    """Each argument that docs/porting.md names is a keyword, or its error names the keyword of its
    row."""
    x = np.ones((1, 1, 4, 8), np.float32)
    takes, count = inspect.signature(clattn.attention_backward).parameters, 0
    tables = open("docs/porting.md", encoding="utf-8").read().partition("\n## ")[2]
    for arguments, fields in re.findall(r"^\| ([^|]+) \| ([^|]+) \|", tables, re.M):
        if arguments in ("argument", "attribute", "input, attribute or output"):
            continue  # the head of a table
        fields = [word.rpartition(".")[2] for word in re.findall(r"`([\w.]+)`", fields)]
        for argument in re.findall(r"\b([A-Za-z]\w+)\b(?![^(]*\))", arguments):
            word = argument.removeprefix("set_")
            if word in takes or argument in ("FlashAttention", "of", "tensor"):
                continue
            for function in (clattn.attention, context.attention, clattn.attention_plan):
                error = refused(argument, function, x, x, x, **{argument: 1})
                named = [field for field in fields if re.search(rf"\b{field}\b", str(error))]
                check(named if fields else re.search("always|never", str(error)), f"{argument}: {error}: it names none of {fields}")
            count += 1
    check(count > 70, f"{count} arguments of other libraries: is this the page?")
    return count


def meant():
    """Errors for values and words of other libraries name what was meant."""
    x = np.ones((1, 2, 4, 8), np.float32)
    attend = lambda **options: clattn.attention(x, x, x, **options)
    layer = dict(zip(("x", "wq", "wk", "wv", "wo"), (x[0], *[np.ones((8, 8), np.float32)] * 4)))
    layered = lambda **options: clattn.layer(**layer, **options)
    of_q, of_k, of_all = (lambda q: clattn.attention(q, x, x)), (lambda k: clattn.attention(x, k, x)), (lambda q: clattn.attention(q, q, q))
    for call, given, wanted in (
            (attend, {"window": 3}, "(left, right)"), (attend, {"window": np.int64(5)}, "(left, right)"),
            (attend, {"window": -1}, "(left, right)"), (attend, {"softmax_scale": 1.0}, "use scale"),
            (attend, {"is_causal": True}, "causal=True"), (attend, {"attn_mask": None}, "mask"),
            (attend, {"key_padding_mask": 1}, "kv_lengths"), (attend, {"layout": "bshd"}, "transpose(0, 2, 1, 3)"),
            (attend, {"rope_theta": 1e4}, "'base'"), (attend, {"num_heads": 2}, "shape of q"),
            (attend, {"logits_soft_cap": 30.0}, "softcap"), (attend, {"return_lse": True}, "lse=True"),
            (attend, {"need_weights": True}, "weights=True"), (attend, {"sliding_window": 5}, "window=(left, right)"),
            (attend, {"s_aux": 1}, "sinks"), (attend, {"attention_chunk": 64}, "mask_mod"), (attend, {"seqlens_k": 1}, "kv_lengths"),
            (attend, {"Q": x}, "q"), (attend, {"rope": {"layout": "half", "theta": 1e4}}, "base"),
            (attend, {"rope": {"layout": "half", "rope_theta": 1e4}}, "base"),
            (attend, {"rope": {"layout": "half", "dim": 4}}, "rotary_dim"), (attend, {"rope": {"interleaved": True}}, "layout"),
            (attend, {"rope": {"layout": "half", "position_ids": 1}}, "positions"),
            (attend, {"rope": "interleaved"}, "'layout': 'interleaved'"), (attend, {"rope": {"layout": "neox"}}, "use 'half'"),
            (attend, {"rope": True}, "'layout': 'half'"), (attend, {"causal": "bottom_right"}, "alignment="),
            (attend, {"mask": np.zeros((4, 4), np.float32)}, "bias"), (attend, {"mask": clattn.Buffer.zeros((4, 4))}, "bias"),
            (attend, {"mask": np.ones((4, 4), np.int64)}, "bool is wanted"), (attend, {"mask": clattn.to_bf16(x)}, "bias"),
            (attend, {"mask": "causal"}, "mask: an array"), (attend, {"bias": np.ones((4, 4), bool)}, "mask"),
            (attend, {"bias": np.ones((4, 4))}, "float64"), (attend, {"alignment": "lower_right"}, "use 'bottom_right'"),
            (attend, {"mask_mod": lambda b, h, i, j: j <= i}, "OpenCL C expression"),
            (attend, {"mask_mod": "j <= i and j > 0"}, "'and' is &&"), (attend, {"mask_mod": "j <= i or j == 0"}, "'or' is ||"),
            (attend, {"mask_mod": "not (j > i)"}, "'not' is !"), (attend, {"score_mod": "score if i > j else 0"}, "c ? a : b"),
            (attend, {"score_mod": "score ** 2"}, "pow(x, y)"), (attend, {"mask_mod": "q_idx >= kv_idx"}, "the key is j"),
            (attend, {"score_mod": "np.tanh(score)"}, "no prefix"), (attend, {"out": "float64"}, "use float32"),
            (attend, {"out": "fp8"}, "float8_e4m3fn"), (layered, {"heads": 2, "num_key_value_heads": 1}, "kv_heads"),
            (layered, {"heads": 2, "eps": 1}, "norm_epsilon"), (layered, {"num_heads": 2}, "'heads'"),
            (lambda **o: clattn.norm(x[0], **o), {"eps": 1e-5}, "epsilon"),
            (lambda **o: clattn.rope(x, **o), {"theta": 1e4}, "use base"),
            (lambda **o: clattn.linear(x[0], x[0, 0], **o), {"bias": 1}, "use b "),
            (lambda **o: clattn.activation(x[0], **o), {"activation": "swish"}, "'silu'"),
            (lambda **o: clattn.sample(x[0], **o), {"temp": 1}, "temperature"),
            (lambda **o: clattn.Context(**o), {"device_id": 0}, "device"),
            (lambda **o: clattn.Context(**o), {"cache": "x"}, "cache_dir"), (of_q, {"q": x[0]}, "[B, H, Nq, D] is wanted"),
            (of_q, {"q": x[..., 0]}, "q[None]"), (of_all, {"q": x.astype(np.float64)}, "q: arrays of float64"),
            (of_all, {"q": x.tolist()}, "q: arrays of float64"), (of_all, {"q": x.astype(np.int64)}, "q: arrays of int64"),
            (of_all, {"q": x.astype(np.float64)}, "bfloat16"), (of_k, {"k": x.astype(np.uint8)}, "k: arrays of uint8"),
            (of_k, {"k": x.astype(np.uint8)}, "U4"), (of_q, {"q": x.astype(np.uint16)}, "clattn.BF16"),
            (of_q, {"q": x[:, :1]}, ".transpose(0, 2, 1, 3)")):
        refused(wanted, call, **given)
    group = clattn.Group([context])
    refused("use scale", group.attention, x, x, x, softmax_scale=1.0)
    refused("'and' is &&", group.attention, x, x, x, mask_mod="j <= i and j > 0")
    group.close()
    for words, dtype in (("fp32 F32 float f4 <f4 torch.float32 single", "float32"), ("fp16 half F16 f2 torch.float16 e", "float16"),
                         ("bf16 BF16 torch.bfloat16", "bfloat16"),
                         ("F8_E4M3 e4m3 fp8_e4m3 float8_e4m3fn", "float8_e4m3fn"), ("F8_E5M2 e5m2", "float8_e5m2"),
                         ("I8 s8 int8", "int8"), ("i4 int4", "int4"), ("Q8_0", "q8_0")):
        for word in words.split():
            check(clattn._type("dtype", word) == dtype, word)
    for word in ("double", "float64", "f64", "complex64", "int64", "nothing"):
        refused("are not taken", clattn.Buffer.zeros, (3,), word)

    class Learns:  # like a torch tensor whose gradient would be lost
        requires_grad, dtype, shape = True, "torch.float32", (1,)

        class device:
            type = "cpu"

        def data_ptr(self):
            return 0
    sys.modules.setdefault("torch", type(sys)("torch"))
    on = [True]
    sys.modules["torch"].is_grad_enabled = lambda: on[0]
    refused("clattn_torch", clattn.attention, Learns(), x, x)
    refused(".detach()", clattn.Buffer.over, Learns())
    del sys.modules["torch"]
    for name in ("foo", "99", "-1"):
        os.environ["CLATTN_DEVICE"] = name
        error = refused("CLATTN_DEVICE: ", clattn.Context)
        check(clattn.devices()[0]["name"] in str(error), f"{error} names no device")
    os.environ["CLATTN_DEVICE"] = clattn.devices()[0]["type"]
    clattn.Context().close()
    del os.environ["CLATTN_DEVICE"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clattn.Context(cache_dir="/no/such/folder").close()
        clattn.Context(cache_dir=None).close()
    check(len(caught) == 1 and "/no/such/folder" in str(caught[0].message), f"{[str(x.message) for x in caught]}")
    check(caught[0].filename == __file__, f"the warning is of {caught[0].filename}")
    for text, count in (("i - 3 <= j <= i", 1), ("i // 64 == j // 64", 1), ("j <= i // causal", 0), ("j <= i && j > 0 || i >= 1 << 2 >> 1", 0),
                        ("(j < i) > (i < 3)", 0), ("i < 3 ? j < 4 : j < 5", 0), ("j <= i /* a < b < c */", 0)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            clattn._Call(context, made := clattn.clattn_attention_params()).options(made, {"mask_mod": text})
        check(len(caught) == count, f"{text}: {[str(x.message) for x in caught]}")


# ---- objects with handles


def owned():
    """An object that owns a handle cannot be copied, waits in each thread, and can be closed twice.
    """
    large = clattn.Buffer(numbers(1 << 22), context=context)
    want = large.numpy()
    wrong = []
    for _ in range(8):
        later, barrier = large.later(), threading.Barrier(3)

        def read():
            barrier.wait()
            if not np.array_equal(later.numpy(), want):
                wrong.append(1)
        threads = [threading.Thread(target=read) for _ in range(3)]
        [x.start() for x in threads], [x.join() for x in threads]
    check(not wrong, f"{len(wrong)} of 24 threads read numbers that were not there yet")
    with context.record() as step:
        context.attention(*[clattn.Buffer.zeros((1, 1, 2, 8), context=context)] * 3)
    later, group = large.later(), clattn.Group([context])
    for thing in (later, large._memory, context, step, group):
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            refused("is not copied", copied, thing)
    for copied in (copy.deepcopy, pickle.dumps):
        refused("is not copied", copied, large)
    check("not read yet" in repr(later) and np.array_equal(later.numpy(), want) and "not" not in repr(later), repr(later))
    name = clattn.devices()[0]["name"]
    for thing, words in ((context, "open"), (large, "float32 [4194304]"), (step, "1 launches"), (group, "open")):
        check(name in repr(thing) and words in repr(thing), repr(thing))
    for thing in (step, group):
        thing.close()
        thing.close()
        check("closed" in repr(thing), repr(thing))
    other = clattn.Context()
    buffer = clattn.Buffer(numbers(5), context=other)
    later, want = buffer.later(), buffer.numpy()
    [threading.Thread(target=other.close).start() for _ in range(3)]
    other.close()
    check("closed" in repr(other) and "closed" in repr(buffer) and np.array_equal(later.numpy(), want), "numbers outlive their context")
    script = f"import sys; sys.path.insert(0, {sys.argv[1]!r}); import clattn, os, numpy as np\n" \
             "b = clattn.Buffer(np.ones(9, np.float32))\nl = b.later()\n" \
             "pid = os.fork()\nif pid: sys.exit(os.waitpid(pid, 0)[1] // 256)\ntry: l.numpy()\nexcept ValueError: os._exit(0)\nos._exit(1)"
    done = subprocess.run([sys.executable, "-B", "-c", script], timeout=120)
    check(done.returncode == 0, "a child of fork does not wait for its parent's numbers")


total = keywords()
ragged()
helped()
others = porting()
meant()
owned()
print(f"{python_checks.checks} checks: {total} keywords of functions, {others} words of other libraries")
