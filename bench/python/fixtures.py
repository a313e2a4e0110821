"""Writes the small checkpoints that hone-engine's tests read, with what torch says about them.

Four families at toy sizes, random weights rounded to bf16 (so that half the bytes hold them exactly), each with a LoRA
adapter written by peft. Expected values are computed in float64 from plain torch: log-probs over the vocabulary,
log-prob and entropy of every completion token at temperature 0.8, and the gradients of
`sum(weight * logprob + 0.05 * entropy)` for all parameters and for the adapter.

    python3 bench/parity/fixtures.py crates/hone-engine/tests/fixtures
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
FAMILIES = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=False,
                                                  rope_parameters=dict(LLAMA3, rope_theta=10000.0))),
    "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES, head_dim=8, tie_word_embeddings=True)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=None, tie_word_embeddings=False)),
}
TEMPERATURE = 0.8
ENTROPY_WEIGHT = 0.05
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def randomise(model, generator):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        value = 1 + 0.2 * noise if "norm" in name else 0.25 * noise
        parameter.data = value.to(torch.bfloat16).to(parameter.dtype)


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
    return torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)


def main(out):
    generator = torch.Generator().manual_seed(7)
    for family, make in FAMILIES.items():
        folder = out / family
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = make()
        randomise(model, generator)
        model.to(torch.bfloat16).save_pretrained(folder, max_shard_size="6KB" if family == "mistral" else "1GB")
        (folder / "generation_config.json").unlink(missing_ok=True)
        # Read back: a cast to bf16 also rounds the rotary frequencies, which are no weights.
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).double()
        draw = lambda n: torch.randint(0, 40, (n,), generator=generator).tolist()
        case = {"prompt": draw(19), "completions": [draw(5), draw(1), draw(17)], "text": draw(32)}
        case["weights"] = torch.randn(23, generator=generator).tolist()
        expected = {"vocabulary": vocabulary(model, case["text"]).detach()}
        expected["logprob"], expected["entropy"], loss = evaluate(model, case)
        loss.backward()
        for name, parameter in model.named_parameters():
            expected[f"grad/{name}"] = parameter.grad.clone()
            parameter.grad = None

        config = LoraConfig(r=4, lora_alpha=6, target_modules=TARGETS, task_type="CAUSAL_LM", lora_dropout=0.0)
        adapted = get_peft_model(model, config)
        for name, parameter in adapted.named_parameters():
            if "lora_" in name:
                parameter.data = (0.3 * torch.randn(parameter.shape, generator=generator)).double()
        for parameter in adapted.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float().double()
        expected["lora_vocabulary"] = vocabulary(adapted, case["text"]).detach()
        expected["lora_logprob"], _, loss = evaluate(adapted, case)
        loss.backward()
        for name, parameter in adapted.named_parameters():
            if parameter.grad is not None and "lora_" in name:
                expected["lora_grad/" + name.replace("base_model.model.", "").replace(".default", "")] = parameter.grad
        adapted.float().save_pretrained(folder / "adapter")
        (folder / "adapter" / "README.md").unlink(missing_ok=True)
        save_file({name: value.float().contiguous() for name, value in expected.items()}, folder / "expected.safetensors")
        (folder / "case.json").write_text(json.dumps(case) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
