#!/usr/bin/env python3
"""The steps of a newcomer. Every command line of README and docs, and every example of --help, runs
as written, in a folder with files of the names that it uses. Slow commands run with shorter
measurements, and with 32 rows instead of each 1,024. Prints what was run.

   check_walk.py BUILD
"""
import glob, json, os, re, shutil, subprocess, sys, tempfile

from files import npy, read_safetensors, safetensors

build, top = os.path.abspath(sys.argv[1]), os.getcwd()
data = os.path.join(top, "tests/data")
readme = open("README.md").read()
work = tempfile.mkdtemp()
os.chdir(work)
os.makedirs("home/.local/share/bash-completion/completions")
environment = {**os.environ, "XDG_CACHE_HOME": work + "/cache", "HOME": work + "/home", "PATH": build + ":" + os.environ["PATH"]}
# Settings that compile kernels unoptimised (driver.sh).
plain = dict(word.split("=", 1) for word in os.environ.get("plainly", "").split())
# Options that shorten slow commands. The cases use kernels that check_bench.sh has compiled.
CUT = {"bench": "--max-ms 1 --check off --limits off --cache-dir off", "verify": "--only planner --case plain --cache-dir off",
       "bench --submit": "--help",  # check_report.sh measures the whole set
       "doctor": "--only flash,unfused",  # check_doctor.sh runs every family
       "tune": "--quick --case attend-f16-b1-h2-n9-d16-full --cache-dir off"}


def run(line, cut=""):
    whole = f"{line} {cut}".strip()
    done = subprocess.run(["bash", "-c", "set -o pipefail; " + whole], capture_output=True, text=True, timeout=600,
                          env={**environment, **plain})
    if done.returncode == 0:
        print(f"ran: {whole}")
        return True
    print(f"exit status {done.returncode}: {whole}\n{done.stderr[-600:]}")
    return False


def prepare(line):
    """Create the input files that the line names, with the shapes of its model."""
    for name in "q", "k", "v", "dout":
        npy(name + ".npy", (1, 2, 8, 16))
    shutil.copy(data + "/minilm_layer0_weights.npy", "weights.npy")
    shutil.copy(data + "/minilm_layer0_weights.npy", "w.npy")
    shutil.copy(data + "/minilm_tokens.txt", "tokens.txt")
    shutil.copy(data + "/minilm_layer0.safetensors", "model.safetensors")
    width = 8 if "--preset" in line else 576 if "--model" in line else 384
    npy("x.npy", (1, 5, width))
    own = "model.layers.0.self_attn."
    if not os.path.exists("layer.safetensors"):
        safetensors("layer.safetensors", {own + "q_proj.weight": [4096, 8], own + "k_proj.weight": [1024, 8],
            own + "v_proj.weight": [1024, 8],
                                          own + "o_proj.weight": [8, 4096], own + "q_norm.weight": [128], own + "k_norm.weight": [128]})
        os.mkdir("SmolLM2-135M")
        block = {"input_layernorm": [576], "post_attention_layernorm": [576], "mlp.gate_proj": [64, 576], "mlp.up_proj": [64, 576],
                 "mlp.down_proj": [576, 64]}
        safetensors("SmolLM2-135M/model.safetensors", {**read_safetensors(data + "/smollm2_layer0.safetensors"),
                                                       **{f"model.layers.0.{key}.weight": shape for key, shape in block.items()}})
        json.dump({"model_type": "llama", "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3, "num_hidden_layers": 30,
                   "rope_theta": 100000, "intermediate_size": 64}, open("SmolLM2-135M/config.json", "w"))
        for name in "A", "B", "before", "after":
            assert run(f"clattn bench -n 9 -d 16 --heads 2 --max-ms 1 --limits off --cache-dir off --quiet --save {name}.json")


def left_to(page):
    """Returns another check of the page's snippets, tests/*/check_PAGE.*, or None."""
    checks = glob.glob(f"{top}/tests/*/check_{os.path.basename(page)[:-3]}.*")
    return next((x for x in sorted(checks) if "docs/" + os.path.basename(page) in open(x, encoding="utf-8").read()), None)


