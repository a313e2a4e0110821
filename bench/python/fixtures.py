"""Writes the small checkpoints that hone-engine's tests read, with what torch says about them.

Four families at toy sizes, each with a LoRA adapter written by peft. Expected values are computed in float64 from plain
torch: log-probs over the vocabulary, log-prob and entropy of every completion token at temperature 0.8, and the gradients of
`sum(weight * logprob + 0.05 * entropy)` for all parameters and for the adapter.

    target/bench/venv/bin/python bench/python/fixtures.py crates/hone-engine/tests/fixtures
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file

import checkpoints

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
TEMPERATURE = 0.8
ENTROPY_WEIGHT = 0.05


def evaluate(model, case):
    """Scores of the completions and the loss, each sequence on its own."""
    logprobs, entropies, loss = [], [], 0
    weights = iter(case["weights"])
    for completion in case["completions"]:
        ids = torch.tensor([case["prompt"] + completion])
        z = model(ids).logits[0, len(case["prompt"]) - 1:-1].double() / TEMPERATURE
        log_p = torch.log_softmax(z, -1)
        entropy = -(log_p.exp() * log_p).sum(-1)
        chosen = log_p.gather(-1, torch.tensor(completion)[:, None])[:, 0]
        for value, h in zip(chosen, entropy):
            loss = loss + next(weights) * value + ENTROPY_WEIGHT * h
        logprobs.append(chosen.detach())
        entropies.append(entropy.detach())
    return torch.cat(logprobs), torch.cat(entropies), loss


def vocabulary(model, ids):
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1).detach()


def random_case(generator):
    def draw(n):
        return torch.randint(0, SIZES["vocab_size"], (n,), generator=generator).tolist()

    case = {"prompt": draw(19), "completions": [draw(5), draw(1), draw(17)], "text": draw(32)}
    return case | {"weights": torch.randn(23, generator=generator).tolist()}


def of_model(model, case):
    """What torch says about the model itself."""
    expected = {"vocabulary": vocabulary(model, case["text"])}
    expected["logprob"], expected["entropy"], loss = evaluate(model, case)
    loss.backward()
    for name, parameter in model.named_parameters():
        expected[f"grad/{name}"] = parameter.grad.clone()
        parameter.grad = None
    return expected


def of_adapter(adapted, case):
    """What torch says about the model under the adapter."""
    expected = {"lora_vocabulary": vocabulary(adapted, case["text"])}
    expected["lora_logprob"], _, loss = evaluate(adapted, case)
    loss.backward()
    for name, parameter in adapted.named_parameters():
        if parameter.grad is not None and "lora_" in name:
            expected["lora_grad/" + name.replace("base_model.model.", "").replace(".default", "")] = parameter.grad
    return expected


def write(folder, family, generator):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shards = "6KB" if family == "mistral" else "1GB"
    model = checkpoints.write(folder, family, SIZES, generator, max_shard_size=shards).double()
    (folder / "generation_config.json").unlink(missing_ok=True)
    case = random_case(generator)
    expected = of_model(model, case)

    config = LoraConfig(r=4, lora_alpha=6, target_modules=checkpoints.TARGETS, task_type="CAUSAL_LM", lora_dropout=0.0)
    adapted = get_peft_model(model, config).float()
    checkpoints.random_adapter(adapted, 0.3, generator)
    expected |= of_adapter(adapted.double(), case)
    adapted.float().save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    save_file({name: value.float().contiguous() for name, value in expected.items()}, folder / "expected.safetensors")
    (folder / "case.json").write_text(json.dumps(case) + "\n")


def main(out):
    generator = torch.Generator().manual_seed(7)
    for family in checkpoints.FAMILIES:
        write(out / family, family, generator)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
