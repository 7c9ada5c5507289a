"""docs/porting.md: each field that it names is one of clattn_attention_params or what that holds, and no argument is missing of an
operator that this Python can be asked about: ONNX's where there is onnx, flex_attention's where there is torch."""
import inspect
import re
import sys

STRUCTS = {"score": "clattn_score", "kv": "clattn_kv", "rope": "clattn_rope"}
header = re.sub(r"/\*.*?\*/", "", "".join(open(f"include/clattn/{name}.h").read() for name in ("attention", "rope")), flags=re.S)
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