def lines_of(snippet):
    """The commands of a fenced block, each on one line."""
    return [x for x in (re.sub(r"\s+", " ", line).strip() for line in snippet.replace("\\\n", " ").splitlines()) if x]


def shortened(line):
    """Returns the line, and options that shorten it to seconds."""
    command = line.split()[1]
    cut = "" if "--help" in line else CUT.get(f"{command} --submit" if "--submit" in line else command, "")
    if "--only" in line and command == "doctor":
        cut = ""
    if "--family" in line:
        cut = "--case plain --cache-dir off"
    if "--pairs" in line:
        cut = "--share 0/500 --cache-dir off"
    if "--options" in line:
        cut += " --case attend-f32-b1-h2-n70-d16-full"
    if "--against" in line:
        cut += " -n 64 -d 16 --heads 2"
    if command == "compare":
        cut = "--quiet --allow-inconclusive || [ $? -eq 1 ]" if "--fail-above" in line else "--quiet"
    if "man -l" in line and not shutil.which("man"):
        line = line.replace("man -l -", "cat")
    if line == "clattn bench":
        cut += " -n 64"
    return re.sub(r"\b(\d+)k\b", lambda size: str(32 * int(size[1])), line.replace(" 512,", " 16,")), cut


def check_table():
    """The README's block has the columns of a bench's output, and its rows name limits as a bench
    does."""
    done = subprocess.run("clattn bench -n 9 -d 16 --heads 2 --max-ms 1 --cache-dir off -o md 2>/dev/null", shell=True, capture_output=True,
                          text=True, check=True, env={**environment, **plain})
    printed = [x for x in done.stdout.splitlines() if x.startswith("|")]
    shown = re.findall(r"^    (\|.*)$", readme, re.M)
    assert len(shown) >= 3 and shown[:2] == printed[:2], ("README's table is another one", shown[:2], printed[:2])
    limit = shown[0].split("|").index(" of limit ")
    for row in shown[2:] + printed[2:3]:
        assert row.count("|") == shown[0].count("|") and re.fullmatch(r" \d+ % of (float32 FMA|[a-zA-Z]+ [a-z0-9 ]*|reading [0-9.]+ [kM]B \(\w+\)) ",
                                                                     row.split("|")[limit]), row


def main():
    lines = []
    check_table()
    commands = re.findall(r"^  ([a-z]+) ", subprocess.run([build + "/clattn", "--help"], capture_output=True, text=True).stdout, re.M)
    assert len(commands) >= 11, commands
    for command in commands:
        text = subprocess.run([build + "/clattn", command, "--help"], capture_output=True, text=True).stdout
        example = re.search(r"^example:\n((?:    .*\n)+)", text, re.M)
        assert example, command
        lines += [x.strip() for x in example.group(1).replace("\\\n", " ").splitlines()]
    blocks = re.findall(r"^    (clattn [a-z].*)$", readme, re.M)
    assert len(blocks) >= 6, blocks
    for block in blocks:
        for part in re.sub(r"\s{2,}.*", "", block).split(", clattn "):
            lines.append(part if part.startswith("clattn ") else "clattn " + part)
    for page in sorted(glob.glob(top + "/docs/*.md")):
        for snippet in [] if left_to(page) else re.findall(r"^```sh *\n(.*?)^```", open(page, encoding="utf-8").read(), re.M | re.S):
            lines += lines_of(snippet)
    good = True
    for line in dict.fromkeys(re.sub(r"\s+", " ", x) for x in lines):
        prepare(line)
        good = run(*shortened(line)) and good
    for tool in ("python3 bench/peers.py --list",):
        good = run(f"cd {top} && {tool}") and good
    shutil.rmtree(work)
    assert good, "some lines did not run"
    print(f"{len(lines)} lines of the README, of docs and of --help: all ran")


if __name__ == "__main__":
    main()
