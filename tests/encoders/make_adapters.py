"""Makes the adapters beside it, by PEFT, and expected_adapters.txt: README.md."""

import json
import shutil

import peft
import torch
from make import HERE, STEPS, groups, logits_of, loss_of, open_net, rows_of

# name: the folder of the model, the layers that are adapted
ADAPTERS = {
    "adapter-bert": ("bert", ["query", "value"]),
    "adapter-roberta": ("roberta", ["key", "output.dense"]),
    "adapter-distilbert": ("distilbert", ["q_lin", "lin1"]),
    "adapter-roberta-tokens": ("roberta-tokens", ["query", "value"]),
}


def save(name, seed):
    base, layers = ADAPTERS[name]
    torch.manual_seed(seed)
    # task_type makes the classifier one of the "modules_to_save"
    task = "TOKEN_CLS" if "tokens" in name else "SEQ_CLS"
    net = peft.get_peft_model(open_net(base), peft.LoraConfig(r=2, lora_alpha=3, target_modules=layers, task_type=task))
    for p in net.parameters():
        if p.requires_grad:
            torch.nn.init.normal_(p, 0, 0.3)
    shutil.rmtree(HERE / name, ignore_errors=True)
    net.float().save_pretrained(HERE / name)
    (HERE / name / "README.md").unlink()
    config = json.loads((HERE / name / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = f"../{base}"
    (HERE / name / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def compute(name, file):
    base = open_net(ADAPTERS[name][0])
    net = peft.PeftModel.from_pretrained(base, HERE / name, is_trainable=True).double().eval()
    for group in (trained := groups(net)):
        group["params"] = [p for p in group["params"] if p.requires_grad]
    x, y = rows_of(net)
    optimizer, losses = torch.optim.AdamW(trained, lr=0.01, eps=1e-20), []
    logits = logits_of(net, x).detach().reshape(-1).tolist()
    for _ in range(STEPS):
        loss = loss_of(net, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for values in (logits, losses):
        file.write(f"{name} {' '.join(f'{value:.15g}' for value in values)}\n")


if __name__ == "__main__":
    with open(HERE / "expected_adapters.txt", "w") as file:
        for seed, name in enumerate(ADAPTERS):
            save(name, seed)
            compute(name, file)
