#!/usr/bin/env python3
"""Small tokenizers with the parts of the real ones, and what the library `tokenizers` makes of texts with them.

make.py            makes the folders anew, and texts.bin and expected.txt beside this file
make.py OUT SEED N makes OUT/texts.bin and OUT/expected.txt with N other texts, for the folders as they are

texts.bin: for each text its bytes (4 bytes, lowest first) and itself. expected.txt: for each folder its name and, of each
text, the CRC-32 of the ids (32 bits each, lowest byte first) without special tokens, with them, and of the text that the ids
give without special tokens."""
import json, os, random, struct, sys, zlib
from tokenizers import Tokenizer, models, pre_tokenizers, trainers, decoders, Regex, normalizers

HERE = os.path.dirname(os.path.abspath(__file__))
META = "\u2581"
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CLIP = r"""'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"""
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")

WORDS = """the of and to in is that it for as with on was he his be at by they had her not are but from or have an which one you were all
their there been if more when will would who so no said tokenizer tokens don't they'll I'm we've isn't you're he'd reading writing running
network training distributed hosts ranks slots layouts gradient 1 23 456 7890 3.14 2026 x=y; for(i=0;i<n;i++) {return;} http://a.b/c?d=e
Straße naïve café résumé Ångström garçon İstanbul ΣΊΣΥΦΟΣ Добрый день привет мир 你好 世界 学习 机器 日本語 かな カナ 한국어 안녕 العربية مرحبا
שלום हिन्दी नमस्ते ไทย ﬁ ﬂ ① ½ ² Ⅷ ㎏ 🙂 👩‍👩‍👧 🇩🇪 ❤️ é à n̂ a̐ ö̲""".split()


def corpus():
    draw = random.Random(1)
    return [" ".join(draw.choice(WORDS) for _ in range(draw.randrange(3, 20))) + draw.choice(["", ".", "!\n", "\n\n", " ?"])
            for _ in range(3000)]


def added(*rows):
    """Rows: id, text, and what is true of it."""
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return [{"id": row[0], "content": row[1], **{flag: flag in row[2:] for flag in flags}} for row in rows]


def document(model, tokens, normalizer=None, pre=None, post=None, decoder=None):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer,
            "pre_tokenizer": pre, "post_processor": post, "decoder": decoder, "model": model}


def bpe(size, pre, normalizer=None, bytewise=True, first=(), **settings):
    """The model of a BPE that is trained on the corpus. first: tokens that come before the others."""
    made = Tokenizer(models.BPE(**({"end_of_word_suffix": "</w>"} if settings.get("end_of_word_suffix") else {})))
    made.pre_tokenizer = pre
    if normalizer:
        made.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet() if bytewise else []
    suffix = {"end_of_word_suffix": "</w>"} if settings.get("end_of_word_suffix") else {}
    made.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False, **suffix))
    model = json.loads(made.to_str())["model"]
    vocabulary = {token: i for i, token in enumerate(first)}
    for token, _ in sorted(model["vocab"].items(), key=lambda item: item[1]):
        vocabulary.setdefault(token, len(vocabulary))
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
            "fuse_unk": False, "byte_fallback": False, **settings, "vocab": vocabulary, "merges": model["merges"]}


