/* --mask-tokens: rows of tokens for a model of masked tokens. */
#include "launch/train_impl.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/data/tokenizer/tokenizer.h"

/* Whether the model predicts masked tokens. */
static bool has_masked_head(const iso_named_model *named)
{
    return named->builtin && named->builtin->settings && iso_setting_of(named->builtin->settings, "head") &&
           named->settings.bert.head == ISO_BERT_MASKED_LM;
}

iso_status iso_mask_tokens_check(const iso_train_options *options, const iso_named_model *named)
{
    if (options->mask_tokens == 0)
        return ISO_OK;
    if (!has_masked_head(named))
        return iso_error(
            ISO_INVALID,
            "--mask-tokens %g: the model '%s' does not predict masked tokens; bert:head=masked_lm and "
            "a folder of such a model do",
            options->mask_tokens, options->model);
    if (options->y || options->sample_weight)
        return iso_error(ISO_INVALID,
                         "--mask-tokens %g: the targets are made of the tokens; leave out --%s '%s'",
                         options->mask_tokens, options->y ? "y" : "sample-weight",
                         options->y ? options->y : options->sample_weight);
    if (!iso_tokenizer_name(options, named))
        return iso_error(
            ISO_INVALID,
            "--mask-tokens %g needs the tokenizer.json by which the tokens were made; name it with "
            "--tokenizer",
            options->mask_tokens);
    return ISO_OK;
}

/* The tokens that never count: the tokenizer's special ones, and the model's padding. The caller frees *special. */
static iso_status find_special(const iso_tokenizer *tokenizer, const iso_named_model *named,
                               int32_t **special, int *count)
{
    const int64_t vocabulary = iso_named_model_vocabulary(named);
    iso_status status = ISO_OK;
    for (int32_t id = 0; id < vocabulary; id++)
        if (id == named->settings.bert.pad || iso_tokenizer_is_special(tokenizer, id))
            ISO_TRY(iso_list_add(*special, *count, id, "the special tokens"));
done:
    return status;
}

static iso_status mask_all(const iso_train_options *options, const iso_named_model *named,
                           const iso_tokenizer *tokenizer, const iso_sources *sources)
{
    iso_dataset *const data[] = {sources->training, sources->validation, sources->test};
    const int32_t mask = iso_tokenizer_mask(tokenizer);
    int32_t *special = NULL;
    int count = 0;
    iso_status status;
    if (mask < 0)
        return iso_error(ISO_INVALID, "--mask-tokens %g: the tokenizer '%s' has no mask_token",
                         options->mask_tokens, iso_tokenizer_name(options, named));
    ISO_TRY(find_special(tokenizer, named, &special, &count));
    for (int i = 0; i < 3; i++)
        if (data[i])
            ISO_TRY(iso_dataset_mask_tokens(
                data[i], mask, .rate = options->mask_tokens, .vocabulary = iso_named_model_vocabulary(named),
                .special = special, .special_count = count, .once = data[i] != sources->training));
done:
    iso_free(special);
    return status;
}

iso_status iso_mask_tokens_add(const iso_train_options *options, const iso_named_model *named,
                               const iso_sources *sources)
{
    iso_tokenizer *tokenizer = NULL;
    if (options->mask_tokens == 0)
        return ISO_OK;
    iso_status status = iso_tokenizer_open(iso_tokenizer_name(options, named), &tokenizer);
    if (status == ISO_OK)
        status = mask_all(options, named, tokenizer, sources);
    iso_tokenizer_close(tokenizer);
    return status;
}
