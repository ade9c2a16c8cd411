"""Makes the folders beside it and expected.txt: README.md."""

import pathlib
import shutil
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "torch"))
from make_gpt import hashed  # noqa: E402

VOCABULARY, CONTEXT, BATCH, STEPS, RATE = 61, 16, 4, 3, 0.1
SINGLE = torch.float32
GPT = dict(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=12, n_layer=2, n_head=3, bos_token_id=1, eos_token_id=2,
           attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
LLAMA = dict(vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, hidden_size=12, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=1e-5)


def gpt(**other):
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**{**GPT, **other}))


def neox(**other):
    config = {"hidden_size": 24, "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}, **other}
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(
        vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3,
        bos_token_id=1, eos_token_id=2, **config))


def llama(**other):
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**LLAMA, **other}))


# name: model, the type of the file, and the size of its largest file
MODELS = {
    "gpt2": (gpt, torch.float32, "1GB"),
    "gpt2-other": (lambda: gpt(n_inner=20, activation_function="gelu", layer_norm_epsilon=1e-3, attn_pdrop=0.25, embd_pdrop=0.25,
                               resid_pdrop=0.25), torch.float16, "1GB"),
    "gpt2-base": (gpt, torch.float32, "1GB"),
    "llama": (lambda: llama(rope_theta=1000.0), torch.float32, "10KB"),
    "llama-3": (lambda: llama(rope_parameters={"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "low_freq_factor": 0.5,
                                               "high_freq_factor": 2.0, "original_max_position_embeddings": 8}), torch.float32, "1GB"),
    "llama-tied": (lambda: llama(num_key_value_heads=3, tie_word_embeddings=True, rms_norm_eps=1e-3), torch.bfloat16, "1GB"),
    "mistral": (lambda: transformers.MistralForCausalLM(transformers.MistralConfig(**LLAMA, sliding_window=5, tie_word_embeddings=False)),
                torch.float32, "1GB"),
    "phi3": (lambda: transformers.Phi3ForCausalLM(transformers.Phi3Config(**LLAMA, pad_token_id=None, sliding_window=7)), torch.float16, "6KB"),
    "qwen2": (lambda: transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**{
        **LLAMA, "num_attention_heads": 2}, tie_word_embeddings=True, use_sliding_window=True, sliding_window=5, max_window_layers=1,
        rope_parameters={"rope_type": "yarn", "rope_theta": 20.0, "factor": 2.0, "original_max_position_embeddings": 8, "beta_fast": 4.0,
                         "beta_slow": 0.2})), torch.bfloat16, "1GB"),
    "qwen3": (lambda: transformers.Qwen3ForCausalLM(transformers.Qwen3Config(
        **LLAMA, head_dim=6, attention_bias=True, rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0})),
        torch.float32, "1GB"),
}
# Mixtures of experts. Their seeds follow those of the others.
EXPERTS = {
    "mixtral": (lambda: transformers.MixtralForCausalLM(transformers.MixtralConfig(
        **LLAMA, num_local_experts=5, num_experts_per_tok=2, output_router_logits=True, router_aux_loss_coef=0.1)), torch.float32, "20KB"),
    "qwen3-moe": (lambda: transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**{
        **LLAMA, "intermediate_size": 30}, head_dim=6, moe_intermediate_size=9, num_experts=4, num_experts_per_tok=3, norm_topk_prob=False)),
        torch.bfloat16, "1GB"),
}
GEMMA = {**LLAMA, "pad_token_id": None, "head_dim": 6, "rms_norm_eps": 1e-3}
# Those of later versions of Isogrid: their seeds follow.
LATER = {
    "gemma": (lambda: transformers.GemmaForCausalLM(transformers.GemmaConfig(
        **GEMMA, rope_parameters={"rope_type": "default", "rope_theta": 100.0})), torch.bfloat16, "1GB"),
    "gemma3": (lambda: transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**{
        **GEMMA, "num_hidden_layers": 3}, layer_types=["sliding_attention", "full_attention", "sliding_attention"], sliding_window=5,
        query_pre_attn_scalar=10, attention_bias=True, final_logit_softcapping=2.0, tie_word_embeddings=False,
        rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
                         "full_attention": {"rope_type": "linear", "rope_theta": 1000.0, "factor": 2.0}})), torch.float32, "9KB"),
    "gemma2": (lambda: transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**{
        **GEMMA, "num_hidden_layers": 3}, sliding_window=5, query_pre_attn_scalar=14, attn_logit_softcapping=1.5, final_logit_softcapping=3.0,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0})), torch.float32, "1GB"),
    "olmo2": (lambda: transformers.Olmo2ForCausalLM(transformers.Olmo2Config(**{
        **LLAMA, "num_hidden_layers": 3, "rms_norm_eps": 1e-3}, pad_token_id=None, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 50.0})), torch.float32, "1GB"),
    "granite": (lambda: transformers.GraniteForCausalLM(transformers.GraniteConfig(
        **LLAMA, attention_bias=True, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.3, residual_multiplier=0.4,
        logits_scaling=1.5)), torch.bfloat16, "1GB"),
    "olmoe": (lambda: transformers.OlmoeForCausalLM(transformers.OlmoeConfig(
        **LLAMA, pad_token_id=None, eos_token_id=2, num_experts=5, num_experts_per_tok=2)), torch.float32, "1GB"),
    "qwen2-moe": (lambda: transformers.Qwen2MoeForCausalLM(transformers.Qwen2MoeConfig(
        **LLAMA, moe_intermediate_size=9, shared_expert_intermediate_size=7, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        output_router_logits=True, router_aux_loss_coef=0.1)), torch.float32, "1GB"),
    "gpt-neox": (lambda: neox(), torch.float32, "9KB"),
    "gpt-neox-other": (lambda: neox(hidden_act="gelu_new", use_parallel_residual=False, tie_word_embeddings=True, layer_norm_eps=1e-3,
                                    hidden_dropout=0.25, attention_dropout=0.25, rope_parameters={
                                        "rope_type": "default", "rope_theta": 50.0, "partial_rotary_factor": 1.0}), torch.float16, "1GB"),
    "olmo3": (lambda: transformers.Olmo3ForCausalLM(transformers.Olmo3Config(**{
        **LLAMA, "num_hidden_layers": 3, "rms_norm_eps": 1e-3}, pad_token_id=None, eos_token_id=2, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            "full_attention": {"rope_type": "yarn", "rope_theta": 100.0, "factor": 2.0, "original_max_position_embeddings": 8,
                               "beta_fast": 4.0, "beta_slow": 0.2}})), torch.float32, "1GB"),
    "smollm3": (lambda: transformers.SmolLM3ForCausalLM(transformers.SmolLM3Config(**{
        **LLAMA, "num_hidden_layers": 3}, pad_token_id=None, bos_token_id=1, eos_token_id=2, no_rope_layer_interval=2, attention_bias=True,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0})), torch.float16, "1GB"),
    "starcoder2": (lambda: transformers.Starcoder2ForCausalLM(transformers.Starcoder2Config(
        vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, hidden_size=12, intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=3, num_key_value_heads=1, norm_epsilon=1e-3, sliding_window=5, bos_token_id=1, eos_token_id=2,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0})), torch.bfloat16, "1GB"),
}


