"""Starts the gateway of others for `hone bench gateway --peers`, and prints its port once it answers.

Usage: gateway_peers.py litellm|tensorzero PROVIDER_PORT MODEL FOLDER. Each is installed into an environment of its own under
~/.cache/hone-bench on first use. It ends when its stdin is closed. LiteLLM runs with one worker; TensorZero with its recording off, as it
is without a database.
"""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import venv
from pathlib import Path

WANTED = {
    "litellm": ["litellm[proxy]==1.97.0", "fastapi==0.136.3", "starlette==1.3.1"],
    "tensorzero": ["tensorzero==2026.6.0", "openai"],
}


def python(name):
    """An interpreter that has the gateway."""
    folder = Path.home() / ".cache" / "hone-bench" / name
    done = folder / "installed"
    wanted = "\n".join(WANTED[name])
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {name}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *WANTED[name]], check=True)
        done.write_text(wanted)
    return folder / "bin" / "python"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for(url, process):
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit("the gateway ended before it answered")
        try:
            urllib.request.urlopen(url, timeout=1)
            return
        except Exception:
            time.sleep(0.2)
    raise SystemExit("the gateway did not answer within two minutes")


def litellm(interpreter, provider, model, folder):
    config, port = folder / "litellm.yaml", free_port()
    config.write_text(
        f"model_list:\n  - model_name: {model}\n    litellm_params:\n      model: openai/{model}\n"
        f"      api_base: http://127.0.0.1:{provider}/v1\n      api_key: unused\n"
        "general_settings:\n  master_key: sk-bench\n"
    )
    command = [interpreter.parent / "litellm", "--config", config, "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
    environment = os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(f"http://127.0.0.1:{port}/health/liveliness", process)
    return process, port


def tensorzero(interpreter, provider, model, folder):
    config = folder / "tensorzero.toml"
    config.write_text(
        f'[models."{model}"]\nrouting = ["mock"]\n\n[models."{model}".providers.mock]\ntype = "openai"\nmodel_name = "{model}"\n'
        f'api_base = "http://127.0.0.1:{provider}/v1/"\napi_key_location = "none"\n'
    )
    # The gateway lives inside the patched client's process, which tells its address.
    script = (
        "import sys\nfrom openai import OpenAI\nfrom tensorzero import patch_openai_client\n"
        "client = OpenAI(api_key='unused')\n"
        f"patch_openai_client(client, config_file={str(config)!r}, async_setup=False)\n"
        "print(client.base_url.port, flush=True)\nsys.stdin.read()\n"
    )
    process = subprocess.Popen([interpreter, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # It says other things first.
    for line in process.stdout:
        if line.strip().isdigit():
            threading.Thread(target=process.stdout.read, daemon=True).start()
            return process, int(line)
    raise SystemExit("the gateway ended before it answered")


def main():
    name, provider, model, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    start = {"litellm": litellm, "tensorzero": tensorzero}[name]
    process, port = start(python(name), provider, model, folder)
    try:
        print(port, flush=True)
        sys.stdin.read()
    finally:
        process.kill()


main()
