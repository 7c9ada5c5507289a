"""docs/porting.md: each field that it names is in clattn_attention_params or one of its members. No
argument is missing from porting_arguments.txt, which lists the arguments of other libraries'
packages. Arguments of operators in this Python are also checked: ONNX's if onnx is installed, and
flex_attention's if torch is.

    check_porting.py FOLDER...   print the lines for porting_arguments.txt of an unpacked PyPI
                                 package in FOLDER
"""
import ast
import glob
import inspect
import re
import sys

# For each package and file: the section of the page, and the functions whose arguments count, or
# classes with setters.
FLASH = ("FlashAttention", "flash_attn_.*(func|kvcache)")
SOURCES = {"flash_attn flash_attn/flash_attn_interface.py": FLASH,
           "flash_attn hopper/flash_attn_interface.py": FLASH,
           "flash-attn-4 flash_attn/cute/interface.py": FLASH,
           "nvidia-cudnn-frontend include/cudnn_frontend/graph_properties.h": ("cuDNN", "SDPA(NodeBase|_backward_attributes)"),
           "torch torch/_C/_nn.pyi": ("PyTorch, scaled_dot_product_attention", "scaled_dot_product_attention"),
           "torch torch/nn/attention/flex_attention.py": ("PyTorch, flex_attention", "flex_attention")}


def arguments_in(path, names):
    text = open(path, encoding="utf-8").read()
    if path.endswith(".h"):
        classes = re.finditer(rf"^class {names}\b.*?^\}};", text, re.M | re.S)
        return [name for body in classes for name in re.findall(r"^ +(?:[\w&]+ )?(set_\w+)\(", body.group(), re.M)]
    functions = [x for x in ast.parse(text).body if isinstance(x, ast.FunctionDef) and re.fullmatch(names, x.name)]
    return [x.arg for function in functions for x in function.args.posonlyargs + function.args.args + function.args.kwonlyargs]


def record(folder):
    about = open((glob.glob(folder + "/PKG-INFO") + glob.glob(folder + "/*.dist-info/METADATA"))[0], encoding="utf-8").read()
    package, version = (re.search(rf"^{word}: (.*)", about, re.M)[1] for word in ("Name", "Version"))
    for source, (section, names) in SOURCES.items():
        name, file = source.split()
        if name == package:
            print(f"{section} | {source} {version} | " + " ".join(dict.fromkeys(arguments_in(f"{folder}/{file}", names))))


if sys.argv[1:]:
    for folder in sys.argv[1:]:
        record(folder)
    sys.exit()

STRUCTS = {"score": "clattn_score", "kv": "clattn_kv", "rope": "clattn_rope", "backward": "clattn_attention_backward_params"}
header = re.sub(r"/\*.*?\*/", "", "".join(open(f"include/clattn/{name}.h").read() for name in ("attention", "rope", "backward")), flags=re.S)
wrong = []


def fields(struct):
    body = re.search(rf"typedef struct {struct} \{{(.*?)\n\}} {struct};", header, re.S)[1]
    return {name for line in body.split(";") for name in re.findall(r"(\w+)(?:\[\w+\])?\s*(?:,|$)", line.strip())}


own = fields("clattn_attention_params")
sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", open("docs/porting.md").read(), re.S | re.M))
rows = {title: re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, re.M)[1:] for title, text in sections.items()}
named = 0
for title, table in rows.items():
    for argument, field in table:
        words = re.findall(r"`([\w.]+)`", field)
        named += len(words)
        if not words and field not in ("always", "never"):
            wrong.append(f"{title}: {argument}: no field, and not always or never")
        for word in words:
            struct, _, name = word.rpartition(".")
            if name not in (fields(STRUCTS[struct]) if struct else own):
                wrong.append(f"{title}: {argument}: clattn_attention_params has no {word}")


def complete(title, names):
    table = next(table for key, table in rows.items() if key.startswith(title))
    told = {name for argument, _ in table for name in re.split(r"[ ,]+", argument)}
    wrong.extend(f"{title}: {name} is missing" for name in names if name not in told)
    print(f"counted: {title}: {len(names)} arguments")


lines = [line.split(" | ") for line in open("tests/source/porting_arguments.txt", encoding="utf-8") if not line.startswith("#")]
for section, source, names in lines:
    complete(section, names.split())
    version = ".".join(source.split()[2].split(".")[:2])
    if not any(title.startswith(section) and version in title for title in rows):
        wrong.append(f"{section}: its title does not say {version}, of which the arguments are")
if [source.rpartition(" ")[0] for _, source, _ in lines] != list(SOURCES):
    wrong.append(f"porting_arguments.txt is not of {list(SOURCES)}")
try:
    import onnx
    schema = onnx.defs.get_schema("Attention")
    complete("ONNX", [x.name for x in (*schema.inputs, *schema.outputs)] + list(schema.attributes))
except ImportError:
    pass
try:
    from torch.nn.attention.flex_attention import flex_attention
    complete("PyTorch, flex_attention", list(inspect.signature(flex_attention).parameters))
except ImportError:
    pass
if named < 90:
    wrong.append(f"{named} fields are named: is this the page?")
print("\n".join(wrong) or f"counted: {named} fields, {sum(map(len, rows.values()))} rows")
sys.exit(bool(wrong))