def tokens():
    """As test_huggingface.c: 16-bit words of a linear congruential generator."""
    state, all = 1, []
    for _ in range(BATCH * STEPS * CONTEXT + 1):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        all.append((state >> 8) % VOCABULARY)
    return torch.tensor(all)


def digest(values):
    values = values.detach().reshape(-1)
    return f"{values.square().sum().item():.12g} {(values @ hashed(100, len(values), 1)).item():.12g}"


def save(name, seed):
    make, dtype, size = {**MODELS, **EXPERTS, **LATER}[name]
    torch.manual_seed(seed)
    net = make()
    for p in net.parameters():
        torch.nn.init.normal_(p, 0, 0.3)
    shutil.rmtree(HERE / name, ignore_errors=True)
    net = net.to(dtype)
    (net.transformer if name == "gpt2-base" else net).save_pretrained(HERE / name, max_shard_size=size)
    (HERE / name / "generation_config.json").unlink(missing_ok=True)


def compute(name, file):
    if name not in MODELS:  # routers, their loss and Gemma's normalisations in float64 too
        torch.Tensor.float = torch.Tensor.double
    if name in LATER:  # frequencies of rotary positions, too
        torch.float = torch.float64
    net = transformers.AutoModelForCausalLM.from_pretrained(HERE / name, dtype=torch.float64, experts_implementation="eager").eval()
    if name in LATER:  # the softmax of Gemma 2, too
        torch.float32 = torch.float64
    text, losses = tokens(), []
    rows = text[:BATCH * CONTEXT].reshape(BATCH, CONTEXT)
    first = net(rows).logits
    for step in range(STEPS):
        begin = step * BATCH * CONTEXT
        x, y = (text[begin + i:begin + i + BATCH * CONTEXT].reshape(BATCH, CONTEXT) for i in (0, 1))
        output = net(x)
        loss = torch.nn.functional.cross_entropy(output.logits.reshape(-1, VOCABULARY), y.reshape(-1))
        if getattr(output, "aux_loss", None) is not None:
            loss = loss + net.config.router_aux_loss_coef * output.aux_loss
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= RATE * p.grad
        losses.append(loss.item())
    torch.float = torch.float32 = SINGLE
    file.write(f"{name} {digest(first)}\n{digest(net(rows).logits)}\n{' '.join(f'{loss:.12g}' for loss in losses)}\n")


if __name__ == "__main__":
    with open(HERE / "expected.txt", "w") as file:
        for seed, name in enumerate([*sorted(MODELS), *sorted(EXPERTS), *LATER]):
            save(name, seed)
            compute(name, file)
