"""Compares hone-engine with transformers and peft. Run by `bench/parity` inside its virtual environment.

    compare.py --score BINARY --adapter BINARY --gguf FILE --folder HF_FOLDER

Both sides score the same token ids from the same weights: hone reads the GGUF file, transformers the folder that hone wrote
from it; random checkpoints of four families are written by transformers and read by both. Prints one JSON object.

In bf16 two correct runs differ widely on single tokens, so errors are compared, not runs: `bf16_error_ratio` is hone's
mean error against transformers in f32 over that of transformers in bf16, `bf16_error_ratio_p99` the same for the 99th
percentile; both on the texts' own tokens.
"""

import argparse
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import checkpoints
import ground
from texts import TEXTS

N_GREEDY = 16
SIZES = dict(vocab_size=512, hidden_size=64, intermediate_size=160, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256)


@dataclass
class Scores:
    """Log-probs of some sequences: of every token after the first, and of the whole vocabulary at every position."""

    text: np.ndarray
    vocabulary: np.ndarray

    def error(self, reference):
        return np.abs(self.text - reference.text)

    def differences(self, reference):
        """The largest difference on the text and over the vocabulary."""
        return {"max_diff": float(self.error(reference).max()),
                "vocab_max_diff": float(np.abs(self.vocabulary - reference.vocabulary).max())}


class Hone:
    """hone-engine through its two example programs."""

    def __init__(self, score, adapter):
        self.score_binary, self.adapter_binary = score, adapter

    def score(self, model, ids, dtype="f32", adapter=None):
        """Scores of the sequences, and their greedy continuations."""
        with tempfile.NamedTemporaryFile() as logits:
            command = [self.score_binary, model, "--dtype", dtype, "--logits", logits.name]
            found = ground.run_json(command + (["--adapter", adapter] if adapter else []), given=ids)
            rows = np.fromfile(logits.name, dtype="<f4").reshape(sum(map(len, ids)), -1)
        text = np.concatenate([np.array(row) for row in found["logprobs"]])
        return Scores(text, log_softmax(torch.from_numpy(rows))), found["greedy"]

    def train(self, model, ids, folder):
        """Trains an adapter on the sequences and saves it."""
        ground.run_json([self.adapter_binary, model, folder], given=ids)


def load(folder, dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)


def log_softmax(logits):
    return torch.log_softmax(logits.double(), -1).float().numpy()


@torch.no_grad()
def torch_score(model, ids):
    rows = [log_softmax(model(torch.tensor([sequence])).logits[0]) for sequence in ids]
    text = [row[np.arange(len(sequence) - 1), sequence[1:]] for row, sequence in zip(rows, ids)]
    return Scores(np.concatenate(text), np.concatenate(rows))


@torch.no_grad()
def torch_greedy(model, sequence):
    ids = list(sequence)
    for _ in range(N_GREEDY):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(sequence):]


def compare_model(hone, model, folder, ids):
    """Log-probs in f32, greedy continuations, errors in bf16."""
    reference = load(folder)
    expected = torch_score(reference, ids)
    found, continued = hone.score(model, ids)
    differences = found.differences(expected)
    error = hone.score(model, ids, dtype="bf16")[0].error(expected)
    torch_error = torch_score(load(folder, torch.bfloat16), ids).error(expected)
    return {
        "f32_max_diff": differences["max_diff"], "f32_vocab_max_diff": differences["vocab_max_diff"],
        "bf16_error_ratio": float(error.mean() / torch_error.mean()),
        "bf16_error_ratio_p99": float(np.quantile(error, 0.99) / np.quantile(torch_error, 0.99)),
        "bf16_error_mean": float(error.mean()), "torch_bf16_error_mean": float(torch_error.mean()),
        "greedy_equal": sum(torch_greedy(reference, sequence) == line for sequence, line in zip(ids, continued)),
        "prompts": len(ids), "tokens": sum(map(len, ids))}


def compare_adapter(hone, model, folder, ids, adapter):
    """The same adapter in hone and in peft; `moved` is how far it moves the model at all."""
    expected = torch_score(PeftModel.from_pretrained(load(folder), adapter), ids)
    found, _ = hone.score(model, ids, adapter=adapter)
    return found.differences(expected) | {"moved": found.differences(torch_score(load(folder), ids))["max_diff"]}


def compare_adapters(hone, model, folder, ids, generator):
    """One adapter trained and written by hone, one written by peft."""
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = Path(scratch) / "hone", Path(scratch) / "peft"
        hone.train(model, ids, ours)
        config = LoraConfig(r=8, lora_alpha=12, target_modules=checkpoints.TARGETS, task_type="CAUSAL_LM")
        adapted = get_peft_model(load(folder), config)
        checkpoints.random_adapter(adapted, 0.03, generator)
        adapted.save_pretrained(theirs)
        return {"by_hone": compare_adapter(hone, model, folder, ids, ours),
                "by_peft": compare_adapter(hone, model, folder, ids, theirs)}


def random_texts(generator):
    lengths = range(32, 32 + 4 * len(TEXTS), 4)
    return [torch.randint(0, SIZES["vocab_size"], (n,), generator=generator).tolist() for n in lengths]


def compare_all(hone, gguf, folder):
    generator = torch.Generator().manual_seed(11)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    ids = [tokenizer(text, add_special_tokens=False).input_ids for text in TEXTS]
    figures = compare_model(hone, gguf, folder, ids)
    adapters = {"smollm2": compare_adapters(hone, gguf, folder, ids, generator)}
    families = {}
    for family in checkpoints.FAMILIES:
        with tempfile.TemporaryDirectory() as scratch:
            checkpoints.write(scratch, family, SIZES, generator)
            texts = random_texts(generator)
            families[family] = compare_model(hone, scratch, scratch, texts)
            adapters[family] = compare_adapters(hone, scratch, scratch, texts, generator)
    versions = {module.__name__: module.__version__ for module in (torch, transformers, peft)}
    return figures | {"families": families, "peft": adapters, "versions": versions}


def main():
    parser = argparse.ArgumentParser()
    for name in ("--score", "--adapter", "--gguf", "--folder"):
        parser.add_argument(name, type=Path, required=True)
    options = parser.parse_args()
    print(json.dumps(compare_all(Hone(options.score, options.adapter), options.gguf, options.folder)))


if __name__ == "__main__":
    main()
