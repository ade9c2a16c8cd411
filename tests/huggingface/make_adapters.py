"""Makes the adapters beside it, by PEFT, and expected_adapters.txt: README.md."""

import json
import shutil

import peft
import torch
import transformers
from make import BATCH, CONTEXT, HERE, STEPS, VOCABULARY, digest, tokens

# name: the folder of the model, LoraConfig
ADAPTERS = {
    "adapter-llama": ("llama", dict(r=3, lora_alpha=5, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"])),
    "adapter-qwen3": ("qwen3", dict(r=2, lora_alpha=2, target_modules=["k_proj", "up_proj"], use_rslora=True)),
    "adapter-gpt2": ("gpt2", dict(r=2, lora_alpha=8, target_modules=["c_fc", "c_proj"], fan_in_fan_out=True)),
    "adapter-gpt2-fused": ("gpt2", dict(r=2, lora_alpha=3, target_modules=["c_attn"], fan_in_fan_out=True)),
    "adapter-gpt-neox": ("gpt-neox", dict(r=2, lora_alpha=3, target_modules=["dense", "dense_4h_to_h"])),
    "adapter-gpt-neox-fused": ("gpt-neox", dict(r=2, lora_alpha=3, target_modules=["query_key_value"])),
}


def base(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(HERE / folder, dtype=torch.float64, attn_implementation="eager").eval()


def save(name, seed):
    folder, config = ADAPTERS[name]
    torch.manual_seed(seed)
    net = peft.get_peft_model(base(folder), peft.LoraConfig(**config, task_type="CAUSAL_LM"))
    for path, p in net.named_parameters():
        if "lora_" in path:
            torch.nn.init.normal_(p, 0, 0.3)
    shutil.rmtree(HERE / name, ignore_errors=True)
    net.float().save_pretrained(HERE / name)
    (HERE / name / "README.md").unlink()
    config = json.loads((HERE / name / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"../{folder}"
    (HERE / name / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def compute(name, file):
    net = peft.PeftModel.from_pretrained(base(ADAPTERS[name][0]), HERE / name, is_trainable=True).double().eval()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=0.02, eps=1e-12, weight_decay=0.1)
    text, losses = tokens(), []
    rows = text[:BATCH * CONTEXT].reshape(BATCH, CONTEXT)
    first = net(rows).logits
    for step in range(STEPS):
        begin = step * BATCH * CONTEXT
        x, y = (text[begin + i:begin + i + BATCH * CONTEXT].reshape(BATCH, CONTEXT) for i in (0, 1))
        loss = torch.nn.functional.cross_entropy(net(x).logits.reshape(-1, VOCABULARY), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    file.write(f"{name} {digest(first)}\n{digest(net(rows).logits)}\n{' '.join(f'{loss:.12g}' for loss in losses)}\n")


if __name__ == "__main__":
    with open(HERE / "expected_adapters.txt", "w") as file:
        for seed, name in enumerate(ADAPTERS):
            save(name, seed)
            compute(name, file)