def byte_level(prefix=False, pattern=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": pattern}


def split(pattern, behavior="Isolated", kind="Regex", invert=False):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def sequence(member, *steps):
    return {"type": "Sequence", member: list(steps)}


def template(single, pair, **ids):
    def items(text):
        made = []
        for word in text.split():
            name, _, kind = word.partition(":")
            key = {"Sequence": {"id": name[1:], "type_id": int(kind or 0)}} if name[0] == "$" else \
                {"SpecialToken": {"id": name, "type_id": int(kind or 0)}}
            made.append(key)
        return made
    return {"type": "TemplateProcessing", "single": items(single), "pair": items(pair),
            "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()}}


def fallback_tokens():
    return ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]


def fallback_bpe(size, split_words=True, **settings):
    pre = pre_tokenizers.Metaspace(prepend_scheme="always")
    first = fallback_tokens()
    model = bpe(size, pre, bytewise=False, first=first, unk_token="<unk>", fuse_unk=True, byte_fallback=True, **settings)
    rare = set("한ﬂ½ไ")  # these become bytes
    kept = [token for token in model["vocab"] if token in first or not rare & set(token)]
    model["vocab"] = {token: i for i, token in enumerate(kept)}
    model["merges"] = [pair for pair in model["merges"] if not rare & set("".join(pair))]
    return model


def replace(pattern, content, kind="String"):
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def llama2_decoder():
    return sequence("decoders", replace(META, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                    {"type": "Strip", "content": " ", "start": 1, "stop": 0})


def gpt2():
    model = bpe(330, pre_tokenizers.ByteLevel(add_prefix_space=False))
    end = len(model["vocab"])
    model["vocab"]["<|endoftext|>"] = end
    return document(model, added((end, "<|endoftext|>", "special")), None, byte_level(), byte_level(True), byte_level(True)), "<|endoftext|>"


def roberta():
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    model = bpe(340, pre_tokenizers.ByteLevel(add_prefix_space=True), first=first)
    mask = len(model["vocab"])
    model["vocab"]["<mask>"] = mask
    post = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": True}
    tokens = added(*((i, name, "special", "normalized") for i, name in enumerate(first)), (mask, "<mask>", "special", "lstrip"))
    return document(model, tokens, None, byte_level(True), post, byte_level(True)), "</s>"


def split_bytes(pattern, size, normalizer=None, post=None, ignore=False, names=("<|begin_of_text|>", "<|end_of_text|>")):
    made = {"type": "NFC"} if normalizer else None
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    model = bpe(size, pre, normalizer, ignore_merges=ignore)
    n = len(model["vocab"])
    tokens = added(*((n + i, name, "special") for i, name in enumerate(names)))
    if post:
        post = sequence("processors", byte_level(True, True), template(f"{names[0]} $A", f"{names[0]} $A {names[0]}:1 $B:1", **{names[0]: n}))
    else:
        post = byte_level(False, False)
    pre = sequence("pretokenizers", split(pattern), byte_level(False, False))
    return document(model, tokens, made, pre, post, byte_level(False, False)), names[1]


def llama2():
    normalizer = sequence("normalizers", {"type": "Prepend", "prepend": META}, replace(" ", META))
    post = template("<s> $A", "<s> $A <s>:1 $B:1", **{"<s>": 1})
    tokens = added((0, "<unk>", "special"), (1, "<s>", "special"), (2, "</s>", "special"))
    return document(fallback_bpe(420), tokens, normalizer, None, post, llama2_decoder()), "</s>"


def mistral():
    pre = {"type": "Metaspace", "replacement": META, "prepend_scheme": "first", "split": False}
    model = fallback_bpe(420, ignore_merges=False)
    n = len(model["vocab"])
    tokens = added((0, "<unk>", "special"), (1, "<s>", "special"), (2, "</s>", "special"), (n, "[INST]", "special"))
    return document(model, tokens, None, pre, template("<s> $A", "<s> $A $B:1", **{"<s>": 1}), llama2_decoder()), "</s>"


def gemma():
    model = fallback_bpe(420)
    for token in "\n", "\n\n", META * 2, META * 4:
        model["vocab"].setdefault(token, len(model["vocab"]))
    model["merges"] += [["\n", "\n"], [META, META], [META * 2, META * 2]]
    n = len(model["vocab"])
    tokens = added((0, "<pad>", "special"), (1, "<bos>", "special"), (2, "<eos>", "special"), (n + 1, "\n\n\n"), (n + 2, "<start_of_turn>", "special"))
    for i, name in enumerate(("<pad>", "<bos>", "<eos>")):
        model["vocab"] = {(name if j == i else token): j for token, j in model["vocab"].items()}
    model["vocab"]["<unk>"] = n
    decoder = sequence("decoders", replace(META, " "), {"type": "ByteFallback"}, {"type": "Fuse"})
    post = template("<bos> $A", "<bos> $A <bos>:1 $B:1", **{"<bos>": 1})
    return document(model, tokens, replace(" ", META), split(" ", "MergedWithPrevious", "String"), post, decoder), "<eos>"


def bert(lower):
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rare = set("한ﬂไ🙂")
    lines = ["".join(c for c in line if c not in rare) for line in corpus()]
    made.train_from_iterator(lines, trainers.WordPieceTrainer(vocab_size=420, special_tokens=names, show_progress=False))
    model = json.loads(made.to_str())["model"]
    model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": model["vocab"]}
    normalizer = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lower}
    post = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", **{"[CLS]": 2, "[SEP]": 3})
    tokens = added(*((i, name, "special") for i, name in enumerate(names)))
    return document(model, tokens, normalizer, {"type": "BertPreTokenizer"}, post,
                    {"type": "WordPiece", "prefix": "##", "cleanup": True}), "[SEP]"


def falcon():
    pre = sequence("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), {"type": "Digits", "individual_digits": False},
                   split("[0-9][0-9][0-9]"))
    model = bpe(330, pre_tokenizers.ByteLevel(add_prefix_space=False))
    n = len(model["vocab"])
    return document(model, added((n, "<|endoftext|>", "special"), (n + 1, ">>TITLE<<", "special")), None, pre, byte_level(), byte_level()), "<|endoftext|>"


def clip():
    normal = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    pre = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(CLIP), "removed", invert=True), pre_tokenizers.ByteLevel(False)])
    model = bpe(700, pre, normal, end_of_word_suffix="</w>", continuing_subword_prefix="", unk_token="<|endoftext|>")
    for token in list(model["vocab"]):  # one character may be a whole word
        if len(token) == 1:
            model["vocab"].setdefault(token + "</w>", len(model["vocab"]))
    n = len(model["vocab"])
    model["vocab"].update({"<|startoftext|>": n, "<|endoftext|>": n + 1})
    normalizer = sequence("normalizers", {"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"})
    post = {"type": "RobertaProcessing", "sep": ["<|endoftext|>", n + 1], "cls": ["<|startoftext|>", n], "trim_offsets": False, "add_prefix_space": False}
    pre = sequence("pretokenizers", split(CLIP, "Removed", invert=True), byte_level())
    return document(model, added((n, "<|startoftext|>", "special"), (n + 1, "<|endoftext|>", "special", "normalized")), normalizer, pre, post,
                    byte_level()), "<|endoftext|>"


