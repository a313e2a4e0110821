"""GRPO steps in TRL, timed: the peer of `hone bench grpo`. Run by `bench/grpo-cpu` inside its virtual environment.

    trl_step.py MODEL_FOLDER --dtype bf16|f32 --threads N --steps N

The same work as hone's: 4 prompts of 74 tokens, 8 completions of 64 tokens each, LoRA of rank 16 on all linear layers, no
reference model (beta 0), one optimiser step per batch. It is TRL's own trainer with TRL's own generation; what differs
from its defaults makes it do this work, or do it faster: the whole batch at once, and no gradient checkpointing, which
would save memory and compute the forward twice.

The tokenizer is made up, one word per id, so that prompts have an exact length; speed does not depend on the text.
End-of-text cannot be sampled before the 64th token, so every step samples 2048 tokens; the reward function counts them.
"""

import argparse
import json
import tempfile
import time

import torch
import transformers
import trl
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoConfig, PreTrainedTokenizerFast, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

N_PROMPTS, N_PROMPT_TOKENS, N_SAMPLES, N_NEW = 4, 74, 8, 64
DTYPES = {"bf16": "bfloat16", "f32": "float32"}


class Clock(TrainerCallback):
    """Ends of steps, and the time of generation inside each."""

    def __init__(self):
        self.ends, self.sample_s = [], []

    def on_train_begin(self, *_, **__):
        self.ends.append(time.perf_counter())

    def on_step_end(self, *_, **__):
        self.ends.append(time.perf_counter())

    def around_sampling(self, generate):
        """The same function, timed."""

        def timed(*arguments, **named):
            begin = time.perf_counter()
            result = generate(*arguments, **named)
            self.sample_s.append(time.perf_counter() - begin)
            return result

        return timed

    def steps(self):
        """Seconds of sampling and of everything else, of each step but the first, which warms up."""
        whole = [end - begin for begin, end in zip(self.ends, self.ends[1:])]
        train_s = [step - sample for step, sample in zip(whole, self.sample_s)]
        return {"sample_s": self.sample_s[1:], "train_s": train_s[1:]}


def tokenizer(n_vocab):
    words = Tokenizer(WordLevel({f"t{i}": i for i in range(n_vocab)}, unk_token="t0"))
    words.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="t0", eos_token="t1", pad_token="t2", padding_side="left")


def prompts(n_vocab):
    ids = torch.randint(3, n_vocab, (N_PROMPTS, N_PROMPT_TOKENS), generator=torch.Generator().manual_seed(2))
    return [" ".join(f"t{i}" for i in row) for row in ids.tolist()]


def reward(completion_ids, **_):
    """Made up; also checks that both sides sample the same number of tokens."""
    assert [len(ids) for ids in completion_ids] == [N_NEW] * (N_PROMPTS * N_SAMPLES), "every completion has its full length"
    return [float(sum(ids) % 7) for ids in completion_ids]


def trainer(folder, dtype, n_steps, scratch, clock):
    n_vocab = AutoConfig.from_pretrained(folder).vocab_size
    config = GRPOConfig(
        output_dir=scratch, use_cpu=True, bf16=dtype == "bf16", model_init_kwargs={"dtype": DTYPES[dtype]},
        per_device_train_batch_size=N_PROMPTS * N_SAMPLES, gradient_accumulation_steps=1, num_generations=N_SAMPLES,
        max_completion_length=N_NEW, generation_kwargs={"min_new_tokens": N_NEW}, temperature=1.0, beta=0.0,
        gradient_checkpointing=False, learning_rate=1e-5, max_steps=n_steps, save_strategy="no", report_to="none",
        disable_tqdm=True, seed=1)
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    made = GRPOTrainer(
        model=folder, reward_funcs=reward, args=config, train_dataset=Dataset.from_dict({"prompt": prompts(n_vocab)}),
        processing_class=tokenizer(n_vocab), peft_config=lora, callbacks=[clock])
    made._generate = clock.around_sampling(made._generate)
    return made


def rss_peak_mb():
    """Peak resident memory of this process, from Linux."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=DTYPES, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        trainer(options.folder, options.dtype, options.steps, scratch, clock).train()
    versions = {module.__name__: module.__version__ for module in (torch, transformers, trl)}
    print(json.dumps(clock.steps() | {"rss_peak_mb": rss_peak_mb(), "versions": versions}))


if __name__ == "__main__":
    main()
