"""Makes the folders beside it and expected.txt: README.md."""

import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).parent
VOCABULARY, CONTEXT, BATCH, CLASSES, STEPS = 31, 10, 5, 3, 4
SIDE, CHANNELS = 12, 3  # of images
SEPARATOR = 2  # of bert: the first of two texts ends with it
BERT = dict(vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20,
            max_position_embeddings=CONTEXT + 2, num_labels=CLASSES)


def bert(kind=transformers.BertForSequenceClassification, **other):
    return kind(transformers.BertConfig(**BERT, attention_probs_dropout_prob=0.2, classifier_dropout=0.3, **other))


def roberta(kind=transformers.RobertaForSequenceClassification, config=transformers.RobertaConfig, **other):
    return kind(config(**{**BERT, "max_position_embeddings": CONTEXT + 2, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
                          "hidden_act": "gelu_new", **other}))


def distilbert(kind=transformers.DistilBertForSequenceClassification, **other):
    return kind(transformers.DistilBertConfig(vocab_size=VOCABULARY, dim=12, n_layers=2, n_heads=3, hidden_dim=20,
                                              max_position_embeddings=CONTEXT, num_labels=CLASSES, **other))


def vit(kind=transformers.ViTForImageClassification, **other):
    return kind(transformers.ViTConfig(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=SIDE,
                                       patch_size=4, num_channels=CHANNELS, num_labels=CLASSES, **other))


# name: model, the type of the file
CLASSIFIERS = {
    "bert": (bert, torch.float32),
    "roberta": (roberta, torch.float32),
    "xlm-roberta": (lambda: roberta(transformers.XLMRobertaForSequenceClassification, transformers.XLMRobertaConfig,
                                    hidden_act="gelu"), torch.bfloat16),
    "distilbert": (distilbert, torch.float16),
    "vit": (vit, torch.float32),
    "vit-other": (lambda: vit(hidden_act="gelu_new", layer_norm_eps=1e-6, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.2),
                  torch.bfloat16),
}
# without a classifier
OTHERS = {
    "bert-base": (lambda: bert(transformers.BertModel), torch.float32),
    "bert-old": (lambda: bert(transformers.BertForPreTraining), torch.float32),
    "roberta-lm": (lambda: roberta(transformers.RobertaForMaskedLM), torch.float32),
    "vit-base": (lambda: vit(transformers.ViTModel), torch.float32),
    "distilbert-lm": (lambda: distilbert(transformers.DistilBertForMaskedLM), torch.float32),
}
# other heads; their seeds follow
HEADS = {
    "bert-tokens": (lambda: bert(transformers.BertForTokenClassification), torch.float32),
    "roberta-tokens": (lambda: roberta(transformers.RobertaForTokenClassification), torch.float32),
    "distilbert-tokens": (lambda: distilbert(transformers.DistilBertForTokenClassification), torch.float16),
    "bert-masked": (lambda: bert(transformers.BertForMaskedLM), torch.float32),
    "roberta-masked": (lambda: roberta(transformers.RobertaForMaskedLM), torch.bfloat16),
    "distilbert-masked": (lambda: distilbert(transformers.DistilBertForMaskedLM), torch.float32),
    "bert-regression": (lambda: bert(problem_type="regression"), torch.float32),
    "distilbert-multi": (lambda: distilbert(problem_type="multi_label_classification"), torch.float32),
}


class Numbers:
    """As test_encoders.c: a linear congruential generator."""

    def __init__(self):
        self.state = 1

    def below(self, n):
        self.state = (self.state * 1103515245 + 12345) & 0x7FFFFFFF
        return (self.state >> 8) % n


def texts(pad):
    """Rows of tokens and their labels: padding at the end, and in one row between tokens."""
    numbers, rows, labels = Numbers(), [], []
    for r in range(BATCH):
        row = [2 + numbers.below(VOCABULARY - 2) for _ in range(CONTEXT)]
        row = [pad if i >= 4 + 2 * r or (r == 1 and i in (1, 3)) else token for i, token in enumerate(row)]
        row[r + 1] = row[r + 1] if row[r + 1] == pad else SEPARATOR
        rows.append(row)
        labels.append(numbers.below(CLASSES))
    return torch.tensor(rows), torch.tensor(labels), numbers


