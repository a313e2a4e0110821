"""Random checkpoints of the families that hone-engine knows, made by transformers.

Weights are rounded to bf16, so that half the bytes hold them exactly and both number formats start from the same values.
"""

import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
FAMILIES = {
    "llama": lambda sizes: LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False, rope_parameters=LLAMA3)),
    "qwen2": lambda sizes: Qwen2ForCausalLM(Qwen2Config(**sizes, tie_word_embeddings=True)),
    "qwen3": lambda sizes: Qwen3ForCausalLM(Qwen3Config(**sizes, head_dim=wide_head(sizes), tie_word_embeddings=True)),
    "mistral": lambda sizes: MistralForCausalLM(MistralConfig(**sizes, sliding_window=None, tie_word_embeddings=False)),
}
TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def wide_head(sizes):
    """Twice what the hidden size would give, as Qwen3 allows."""
    return 2 * sizes["hidden_size"] // sizes["num_attention_heads"]


def write(folder, family, sizes, generator, max_shard_size="1GB"):
    """Writes a checkpoint with random weights and returns it as read back in f32."""
    model = FAMILIES[family](sizes)
    scale = sizes["hidden_size"] ** -0.5
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        value = 1 + 0.2 * noise if "norm" in name else scale * noise
        parameter.data = value.to(torch.bfloat16).to(parameter.dtype)
    model.to(torch.bfloat16).save_pretrained(folder, max_shard_size=max_shard_size)
    # Read back: a cast to bf16 also rounds the rotary frequencies, which are no weights.
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def random_adapter(adapted, scale, generator):
    """Gives every matrix of a peft adapter random values; fresh ones change nothing."""
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = (scale * torch.randn(parameter.shape, generator=generator)).to(parameter.dtype)
