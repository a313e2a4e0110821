"""Runs unmodified clients against `hone serve`: run.py HONE [CLIENT …], where HONE is the binary. Sets up its own environment beside the build.

Each client asserts what came back and what was recorded. Exit code 1 when one of them does not get what it expects.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Each with what it needs. They stand in environments of their own: their wishes for each other's versions do not agree.
CLIENTS = {
    "openai": ["openai==3.4.0"],
    "agents": ["openai-agents==0.24.0"],
    "anthropic": ["anthropic==2.9.0"],
    "litellm": ["litellm==1.106.2"],
    "inspect": ["inspect-ai==0.3.285", "openai==3.4.0"],
    "otel": [
        "openai==3.4.0",
        "openinference-instrumentation-openai==0.1.66",
        "opentelemetry-exporter-otlp-proto-http==1.45.1",
        "opentelemetry-sdk==1.45.2",
    ],
    "otel_logs": [
        "httpx==0.28.1",
        "openai==3.4.0",
        "opentelemetry-exporter-otlp-proto-http==1.45.1",
        "opentelemetry-instrumentation-openai-v2==2.2b0",
        "opentelemetry-sdk==1.45.2",
        "wrapt==1.17.3",
    ],
    "otel_events": [
        "httpx==0.28.1",
        "openai==3.4.0",
        "opentelemetry-exporter-otlp-proto-http==1.45.1",
        "opentelemetry-instrumentation-openai-v2==2.4b0",
        "opentelemetry-sdk==1.45.2",
        "opentelemetry-util-genai==1.0b0",
    ],
}


def python(client):
    """An interpreter that has the client."""
    folder = HERE.parent.parent / "target" / "bench" / "clients" / client
    done = folder / "installed"
    wanted = "\n".join(CLIENTS[client])
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {client}", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", *CLIENTS[client]], check=True)
        done.write_text(wanted)
    return folder / "bin" / "python"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    hone, port = Path(sys.argv[1]).resolve(), free_port()
    interpreters = {client: python(client) for client in sys.argv[2:] or CLIENTS}
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        provider = subprocess.Popen([sys.executable, HERE / "provider.py", str(port)])
        tiny = "tiny:d32,l1,h2,kv1,ff48,v320,ctx512"
        subprocess.run([hone, "--folder", folder, "model", "add", tiny, "--name", "small"], check=True, capture_output=True)
        add = [hone, "--folder", folder, "deploy", "add", "desk", "v1", "--model", "agent"]
        subprocess.run(add, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        models = ["--model", f"agent=http://127.0.0.1:{port}/v1#provider-model", "--model", "own=local:small", "--context", "512"]
        serve = [hone, "--json", "--folder", folder, "serve", "--address", "127.0.0.1:0", *models]
        server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
        try:
            lines = ""
            while not lines.rstrip().endswith("}"):
                line = server.stdout.readline()
                if not line:
                    raise SystemExit("the server did not start")
                lines += line
            environment = os.environ | {"GATEWAY_URL": json.loads(lines)["url"], "GATEWAY_BINARY": str(hone), "GATEWAY_RECORDS": folder}
            for client, interpreter in interpreters.items():
                began = time.monotonic()
                done = subprocess.run([interpreter, HERE / f"use_{client}.py"], env=environment, capture_output=True, text=True)
                word = "ok" if done.returncode == 0 else "FAILED"
                print(f"{client:<12}{word:<8}{time.monotonic() - began:.1f} s")
                if done.returncode != 0:
                    failed.append(client)
                    print(done.stdout + done.stderr, file=sys.stderr)
        finally:
            server.terminate()
            server.wait(timeout=30)
            provider.kill()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
