"""What PyTorch does with the same shapes on the same GPU: transformers' generate, the same compiled over a static cache, and
LoRA training by peft (or, where peft is not installed, the same adapters written in plain torch). One JSON object per line.

`gpu_peers.py SHAPE KIND=SIZE…`, kinds being generate, compiled and peft."""

import gc
import json
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SHAPES = {
    "smollm2-135m": ("llama", 576, 30, 9, 3, 1536, 49152, True),
    "qwen2.5-0.5b": ("qwen2", 896, 24, 14, 2, 4864, 151936, True),
    "qwen2.5-7b": ("qwen2", 3584, 28, 28, 4, 18944, 152064, False),
}
PROMPT, NEW, SEQUENCE, RANK = 128, 128, 256, 16


def model_of(shape):
    family, dim, layers, heads, kv_heads, ffn, vocab, tied = SHAPES[shape]
    config_class, model_class = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}[family]
    config = config_class(
        hidden_size=dim, num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
        intermediate_size=ffn, vocab_size=vocab, tie_word_embeddings=tied, max_position_embeddings=2048,
        bos_token_id=None, eos_token_id=None, pad_token_id=0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        return model_class(config).eval()


def say(what, shape, **facts):
    print(json.dumps({"what": what, "shape": shape, **facts}), flush=True)


def timed(work):
    torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def generate(shape, batch):
    model = model_of(shape)
    ids = torch.randint(10, SHAPES[shape][6] - 10, (batch, PROMPT), device="cuda")
    mask = torch.ones_like(ids)
    plain = lambda n: model.generate(ids, attention_mask=mask, max_new_tokens=n, min_new_tokens=n, do_sample=True)
    with torch.inference_mode():
        plain(8)
        say("generate", shape, tok_s=batch * NEW / timed(lambda: plain(NEW)))


@torch.no_grad()
def compiled(shape, batch):
    """Prefill as it is, then one compiled step per token: static cache, sampling inside, CUDA graphs by `reduce-overhead`. When it
    is warm it says so, and waits for a line before it takes the time: several of these may get ready side by side."""
    from transformers import StaticCache

    model = model_of(shape)
    cache = StaticCache(config=model.config, max_cache_len=PROMPT + NEW)

    def step(ids):
        logits = model(ids, past_key_values=cache, use_cache=True).logits[:, -1]
        return torch.multinomial(torch.softmax(logits.float(), -1), 1)

    fast = torch.compile(step, mode="reduce-overhead", fullgraph=False)

    def run(n):
        ids = torch.randint(10, SHAPES[shape][6] - 10, (batch, PROMPT), device="cuda")
        cache.reset()
        model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        token = ids[:, -1:].clone()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            token = fast(token).clone()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    for n in (4, 4, 16):
        run(n)
    say("ready", shape)
    sys.stdin.readline()
    say("compiled", shape, tok_s=batch * (NEW - 1) / min(run(NEW - 1) for _ in range(2)))


class Lora(torch.nn.Module):
    """y = w(x) + (x·aᵀ)·bᵀ·scale, as peft computes it."""

    def __init__(self, base):
        super().__init__()
        self.base, self.scale = base, 2.0
        self.a = torch.nn.Linear(base.in_features, RANK, bias=False, device="cuda", dtype=torch.float32)
        self.b = torch.nn.Linear(RANK, base.out_features, bias=False, device="cuda", dtype=torch.float32)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + (self.b(self.a(x.float())) * self.scale).to(x.dtype)


def adapted(model):
    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    try:
        from peft import LoraConfig, get_peft_model

        return get_peft_model(model, LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=names)), "peft"
    except ImportError:
        model.requires_grad_(False)
        for module in list(model.modules()):
            for name in names:
                if isinstance(getattr(module, name, None), torch.nn.Linear):
                    setattr(module, name, Lora(getattr(module, name)))
        return model, "plain torch"


def train(shape, batch):
    model, how = adapted(model_of(shape))
    model.train()
    if SHAPES[shape][1] > 2000:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    trained = [p for p in model.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(trained, lr=1e-3, fused=True)
    ids = torch.randint(10, SHAPES[shape][6] - 10, (batch, SEQUENCE), device="cuda")

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimiser.step()
        optimiser.zero_grad()

    step()
    best = min(timed(step) for _ in range(4))
    peak = torch.cuda.max_memory_allocated() / 2**30
    say("peft", shape, tok_s=batch * SEQUENCE / best, how=how, batch=batch, peak_gib=peak)


if __name__ == "__main__":
    for wish in sys.argv[2:]:
        kind, size = wish.split("=")
        try:
            {"generate": generate, "compiled": compiled, "peft": train}[kind](sys.argv[1], int(size))
        except Exception as error:  # One that fails keeps no other from being measured.
            say("failed", sys.argv[1], kind=kind, reason=f"{type(error).__name__}: {error}"[:600])
        gc.collect()
        torch.cuda.empty_cache()
