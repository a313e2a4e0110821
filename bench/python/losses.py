"""Writes what TRL says about losses on random tensors, for the tests of hone-train.

Each case is computed by TRL's own trainer method where TRL has the variant (`by: trl`), and by the plain formula in torch where it
has none (`by: torch`); where both exist they must agree, or nothing is written. Inputs are f32 with three decimals, arithmetic is
float64. TRL's methods are called on a stand-in that has just the attributes they read.

    target/bench/venv/bin/python bench/python/losses.py --out crates/hone-train/tests/fixtures
"""

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from trl import DPOTrainer, GRPOTrainer, SFTTrainer

N_SEQUENCES, N_TOKENS, N_TOKENS_MAX = 6, 5, 10
SEED = 109
LENGTHS = [5, 3, 5, 2, 4, 1]
AGREE = 1e-12


def random_f32(generator, shape, scale=1.0, shift=0.0):
    """Numbers of three decimals, exactly as f32 holds them, in float64."""
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64) * scale + shift
    return ((numbers * 1000).round() / 1000).float().double()


def lists(tensor, digits=9):
    return [[float(f"{x:.{digits}g}") for x in row] for row in tensor.tolist()]


def mean_by_token(x, mask):
    return (x * mask).sum() / mask.sum().clamp(min=1.0)


class Accelerator:
    """One process that gathers from nobody."""

    num_processes, sync_gradients, device = 1, True, torch.device("cpu")
    gather = gather_for_metrics = staticmethod(lambda x: x)
    reduce = staticmethod(lambda x, reduction: x)


def stand_in(**attributes):
    return SimpleNamespace(accelerator=Accelerator(), aux_loss_enabled=False, model=torch.nn.Module().train(),
                           current_gradient_accumulation_steps=1, _metrics=defaultdict(lambda: defaultdict(list)),
                           _total_train_tokens=0, _tp_size=1, **attributes)


# Policy losses.


def policy_inputs(generator):
    shape = (N_SEQUENCES, N_TOKENS)
    old = random_f32(generator, shape, 0.8, -2.0)
    # Whole sequences move, too, so that their ratios are cut as those of tokens are.
    new = old + random_f32(generator, shape, 0.35) + random_f32(generator, (N_SEQUENCES, 1), 0.3)
    return {
        "mask": torch.tensor([[float(t < length and not (s == 0 and t == 2)) for t in range(N_TOKENS)]
                              for s, length in enumerate(LENGTHS)], dtype=torch.float64),
        "new": ((new * 1000).round() / 1000).float().double(),
        "old": old,
        "sampler": ((old + random_f32(generator, shape, 0.3)) * 1000).round().div(1000).float().double(),
        "reference": random_f32(generator, shape, 0.8, -2.0),
        "entropy": random_f32(generator, shape, 0.3, 1.5).abs(),
        "advantages": random_f32(generator, (N_SEQUENCES, 1)),
        "token_advantages": random_f32(generator, shape),
    }


def correction_weights(correction, inputs):
    """As in `GRPOTrainer._generate_and_score_completions`, which cannot be called without a model."""
    if correction is None:
        return torch.ones_like(inputs["old"])
    difference = (inputs["old"] - inputs["sampler"]) * inputs["mask"]
    if correction["level"] == "sequence":
        difference = difference.sum(-1, keepdim=True)
    ratio = torch.exp(difference)
    if correction["remedy"] == "truncate":
        return ratio.clamp(min=correction["low"], max=correction["high"])
    return ratio.masked_fill((ratio < correction["low"]) | (ratio > correction["high"]), 0.0)