def words():
    vocabulary = {"[UNK]": 0}
    for word in WORDS:
        for part in word, word.lower(), word.strip("';.(){}=?!"):
            vocabulary.setdefault(part, len(vocabulary))
    n = len(vocabulary)
    normalizer = sequence("normalizers", {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True})
    tokens = added((0, "[UNK]", "special"), (n, "The", "single_word", "normalized"), (n + 1, "[A]", "lstrip", "rstrip"), (n + 2, "ing", "normalized", "rstrip"),
                   (n + 3, "tok", "single_word", "lstrip"))
    post = {"type": "BertProcessing", "sep": ["[A]", n + 1], "cls": ["[UNK]", 0]}
    return document({"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}, tokens, normalizer, {"type": "Whitespace"}, post, None), "[A]"


def meta():
    model = bpe(420, pre_tokenizers.Metaspace(prepend_scheme="always"), bytewise=False, first=["<unk>"], unk_token="<unk>", continuing_subword_prefix=None)
    pre = sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": META, "prepend_scheme": "always", "split": True},
                   {"type": "Punctuation", "behavior": "MergedWithNext"}, {"type": "CharDelimiterSplit", "delimiter": "x"}, {"type": "Digits", "individual_digits": True})
    post = {"type": "BertProcessing", "sep": ["<unk>", 0], "cls": ["<unk>", 0]}
    return document(model, added((0, "<unk>", "special")), {"type": "NFKC"}, pre, post,
                    {"type": "Metaspace", "replacement": META, "prepend_scheme": "always", "split": True}), "<unk>"


FOLDERS = {
    "gpt2": gpt2, "roberta": roberta,
    "llama-3": lambda: split_bytes(LLAMA3, 360, post=True, ignore=True),
    "qwen2": lambda: split_bytes(QWEN2, 350, normalizers.NFC(), names=("<|im_start|>", "<|endoftext|>")),
    "o200k": lambda: split_bytes(O200K, 350, names=("<|fim|>", "<|endoftext|>")),
    "llama-2": llama2, "mistral": mistral, "gemma": gemma,
    "bert": lambda: bert(True), "bert-cased": lambda: bert(False),
    "falcon": falcon, "clip": clip, "words": words, "meta": meta,
}


def make_folders():
    for name, make in FOLDERS.items():
        made, end = make()
        os.makedirs(f"{HERE}/{name}", exist_ok=True)
        with open(f"{HERE}/{name}/tokenizer.json", "w", encoding="utf-8") as file:
            json.dump(made, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
        with open(f"{HERE}/{name}/tokenizer_config.json", "w", encoding="utf-8") as file:
            json.dump({"eos_token": end, "pad_token": "[PAD]" if name.startswith("bert") else "<pad>" if name == "roberta" else None}, file)
            file.write("\n")


# Characters that are the same in all versions of Unicode from 12 on.
RANGES = [(0x20, 0x7e)] * 6 + [(0xa0, 0x17f), (0x300, 0x36f), (0x391, 0x3a1), (0x3b1, 0x3c9), (0x410, 0x44f), (0x5d0, 0x5ea), (0x621, 0x64a), (0x905, 0x939), (0xe01, 0xe3a),
          (0x1100, 0x1112), (0x1161, 0x1175), (0x1e00, 0x1eff), (0x2000, 0x200f), (0x2010, 0x2029), (0x2070, 0x2071), (0x2100, 0x214f), (0x2160, 0x2188), (0x24b6, 0x24e9),
          (0x2581, 0x2582), (0x3000, 0x3003), (0x3041, 0x3096), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0xf900, 0xfa6d), (0xfb00, 0xfb06), (0xff01, 0xff5e), (0x1f300, 0x1f64f),
          (0x20000, 0x20010), (0, 0x1f), (0x7f, 0x9f), (0xe000, 0xe002), (0xfe00, 0xfe0f)]
PIECES = ["\r\n", "\n", "\n\n", "\t", "  ", "   \n  ", "\0", "\u00a0", "\u3000", "\u2028", "\u180e", "\ufeff", "\u200d", "<s>", "</s>", "<mask>", "  <mask> ", "[A]", " [A]  ", "<|endoftext|>",
          "<|begin_of_text|>", "[INST]", "<unk>", "[MASK]", "The", "tok", "ing", "<0x41>", "\u2581", "'S", "'ll", "\u017f", "don't", "aaaaaaaaaaaaaaaaaaaa", "0123456789", "\u0130", "\u03a3"]


def texts(seed, count):
    draw = random.Random(seed)
    made = ["", " ", "\n", "a", " a", "\u2581", "<s>", "x" * 300, "ab " * 200]
    while len(made) < count:
        parts = []
        for _ in range(draw.randrange(1, 14)):
            kind = draw.randrange(4)
            if kind == 0:
                parts.append(draw.choice(PIECES))
            elif kind == 1:
                low, high = draw.choice(RANGES)
                parts.append("".join(chr(draw.randrange(low, high + 1)) for _ in range(draw.randrange(1, 5))))
            else:
                parts.append(draw.choice(["", " "]) + draw.choice(WORDS))
        made.append("".join(parts))
    return [text.encode() for text in made]


def crc_of_ids(ids):
    return zlib.crc32(struct.pack(f"<{len(ids)}i", *ids))


def make_expected(folder, seed, count):
    made = texts(seed, count)
    with open(f"{folder}/texts.bin", "wb") as file:
        for text in made:
            file.write(struct.pack("<I", len(text)) + text)
    with open(f"{folder}/expected.txt", "w", encoding="ascii") as file:
        for name in FOLDERS:
            of = Tokenizer.from_file(f"{HERE}/{name}/tokenizer.json")
            print(name, file=file)
            for text in made:
                plain, special = (of.encode(text.decode(), add_special_tokens=flag).ids for flag in (False, True))
                back = of.decode(plain, skip_special_tokens=True) if plain else ""
                print(f"{crc_of_ids(plain):08x} {crc_of_ids(special):08x} {zlib.crc32(back.encode()):08x}", file=file)


def make_rows():
    """rows.tsv: pairs of texts with labels; rows.txt: of each folder and length the CRC-32 of the rows of one and of two texts."""
    draw = random.Random(5)
    pairs = [tuple(" ".join(draw.choice(WORDS) for _ in range(draw.randrange(0, 30))) for _ in range(2)) for _ in range(40)]
    with open(f"{HERE}/rows.tsv", "w", encoding="utf-8") as file:
        print("first", "label", "second", sep="\t", file=file)
        for i, (first, second) in enumerate(pairs):
            print(first, i % 3, second, sep="\t", file=file)
    with open(f"{HERE}/rows.txt", "w", encoding="ascii") as file:
        for name, pad in ("bert", "[PAD]"), ("roberta", "<pad>"):
            of = Tokenizer.from_file(f"{HERE}/{name}/tokenizer.json")
            for length in 7, 24, 61:
                of.enable_truncation(length)
                of.enable_padding(pad_id=of.token_to_id(pad), pad_token=pad, length=length)
                one = [i for first, _ in pairs for i in of.encode(first).ids]
                two = [i for first, second in pairs for i in of.encode(first, second).ids]
                print(name, length, f"{crc_of_ids(one):08x} {crc_of_ids(two):08x}", file=file)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        make_expected(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        make_folders()
        make_expected(HERE, 1, 250)
        make_rows()
