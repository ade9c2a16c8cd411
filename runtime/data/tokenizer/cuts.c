/* Where a text can be cut: between two ASCII characters at which every step of the tokenizer does the same to the two
 * sides as to the whole text, whatever stands further off. Each step is judged by what it can do to the two
 * characters: no match of a pattern may hold both, and in the end a pre-tokenizer splits there, or no merge is
 * possible. A step that is not known here makes each cut unsafe. */
#include "runtime/data/tokenizer/text_blocks_impl.h"

/* Whether the pre-tokenizers have split between the two characters. */
typedef enum split_state { JOINED, PERHAPS, SPLIT } split_state;

/* The two characters as the steps so far leave them. */
typedef struct spot {
    const iso_tokenizer *tokenizer;
    iso_token_scratch *scratch;
    uint32_t left, right;
    split_state split;
    bool moved; /* spans were rewritten after a split, so that their places no longer tell the first one */
} spot;

static bool is_ascii_letter(uint32_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_ascii_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

static uint32_t last_of(const char *text, size_t size)
{
    size_t at = size - 1;
    while (at > 0 && iso_utf8_continues(text[at]))
        at--;
    return iso_utf8_get(text + at);
}

static bool is_one_character(const char *text, size_t size)
{
    return size > 0 && iso_utf8_size(*text) == size;
}

/* Whether a text has the two characters side by side. */
static bool has_pair(const char *text, size_t size, const spot *p)
{
    for (size_t at = 0, next; at < size && (next = at + iso_utf8_size(text[at])) < size; at = next)
        if (iso_utf8_get(text + at) == p->left && iso_utf8_get(text + next) == p->right)
            return true;
    return false;
}

/* ---- normalizers ---- */

/* What a step that changes each character by itself makes of one. */
static bool becomes(const iso_token_step *step, iso_token_scratch *scratch, uint32_t *character, bool last)
{
    const iso_part_ends part = {false, false, false};
    iso_bytes in = {0}, out = {0};
    iso_bytes_add_character(&in, *character);
    const bool good = !in.failed && step->kind->normalize(step, scratch, part, &in, &out) == ISO_OK &&
                      !out.failed && out.size > 0;
    if (good)
        *character = last ? last_of(out.data, out.size) : iso_utf8_get(out.data);
    iso_bytes_free(&in);
    iso_bytes_free(&out);
    return good;
}

static bool keeps_replace(const iso_token_step *step, const spot *p)
{
    size_t size;
    bool expression;
    const char *text = iso_token_pattern_source(step->pattern, &size, &expression);
    if (expression) /* white space begins at the cut */
        return !strcmp(text, "\\s+") && !iso_is_white(p->left) && iso_is_white(p->right);
    return is_one_character(text, size) || (size > 0 && last_of(text, size) != p->left &&
                                            iso_utf8_get(text) != p->right && !has_pair(text, size, p));
}

static bool keeps_normalizer(const iso_token_step *step, const spot *p)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD", "BertNormalizer"}, *const others[] = {
                                                                                             "Lowercase",
                                                                                             "StripAccents",
                                                                                             "ByteLevel"};
    enum { COMBINING = 0x300 }; /* characters below are not composed with the one before them */
    const char *name = step->kind->name;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(name, forms[i]))
            return p->right < COMBINING;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i]))
            return true;
    if (!strcmp(name, "Strip"))
        return !iso_is_white(p->left);
    return !strcmp(name, "Replace") && keeps_replace(step, p);
}

static bool pass_normalizers(spot *p)
{
    const iso_token_steps *steps = &p->tokenizer->normalizers;
    for (int i = 0; i < steps->count; i++) {
        const iso_token_step *step = &steps->step[i];
        if (!strcmp(step->kind->name, "Prepend")) /* at the text's beginning alone */
            continue;
        if (!keeps_normalizer(step, p) || !becomes(step, p->scratch, &p->left, true) ||
            !becomes(step, p->scratch, &p->right, false))
            return false;
    }
    return true;
}

/* ---- added tokens ---- */