def policy_by_torch(loss, inputs, new, entropy, advantages):
    """The plain formula: hone's options, read literally."""
    mask, log_ratio = inputs["mask"], new - inputs["old"]
    if loss["level"] == "sequence":
        log_ratio = ((log_ratio * mask).sum(-1) / mask.sum(-1)).unsqueeze(-1)
    ratio = log_ratio.exp()
    name, surrogate = next(iter(loss["surrogate"].items()))
    if name == "clipped":
        bounded = ratio if surrogate.get("ratio_max") is None else ratio.clamp(max=surrogate["ratio_max"])
        clipped = ratio.clamp(1 - surrogate["low"], 1 + surrogate["high"])
        terms = -torch.min(bounded * advantages, clipped * advantages)
    else:
        terms = -ratio.clamp(max=surrogate["ratio_max"]).detach() * advantages * new
    terms = terms * correction_weights(loss.get("correction"), inputs)
    if loss.get("kl"):
        d = inputs["reference"] - new
        estimate = {"k1": -d, "k2": d * d / 2, "k3": d.exp() - d - 1}[loss["kl"]["estimator"]]
        terms = terms + loss["kl"]["beta"] * estimate
    total = terms * mask
    if loss["normaliser"] == "episode":
        value = (total.sum(-1) / mask.sum(-1)).mean()
    elif loss["normaliser"] == "tokens":
        value = total.sum() / mask.sum()
    else:
        value = total.sum() / (N_SEQUENCES * loss["normaliser"]["constant"]["n_tokens"])
    return value - loss.get("entropy_bonus", 0.0) * mean_by_token(entropy, mask)


def policy_by_trl(loss, loss_type, inputs, new, entropy, advantages):
    name, surrogate = next(iter(loss["surrogate"].items()))
    correction, kl = loss.get("correction"), loss.get("kl")
    clip = (surrogate["low"], surrogate["high"]) if name == "clipped" else (0.0, surrogate["ratio_max"])
    trainer = stand_in(
        _get_per_token_logps_and_entropies=lambda *_, **__: (new, entropy, None),
        top_entropy_quantile=1.0, off_policy_mask_threshold=None, importance_sampling_level=loss["level"],
        beta=kl["beta"] if kl else 0.0, loss_type=loss_type, epsilon_low=clip[0], epsilon_high=clip[1],
        use_vllm=correction is not None, vllm_importance_sampling_correction=correction is not None,
        max_completion_length=N_TOKENS_MAX, _entropy_bonus_enabled=loss.get("entropy_bonus", 0.0) != 0.0,
        use_adaptive_entropy=False, entropy_coef=loss.get("entropy_bonus", 0.0),
        args=SimpleNamespace(use_bias_correction_kl=False, delta=surrogate.get("ratio_max") if name == "clipped" else None,
                             steps_per_generation=1))
    ids = torch.zeros((N_SEQUENCES, N_TOKENS), dtype=torch.long)
    batch = {"prompt_ids": ids[:, :1], "prompt_mask": ids[:, :1] + 1, "completion_ids": ids, "completion_mask": inputs["mask"],
             "advantages": advantages.squeeze(1) if advantages.shape[1] == 1 else advantages,
             "old_per_token_logps": inputs["old"], "ref_per_token_logps": inputs["reference"],
             "num_items_in_batch": inputs["mask"].sum(),
             "importance_sampling_ratio": correction_weights(correction, inputs)}
    return GRPOTrainer._compute_loss(trainer, None, batch)


def clipped(low, high, ratio_max=None):
    return {"clipped": {"low": low, "high": high, "ratio_max": ratio_max}}


def weighted(ratio_max):
    return {"weighted": {"ratio_max": ratio_max}}


def policy_cases():
    """Name, TRL's loss type (none where TRL has none), hone's options."""
    constant = {"constant": {"n_tokens": N_TOKENS_MAX}}
    grpo = dict(surrogate=clipped(0.2, 0.2), level="token", normaliser="episode")
    dapo = dict(surrogate=clipped(0.2, 0.28), level="token", normaliser="tokens")
    gspo = dict(surrogate=clipped(3e-4, 4e-4), level="sequence", normaliser="episode")
    dr_grpo = dict(surrogate=clipped(0.2, 0.2), level="token", normaliser=constant)
    cispo = dict(surrogate=weighted(5.0), level="token", normaliser="tokens")
    yield "grpo", "grpo", grpo
    yield "dr_grpo", "dr_grpo", dr_grpo
    yield "dapo", "dapo", dapo
    yield "gspo", "grpo", gspo
    yield "gspo, wide clip", "grpo", gspo | dict(surrogate=clipped(0.1, 0.15))
    yield "gspo, constant length", "dr_grpo", gspo | dict(surrogate=clipped(0.1, 0.15), normaliser=constant)
    yield "cispo", "cispo", cispo
    yield "cispo, low bound", "cispo", cispo | dict(surrogate=weighted(1.1))
    yield "cispo, sequence", "cispo", cispo | dict(surrogate=weighted(1.1), level="sequence")
    yield "bnpo", "bnpo", dapo | dict(surrogate=clipped(0.2, 0.2))
    yield "two-sided clip", "grpo", grpo | dict(surrogate=clipped(0.2, 0.2, 1.4))
    yield "kl k3", "grpo", grpo | dict(kl=dict(estimator="k3", beta=0.1))
    yield "gspo with kl k3", "grpo", gspo | dict(kl=dict(estimator="k3", beta=0.04))
    yield "cispo with kl k3", "cispo", cispo | dict(kl=dict(estimator="k3", beta=0.1))
    yield "kl k1", None, grpo | dict(kl=dict(estimator="k1", beta=0.1))
    yield "kl k2", None, dr_grpo | dict(kl=dict(estimator="k2", beta=0.1))
    yield "entropy bonus", "dr_grpo", dr_grpo | dict(entropy_bonus=0.02)
    for level in ["token", "sequence"]:
        for remedy in ["truncate", "mask"]:
            correction = dict(level=level, remedy=remedy, low=0.5, high=1.5)
            yield f"correction: {remedy} by {level}", "dapo", dapo | dict(correction=correction)
    everything = dict(correction=dict(level="token", remedy="truncate", low=0.0, high=2.0), entropy_bonus=0.01,
                      kl=dict(estimator="k3", beta=0.05))
    yield "gspo with everything", "grpo", gspo | dict(surrogate=clipped(0.1, 0.15)) | everything
    yield "cispo with everything", "cispo", cispo | everything


