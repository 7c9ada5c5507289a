"""Files for the checks of the program: .npy and safetensors files, small and with known numbers."""
import json
import math
import struct

LETTERS = {"<f4": "f", "<i4": "i", "<i8": "q"}


def npy(name, shape, values=None, descr="<f4"):
    head = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)})
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    count = math.prod(shape)
    values = [(i % 7 - 3) / 4 for i in range(count)] if values is None else values
    with open(name, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{count}{LETTERS[descr]}", *values))


def raw(shape):
    """The bytes of a float32 tensor."""
    return struct.pack(f"<{math.prod(shape)}f", *((i % 5 - 2) / 8 for i in range(math.prod(shape))))


def safetensors(name, tensors):
    """`tensors`: for each a shape, a shape with its bytes, or these with the name of a type."""
    head, body = {}, b""
    for key, tensor in tensors.items():
        shape, data, *dtype = tensor if isinstance(tensor, tuple) else (tensor, raw(tensor))
        head[key] = {"dtype": dtype[0] if dtype else "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    with open(name, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read_safetensors(name):
    """Returns each tensor's shape and bytes."""
    with open(name, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:start])
    return {key: (entry["shape"], data[start:][slice(*entry["data_offsets"])]) for key, entry in head.items() if key != "__metadata__"}
