"""A small OpenAI-compatible server that samples with torch and loads PEFT adapters by name, with the endpoints of vLLM.

It stands in for vLLM where vLLM cannot be installed: another program with other numerics, so that `hone train grpo --sampler`
meets log-probs that are not its own. Usage: lora_server.py GGUF FOLDER PORT, where FOLDER is what `hone model export` wrote of
the GGUF file, which has the tokenizer.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

GGUF, FOLDER, PORT = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
BASE = "base"
tokenizer = AutoTokenizer.from_pretrained(GGUF.parent, gguf_file=GGUF.name)
model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
adapters = set()
lock = threading.Lock()


def load(name, path):
    global model
    if name in adapters:
        raise ValueError(f"The lora adapter '{name}' has already been loaded.")
    if isinstance(model, PeftModel):
        model.load_adapter(path, adapter_name=name)
    else:
        model = PeftModel.from_pretrained(model, path, adapter_name=name)
    adapters.add(name)


def unload(name):
    adapters.remove(name)
    model.delete_adapter(name)


@torch.no_grad()
def answer(request):
    """The prompt's ids, the sampled ids and the log-prob of each."""
    chat = [{"role": m["role"], "content": m["content"]} for m in request["messages"]]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
    generator = torch.Generator().manual_seed(request.get("seed", 0) % (1 << 63))
    temperature = request.get("temperature", 1.0)
    ids, logprobs, past, feed = [], [], None, torch.tensor([prompt])
    while len(ids) < request["max_tokens"]:
        out = model(feed, past_key_values=past, use_cache=True)
        past = out.past_key_values
        scores = torch.log_softmax(out.logits[0, -1].float() / temperature, -1)
        token = torch.multinomial(scores.exp(), 1, generator=generator).item()
        ids.append(token)
        logprobs.append(scores[token].item())
        if token == tokenizer.eos_token_id:
            break
        feed = torch.tensor([[token]])
    return prompt, ids, logprobs


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def reply(self, status, kind, text):
        body = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with lock:
            try:
                if self.path == "/v1/load_lora_adapter":
                    load(request["lora_name"], request["lora_path"])
                    return self.reply(200, "text/plain", "Success")
                if self.path == "/v1/unload_lora_adapter":
                    unload(request["lora_name"])
                    return self.reply(200, "text/plain", "Success")
                if request["model"] != BASE:
                    model.set_adapter(request["model"])
                prompt, ids, logprobs = answer(request)
            except (KeyError, ValueError) as error:
                return self.reply(400, "application/json", json.dumps({"error": {"message": str(error)}}))
        text = tokenizer.decode(ids, skip_special_tokens=True)
        finish = "stop" if ids[-1] == tokenizer.eos_token_id else "length"
        content = [{"token": "", "logprob": x} for x in logprobs]
        first = {"model": request["model"], "prompt_token_ids": prompt,
                 "choices": [{"index": 0, "delta": {"role": "assistant", "content": text}, "token_ids": ids,
                              "logprobs": {"content": content}}]}
        last = {"model": request["model"], "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
                "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(ids)}}
        self.reply(200, "text/event-stream", "".join(f"data: {x}\n\n" for x in (json.dumps(first), json.dumps(last), "[DONE]")))


torch.set_num_threads(1)
print(f"listening on {PORT}", flush=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