def policy(generator):
    inputs = policy_inputs(generator)
    cases = []
    for name, loss_type, loss in policy_cases():
        for advantages in ["advantages", "token_advantages"]:
            if advantages == "token_advantages" and name not in ["dr_grpo", "gspo, wide clip", "cispo"]:
                continue
            found = []
            for by in ["torch"] + (["trl"] if loss_type else []):
                new, entropy = inputs["new"].clone().requires_grad_(), inputs["entropy"].clone().requires_grad_()
                if by == "trl":
                    value = policy_by_trl(loss, loss_type, inputs, new, entropy, inputs[advantages])
                else:
                    value = policy_by_torch(loss, inputs, new, entropy, inputs[advantages])
                grads = torch.autograd.grad(value, [new, entropy], allow_unused=True)
                grads = [torch.zeros_like(new) if grad is None else grad for grad in grads]
                found.append((by, value.item(), *grads))
            (_, value, grad, _), (by, *_) = found[0], found[-1]
            assert abs(value - found[-1][1]) < AGREE and (grad - found[-1][2]).abs().max() < AGREE, name
            by, value, grad, grad_entropy = found[-1]
            cases.append({"name": name, "by": by, "loss": loss, "advantages": advantages, "value": value, "grad": lists(grad),
                          "grad_entropy": float(f"{grad_entropy[0, 0].item():.9g}")})
    check_policy({case["name"]: torch.tensor(case["grad"])[inputs["mask"] > 0] for case in cases})
    return {"inputs": {key: lists(x) for key, x in inputs.items()}, "cases": cases}


def check_policy(grads):
    """A clip, bound or weight that never acts would prove nothing."""
    for name in ["grpo", "gspo", "gspo, wide clip", "correction: mask by token", "correction: mask by sequence"]:
        assert 0 < (grads[name] == 0).sum() < len(grads[name]), name
    for name, other in [("grpo", "two-sided clip"), ("dapo", "bnpo"), ("cispo", "cispo, low bound"),
                        ("correction: mask by token", "correction: mask by sequence"),
                        ("correction: truncate by token", "correction: truncate by sequence")]:
        assert not torch.allclose(grads[name], grads[other], rtol=1e-3), name


# Pairs.