/* No added token has both characters, and none that ends or begins at the cut looks at the other side. */
static bool keeps_added(const iso_added *added, const iso_added_matcher *m, const spot *p)
{
    for (int32_t i = 0; i < m->texts.ids; i++) {
        size_t size;
        const char *text = iso_vocabulary_name(&m->texts, i, &size);
        if (!text || size == 0)
            continue;
        const iso_added_token *token = &added->token[i];
        if (has_pair(text, size, p) || ((token->word || token->right) && last_of(text, size) == p->left) ||
            (token->word && iso_utf8_get(text) == p->right))
            return false;
    }
    return m->texts.ids == 0 || !iso_is_white(p->left);
}

/* ---- pre-tokenizers ---- */

/* Expressions without a look behind, none of whose matches has an ASCII character that is no white space before a
 * space or tab, a letter or digit before the end of a line, or a digit before punctuation: a match ends there. Those
 * of GPT-2, LLaMA 3, Qwen 2, GPT-4o, DeepSeek and CLIP. */
static const char *const of_words[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+",
};
#define IDEOGRAPHS_AND_KANA "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+"
/* Expressions whose matches have no ASCII character but digits. */
static const char *const of_digits[] = {"\\p{N}", "\\p{N}+",    "\\p{N}{1,3}",     "\\p{Nd}",
                                        "\\d",    "\\d+",       "\\d{1,3}",        "[0-9]",
                                        "[0-9]+", "[0-9]{1,3}", "[0-9][0-9][0-9]", IDEOGRAPHS_AND_KANA};

static bool is_one_of(const char *text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(text, list[i]))
            return true;
    return false;
}

static void note(spot *p, split_state state)
{
    if (state > p->split)
        p->split = state;
}

/* For steps that match one character: whether this one is split. What they do to a stretch depends on the stretch
 * before it alone. */
static bool by_character(spot *p, int behaviour, bool invert, bool left, bool right)
{
    bool joins = !left && !right;
    const bool first = left != invert, second = right != invert;
    if (behaviour == ISO_SPLIT_CONTIGUOUS)
        joins |= first == second;
    if (behaviour == ISO_SPLIT_MERGED_WITH_PREVIOUS)
        joins |= second && !first;
    if (behaviour == ISO_SPLIT_MERGED_WITH_NEXT)
        joins |= !second && first;
    note(p, joins ? JOINED : SPLIT);
    return true;
}

static bool by_class(spot *p, int behaviour, iso_character_class *has)
{
    return by_character(p, behaviour, false, has(p->left), has(p->right));
}

static bool by_words(spot *p, int behaviour)
{
    const uint32_t a = p->left, b = p->right;
    const bool plain = a > ' ' && a < 0x7f, number = is_ascii_digit(a);
    const bool splits = (plain && (b == ' ' || b == '\t')) ||
                        ((number || is_ascii_letter(a)) && (b == '\n' || b == '\r')) ||
                        (number && b < 0x80 && b != '_' && iso_is_punctuation(b));
    if (!splits || (behaviour != ISO_SPLIT_ISOLATED && behaviour != ISO_SPLIT_REMOVED))
        return false;
    note(p, SPLIT);
    return true;
}

static bool by_pattern(spot *p, int behaviour, bool invert, const iso_token_pattern *pattern)
{
    size_t size;
    bool expression;
    const char *text = iso_token_pattern_source(pattern, &size, &expression);
    if (expression && is_one_of(text, of_words, sizeof of_words / sizeof *of_words))
        return by_words(p, behaviour);
    if (expression && is_one_of(text, of_digits, sizeof of_digits / sizeof *of_digits)) {
        note(p, is_ascii_digit(p->left) || p->right >= 0x80 || p->left >= 0x80 ? PERHAPS : JOINED);
        return p->left < 0x80 && p->right < 0x80 && !is_ascii_digit(p->right);
    }
    if (expression || size == 0 || has_pair(text, size, p))
        return false;
    const bool left = last_of(text, size) == p->left, right = iso_utf8_get(text) == p->right;
    if (is_one_character(text, size))
        return by_character(p, behaviour, invert, left, right);
    note(p, left || right ? PERHAPS : JOINED);
    return true;
}

/* A step that puts something before each span, unless it begins with a space or `with`; in a block, not before the
 * span at its beginning. */
