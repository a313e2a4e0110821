"""Trains a Llama of about one million parameters in plain torch, timed: the peer of hone's tiny model.

    torch_tiny.py --dtype bf16|f32 --threads N --steps N

The shape of `tiny:d128,l4,h4,kv4,ff448,v256`: 32 sequences of 128 tokens, every parameter trained by AdamW with clipping.
In bf16 the weights stay in f32 and the products of the linear layers run under autocast, as one would train it. Prints tokens per second of the
fastest step, as hone does.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

DIM, N_LAYERS, N_HEADS, FFN_DIM, VOCAB = 128, 4, 4, 448, 256
N_SEQUENCES, LENGTH = 32, 128


class Block(nn.Module):
    """Attention and SwiGLU, each behind a norm and added to the stream."""

    def __init__(self):
        super().__init__()
        self.norm_attention, self.norm_ffn = nn.RMSNorm(DIM, eps=1e-5), nn.RMSNorm(DIM, eps=1e-5)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.gate_up, self.down = nn.Linear(DIM, 2 * FFN_DIM, bias=False), nn.Linear(FFN_DIM, DIM, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm_attention(x)).view(batch, length, 3, N_HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, DIM))
        gate, up = self.gate_up(self.norm_ffn(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Tiny(nn.Module):
    """The whole model, its head tied to its embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(N_LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-5)
        half = DIM // N_HEADS // 2
        angles = torch.outer(torch.arange(LENGTH), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return F.linear(self.norm(x), self.embed.weight)


def attention(q, k, v):
    """Always in f32: on a CPU the backward in bf16 would take half of the step."""
    with torch.autocast("cpu", enabled=False):
        return F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True).to(v.dtype)


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["bf16", "f32"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(3)
    model = Tiny()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    positions = torch.arange(LENGTH + 1)
    ids = torch.randint(0, 16, (N_SEQUENCES, LENGTH + 1)) + positions % 3
    losses, times = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.dtype == "bf16"):
            logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.item())
        times.append(time.perf_counter() - begin)
    assert losses[-1] < losses[0], "the model learns"
    n_params = sum(parameter.numel() for parameter in model.parameters())
    print(json.dumps({"params": n_params, "train_tokens_per_s": N_SEQUENCES * LENGTH / min(times)}))


if __name__ == "__main__":
    main()