def preference(generator):
    """Rows are the better answers, then the worse ones."""
    n_pairs = N_SEQUENCES // 2
    inputs = policy_inputs(generator)
    mask = inputs["mask"]
    outputs = lambda logprobs: SimpleNamespace(  # noqa: E731
        log_probs=logprobs * mask, entropy=inputs["entropy"], mean_logits=torch.zeros_like(mask), is_top1=mask.bool())
    padded = torch.cat([torch.zeros_like(mask[:, :1]), mask], 1).long()
    cases = []
    for beta, smoothing in [(0.1, 0.0), (0.5, 0.0), (0.5, 0.1)]:
        new = inputs["new"].clone().requires_grad_()
        if smoothing == 0.0:
            # One call of the model under training, then one of the reference.
            models = iter([new, inputs["reference"]])
            trainer = stand_in(ld_alpha=None, precompute_ref_logps=False, ref_model=lambda **_: outputs(next(models)), beta=beta,
                               f_divergence_type="reverse_kl", loss_types=["sigmoid"], loss_weights=[1.0], use_weighting=False,
                               label_smoothing=0.0,
                               args=SimpleNamespace(gradient_checkpointing_kwargs=None))
            trainer.model.is_gradient_checkpointing = False
            batch = {"input_ids": padded, "completion_mask": padded, "attention_mask": padded}
            value, by = DPOTrainer._compute_loss(trainer, lambda **_: outputs(next(models)), batch, False), "trl"
        else:
            gain = ((new - inputs["reference"]) * mask).sum(-1)
            margin = beta * (gain[:n_pairs] - gain[n_pairs:])
            value = -((1 - smoothing) * F.logsigmoid(margin) + smoothing * F.logsigmoid(-margin)).mean()
            by = "torch"
        (grad,) = torch.autograd.grad(value, [new])
        cases.append({"by": by, "loss": {"beta": beta, "label_smoothing": smoothing}, "value": value.item(), "grad": lists(grad)})
    names = ["mask", "new", "reference"]
    return {"inputs": {key: lists(inputs[key]) for key in names}, "cases": cases}


# Imitation.


def imitation(generator):
    inputs = policy_inputs(generator)
    mask = inputs["mask"]
    cases = []
    for name in ["sft", "awr"]:
        new = inputs["new"].clone().requires_grad_()
        weights = torch.ones_like(inputs["advantages"])
        if name == "sft":
            outputs = SimpleNamespace(log_probs=new * mask, label_mask=mask, entropy=inputs["entropy"], is_top1=mask.bool())
            trainer = stand_in(label_smoother=None, compute_loss_func=None,
                               args=SimpleNamespace(loss_type="nll", average_tokens_across_devices=False))
            trainer.accelerator.parallelism_config = None
            batch = {"labels": mask.long(), "attention_mask": mask.long()}
            value, by = SFTTrainer.compute_loss(trainer, lambda **_: outputs, batch), "trl"
        else:
            weights = (inputs["advantages"] / 0.7).exp().clamp(max=1.5)
            value, by = -(weights * new * mask).sum() / mask.sum(), "torch"
        (grad,) = torch.autograd.grad(value, [new])
        cases.append({"name": name, "by": by, "weights": lists(weights), "value": value.item(), "grad": lists(grad)})
    names = ["mask", "new", "advantages"]
    return {"inputs": {key: lists(inputs[key]) for key in names}, "temperature": 0.7, "weight_max": 1.5, "cases": cases}


# Values.


def value(generator):
    """PPO's value loss and generalised advantages, by the plain formulas."""
    old = random_f32(generator, (N_TOKENS,))
    values, returns = (old + random_f32(generator, (N_TOKENS,), 0.4)), random_f32(generator, (N_TOKENS,))
    cases = []
    for clip in [None, 0.2]:
        v = values.clone().requires_grad_()
        held = v if clip is None else v.clamp(old - clip, old + clip)
        loss = 0.5 * torch.max((v - returns) ** 2, (held - returns) ** 2).mean()
        (grad,) = torch.autograd.grad(loss, [v])
        cases.append({"clip": clip, "value": loss.item(), "grad": grad.tolist()})
    assert cases[0]["grad"] != cases[1]["grad"]
    rewards, gamma, lam, last = random_f32(generator, (N_TOKENS,)), 0.97, 0.9, 0.3
    nexts = torch.cat([old[1:], torch.tensor([last], dtype=torch.float64)])
    deltas = rewards + gamma * nexts - old
    advantages = [sum((gamma * lam) ** k * deltas[t + k].item() for k in range(N_TOKENS - t)) for t in range(N_TOKENS)]
    return {"inputs": {"values": values.tolist(), "old": old.tolist(), "returns": returns.tolist()}, "cases": cases,
            "gae": {"rewards": rewards.tolist(), "last_value": last, "gamma": gamma, "lambda": lam, "advantages": advantages}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to write to")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed, make in enumerate([policy, preference, imitation, value]):
        made = make(torch.Generator().manual_seed(SEED + seed))
        assert all(math.isfinite(case["value"]) for case in made["cases"])
        (options.out / f"{make.__name__}.json").write_text(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