static bool keeps_prefix(const spot *p, uint32_t with)
{
    return p->split == JOINED || (!p->moved && (p->right == ' ' || p->right == with));
}

static bool by_bytes(spot *p, const iso_token_step *step)
{
    char text[4];
    iso_bytes left = {0}, right = {0};
    bool good = !step->on[0] || keeps_prefix(p, ' ');
    if (good && p->split != SPLIT && step->on[1])
        good = by_words(p, ISO_SPLIT_ISOLATED);
    if (!good)
        return false;
    p->moved |= p->split != JOINED;
    iso_byte_characters(text, iso_utf8_put(p->left, text), &left);
    iso_byte_characters(text, iso_utf8_put(p->right, text), &right);
    good = !left.failed && !right.failed;
    if (good) {
        p->left = last_of(left.data, left.size);
        p->right = iso_utf8_get(right.data);
    }
    iso_bytes_free(&left);
    iso_bytes_free(&right);
    return good;
}

static bool by_meta(spot *p, const iso_token_step *step)
{
    if (!is_one_character(step->text, step->size) ||
        (step->choice == ISO_META_ALWAYS && !keeps_prefix(p, iso_utf8_get(step->text))))
        return false;
    p->moved |= p->split != JOINED;
    if (p->left == ' ')
        p->left = iso_utf8_get(step->text);
    if (p->right == ' ')
        p->right = iso_utf8_get(step->text);
    return !step->on[0] || p->split == SPLIT ||
           by_pattern(p, ISO_SPLIT_MERGED_WITH_NEXT, false, step->pattern);
}

static bool pass_splitter(spot *p, const iso_token_step *step)
{
    const char *name = step->kind->name;
    if (!strcmp(name, "ByteLevel"))
        return by_bytes(p, step);
    if (!strcmp(name, "Metaspace"))
        return by_meta(p, step);
    if (p->split == SPLIT) /* each side is split by itself */
        return true;
    if (!strcmp(name, "Split"))
        return by_pattern(p, step->choice, step->on[0], step->pattern);
    if (!strcmp(name, "CharDelimiterSplit"))
        return by_pattern(p, ISO_SPLIT_REMOVED, false, step->pattern);
    if (!strcmp(name, "Whitespace"))
        return by_words(p, ISO_SPLIT_REMOVED);
    if (!strcmp(name, "WhitespaceSplit"))
        return by_class(p, ISO_SPLIT_REMOVED, iso_is_white);
    if (!strcmp(name, "BertPreTokenizer"))
        return by_class(p, ISO_SPLIT_REMOVED, iso_is_white) &&
               by_class(p, ISO_SPLIT_ISOLATED, iso_is_punctuation);
    if (!strcmp(name, "Punctuation"))
        return by_class(p, step->choice, iso_is_punctuation);
    return !strcmp(name, "Digits") && by_class(p, step->choice, iso_is_numeric);
}

static bool pass_splitters(spot *p)
{
    const iso_token_steps *steps = &p->tokenizer->splitters;
    for (int i = 0; i < steps->count; i++)
        if (!pass_splitter(p, &steps->step[i]))
            return false;
    return true;
}

/* ---- the model ---- */

static bool is_known(const iso_token_model *model, uint32_t character)
{
    char text[4];
    return iso_vocabulary_find(&model->vocabulary, text, iso_utf8_put(character, text)) >= 0;
}

/* Whether no merge can join the two characters. */
static bool is_never_merged(const iso_token_model *model, const spot *p)
{
    return model->inside.count && !iso_pairs_find(&model->inside, p->left, p->right) &&
           is_known(model, p->left) && is_known(model, p->right);
}

bool iso_text_may_be_cut(const iso_tokenizer *t, iso_token_scratch *scratch, char left, char right)
{
    spot p = {.tokenizer = t, .scratch = scratch, .left = (uint8_t)left, .right = (uint8_t)right};
    return keeps_added(&t->added, &t->added.raw, &p) && pass_normalizers(&p) &&
           keeps_added(&t->added, &t->added.normalized, &p) && pass_splitters(&p) &&
           (p.split == SPLIT || is_never_merged(&t->model, &p));
}