def labels_of(net, rows, labels, numbers):
    """Of tokens -100 where nothing counts: at padding, and elsewhere."""
    kind = type(net).__name__
    if kind.endswith("ForSequenceClassification"):
        if net.config.problem_type == "regression":
            return torch.tensor([[numbers.below(128) / 64 - 1 for _ in range(CLASSES)] for _ in rows]).double()
        if net.config.problem_type == "multi_label_classification":
            return torch.tensor([[numbers.below(2) for _ in range(CLASSES)] for _ in rows]).double()
        return labels
    below = CLASSES if kind.endswith("ForTokenClassification") else VOCABULARY
    found = [[numbers.below(below) for _ in row] for row in rows]
    return torch.tensor([[-100 if token == net.config.pad_token_id or (r + i) % 3 == 0 else found[r][i] for i, token in enumerate(row)]
                         for r, row in enumerate(rows.tolist())])


def images():
    """Bytes, row by row with the channels last, and labels."""
    numbers, rows, labels = Numbers(), [], []
    for _ in range(BATCH):
        rows.append([numbers.below(256) for _ in range(SIDE * SIDE * CHANNELS)])
        labels.append(numbers.below(CLASSES))
    return torch.tensor(rows).reshape(BATCH, SIDE, SIDE, CHANNELS), torch.tensor(labels)


def rows_of(net):
    if net.config.model_type == "vit":
        return images()
    rows, labels, numbers = texts(net.config.pad_token_id)
    base = net.get_base_model() if hasattr(net, "get_base_model") else net
    return rows, labels_of(base, rows, labels, numbers)


def save(name, make, dtype, seed):
    torch.manual_seed(seed)
    net = make()
    for p in net.parameters():
        torch.nn.init.normal_(p, 0, 0.3)
    shutil.rmtree(HERE / name, ignore_errors=True)
    net.to(dtype).save_pretrained(HERE / name)
    if name == "bert-old":  # the names of normalisations before 2019
        path = HERE / name / "model.safetensors"
        old = {key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
               for key, value in load_file(path).items()}
        save_file(old, path, metadata={"format": "pt"})


def open_net(name):
    images = name.startswith("vit")
    kind = (transformers.AutoModelForImageClassification if images else transformers.AutoModelForTokenClassification if "-tokens" in name
            else transformers.AutoModelForMaskedLM if "-masked" in name else transformers.AutoModelForSequenceClassification)
    net = kind.from_pretrained(HERE / name, dtype=torch.float64, attn_implementation="sdpa")  # ViT's other one rounds to float32
    return net.eval()  # without dropout


def logits_of(net, x):
    if net.config.model_type == "vit":
        return net(pixel_values=(x.double() / 127.5 - 1).permute(0, 3, 1, 2)).logits
    inputs = dict(input_ids=x, attention_mask=(x != net.config.pad_token_id).long())
    if net.config.model_type == "bert":
        ends = (x == SEPARATOR).long()
        inputs["token_type_ids"] = ((ends.cumsum(1) - ends) > 0).long()
    return net(**inputs).logits


def groups(net):
    """Those of transformers' Trainer: no decay of biases and normalisations."""
    plain = [p for n, p in net.named_parameters() if n.endswith("bias") or "norm" in n.lower()]
    decayed = [p for n, p in net.named_parameters() if not (n.endswith("bias") or "norm" in n.lower())]
    return [dict(params=decayed, weight_decay=0.1), dict(params=plain, weight_decay=0.0)]


def loss_of(net, x, y):
    logits = logits_of(net, x)
    if y.dtype == torch.float64:
        problems = {"regression": torch.nn.functional.mse_loss,
                    "multi_label_classification": torch.nn.functional.binary_cross_entropy_with_logits}
        return problems[net.config.problem_type](logits, y)
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))


def compute(name, file):
    net = open_net(name)
    x, y = rows_of(net)
    logits = logits_of(net, x).detach()[..., :CLASSES].reshape(-1).tolist()
    # Keras and PyTorch have epsilon in different places: none here
    optimizer = torch.optim.AdamW(groups(net), lr=0.01, eps=1e-20)
    losses = []
    for _ in range(STEPS):
        loss = loss_of(net, x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    for values in (logits, losses):
        file.write(f"{name} {' '.join(f'{value:.15g}' for value in values)}\n")
    # the weights minus their gradients
    net = open_net(name)
    loss_of(net, x, y).backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= p.grad
    with tempfile.TemporaryDirectory() as folder:
        net.save_pretrained(folder)
        shutil.copy(f"{folder}/model.safetensors", HERE / name / "stepped.safetensors")


if __name__ == "__main__":
    for seed, (name, (make, dtype)) in enumerate([*sorted({**CLASSIFIERS, **OTHERS}.items()), *HEADS.items()]):
        save(name, make, dtype, seed)
    with open(HERE / "expected.txt", "w") as file:
        for name in [*CLASSIFIERS, *HEADS]:
            compute(name, file)
