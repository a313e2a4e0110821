"""Compares hone-engine with transformers on a real model: log-probs of texts, greedy continuations, bf16 error.

    python3 bench/parity/compare.py MODEL.gguf TOKENIZER.json

The engine writes its dequantised weights as a Hugging Face folder, transformers reads them, and both score the same token
ids. Prints one JSON object: `f32_max_diff` (largest difference of a text token's log-prob in f32), `greedy_equal` of
`prompts` (greedy continuations of 16 tokens that agree), `bf16_error_ratio` (mean, and `bf16_error_ratio_p99`: hone's bf16
error against f32 over that of transformers in bf16).
"""

import json
import subprocess
import sys
import tempfile

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

TEXTS = [
    "The capital of France is Paris, and the river that runs through it is the Seine.",
    "Once upon a time, there was a little girl who lived in a village near the forest.",
    "Water boils at 100 degrees Celsius at sea level, but at lower temperatures on a mountain.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "To make a good cup of tea, first warm the pot, then add one spoon of leaves per person.",
    "The mitochondria is the powerhouse of the cell because it produces most of the energy.",
    "In 1969 two people walked on the Moon while a third stayed in orbit above them.",
    "A prime number has exactly two divisors: one and itself. The first few are 2, 3, 5 and 7.",
    "She opened the letter slowly, read it twice, and then put it back without a word.",
    "SELECT name, age FROM users WHERE age > 30 ORDER BY name;",
    "<|im_start|>user\nWhat is 7 + 5?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nName three colours.<|im_end|>\n<|im_start|>assistant\n",
    "Dear Sir or Madam, I am writing to complain about the delay of my order.",
    "The quick brown fox jumps over the lazy dog, and the dog does not even look up.",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "If it rains tomorrow we will stay at home; if not, we will go to the lake.",
    "Music has no borders: a melody from one country can make people dance in another.",
    "The committee met on Monday to discuss the budget for the coming year.",
    "import numpy as np\n\nx = np.linspace(0, 1, 100)\ny = np.sin(x)\n",
    "Ice floats on water because it is less dense than the liquid.",
]


def engine(model, dtype, ids, *extra):
    command = ["target/release/examples/score", model, "--dtype", dtype, *extra]
    return json.loads(subprocess.run(command, input=json.dumps(ids), capture_output=True, text=True, check=True).stdout)


@torch.no_grad()
def torch_logprobs(model, ids):
    out = []
    for sequence in ids:
        log_p = torch.log_softmax(model(torch.tensor([sequence])).logits[0].float(), -1)
        out.append(log_p[:-1].gather(-1, torch.tensor(sequence[1:])[:, None])[:, 0].tolist())
    return out


@torch.no_grad()
def torch_greedy(model, sequence):
    ids = list(sequence)
    for _ in range(16):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(sequence):]


def flat(rows):
    return np.array([x for row in rows for x in row])


def main(model, tokenizer):
    tokenizer = Tokenizer.from_file(tokenizer)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]
    with tempfile.TemporaryDirectory() as folder:
        ours = engine(model, "f32", ids, "--export", folder)
        ours_bf16 = engine(model, "bf16", ids)
        reference = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        theirs = torch_logprobs(reference, ids)
        greedy = sum(torch_greedy(reference, sequence) == found for sequence, found in zip(ids, ours["greedy"]))
        theirs_bf16 = torch_logprobs(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16), ids)
    error = np.abs(flat(ours_bf16["logprobs"]) - flat(theirs))
    other = np.abs(flat(theirs_bf16) - flat(theirs))
    print(json.dumps({
        "f32_max_diff": float(np.abs(flat(ours["logprobs"]) - flat(theirs)).max()),
        "bf16_error_ratio": float(error.mean() / other.mean()),
        "bf16_error_ratio_p99": float(np.quantile(error, 0.99) / np.quantile(other, 0.99)),
        "bf16_error_mean": float(error.mean()), "torch_bf16_error_mean": float(other.mean()),
        "greedy_equal": greedy, "prompts": len(ids), "tokens": int(sum(map(len, ids)))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
