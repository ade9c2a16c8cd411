/* Byte pair encoding (Sennrich et al. 2016, arXiv 1508.07909): the symbols of a word are merged pair by pair, the
 * pair of the lowest rank first, of several the leftmost. */
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/model_impl.h"

typedef struct iso_symbol {
    int32_t id;             /* -1: it is merged into the one before it */
    int32_t previous, next; /* -1: none */
} iso_symbol;

typedef struct iso_merge {
    int32_t rank, at, id; /* of the left symbol; what the pair becomes */
} iso_merge;

/* ---- reading ---- */

/* The two texts of a merge: "a b" or ["a", "b"]. */
static bool read_pair(const json_t *value, const char *text[2], size_t size[2])
{
    if (json_is_array(value) && json_array_size(value) == 2) {
        for (size_t i = 0; i < 2; i++) {
            text[i] = json_string_value(json_array_get(value, i));
            size[i] = json_string_length(json_array_get(value, i));
        }
        return text[0] && text[1];
    }
    const char *whole = json_string_value(value), *space = whole ? strchr(whole, ' ') : NULL;
    if (!space || strchr(space + 1, ' '))
        return false;
    text[0] = whole;
    size[0] = (size_t)(space - whole);
    text[1] = space + 1;
    size[1] = strlen(space + 1);
    return true;
}

static iso_status read_merge(const char *file, const json_t *value, int32_t rank, iso_bytes *joined,
                             iso_token_model *model)
{
    const char *text[2];
    size_t size[2];
    int32_t id[3];
    if (!read_pair(value, text, size) || size[1] < model->prefix_size)
        return iso_error(ISO_INVALID, "'%s': merge %d (counted from 0) is no pair of tokens", file, rank);
    joined->size = 0;
    iso_bytes_add(joined, text[0], size[0]);
    iso_bytes_add(joined, text[1] + model->prefix_size, size[1] - model->prefix_size);
    if (joined->failed)
        return iso_no_memory("the merges of '%s'", file);
    id[0] = iso_vocabulary_find(&model->vocabulary, text[0], size[0]);
    id[1] = iso_vocabulary_find(&model->vocabulary, text[1], size[1]);
    id[2] = iso_vocabulary_find(&model->vocabulary, joined->size ? joined->data : "", joined->size);
    if (id[0] < 0 || id[1] < 0 || id[2] < 0)
        return iso_error(ISO_INVALID, "'%s': merge %d (counted from 0) '%.*s' '%s' is not in the vocabulary",
                         file, rank, (int)size[0], text[0], text[1]);
    return iso_pairs_set(&model->merges, (uint32_t)id[0], (uint32_t)id[1], (iso_pair_value){rank, id[2]});
}

static iso_status read_merges(const char *file, const json_t *value, iso_token_model *model)
{
    const json_t *merges = json_object_get(value, "merges");
    iso_bytes joined = {0};
    iso_status status = ISO_OK;
    if (!json_is_array(merges))
        return iso_error(ISO_INVALID, "'%s': the model's merges are no list", file);
    for (size_t i = 0; status == ISO_OK && i < json_array_size(merges); i++)
        status = read_merge(file, json_array_get(merges, i), (int32_t)i, &joined, model);
    iso_bytes_free(&joined);
    return status;
}

static iso_status read_affix(const char *file, const json_t *value, const char *member, char **text,
                             size_t *size)
{
    const json_t *found = json_object_get(value, member);
    if (!found || json_is_null(found) || (json_is_string(found) && !json_string_length(found)))
        return ISO_OK;
    if (!json_is_string(found))
        return iso_token_unsupported(file, member, found);
    *size = json_string_length(found);
    *text = iso_strdup(json_string_value(found));
    return *text ? ISO_OK : iso_no_memory("the tokenizer of '%s'", file);
}

/* Between two characters that no token has side by side, no merge is possible, so a word can be divided there. */
static iso_status find_inside(iso_token_model *model)
{
    iso_status status = ISO_OK;
    for (int64_t id = 0; id < model->vocabulary.ids; id++) {
        size_t size, at = 0;
        const char *name = iso_vocabulary_name(&model->vocabulary, (int32_t)id, &size);
        for (size_t next; name && at < size && (next = at + iso_utf8_size(name[at])) < size; at = next)
            ISO_TRY(iso_pairs_set(&model->inside, iso_utf8_get(name + at), iso_utf8_get(name + next),
                                  (iso_pair_value){0, 0}));
    }
done:
    return status;
}

static iso_status bpe_read(const char *file, const json_t *value, iso_token_model *model)
{
    const json_t *dropout = json_object_get(value, "dropout");
    iso_status status = ISO_OK;
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0)
        return iso_token_unsupported(file, "dropout", dropout);
    model->byte_fallback = iso_token_flag(value, "byte_fallback", false);
    model->fuse_unknown = iso_token_flag(value, "fuse_unk", false);
    model->ignore_merges = iso_token_flag(value, "ignore_merges", false);
    ISO_TRY(read_affix(file, value, "continuing_subword_prefix", &model->prefix, &model->prefix_size));
    ISO_TRY(read_affix(file, value, "end_of_word_suffix", &model->suffix, &model->suffix_size));
    ISO_TRY(iso_model_read_vocabulary(file, value, model));
    ISO_TRY(iso_model_read_unknown(file, value, model));
    ISO_TRY(read_merges(file, value, model));
    if (!model->bytes && !model->prefix && !model->suffix && !model->ignore_merges)
        ISO_TRY(find_inside(model));
done:
    return status;
}

/* ---- the symbols of a word ---- */

typedef struct word {
    iso_symbol *symbol;
    int32_t count;
    bool pending; /* an unknown token that the next unknown character may join */
} word;

static void add_symbol(word *w, int32_t id)
{
    w->symbol[w->count] = (iso_symbol){id, w->count - 1, -1};
    if (w->count > 0)
        w->symbol[w->count - 1].next = w->count;
    w->count++;
}

/* Adds the tokens <0x0A> of the bytes, if there is one for each. */
static bool add_bytes(const iso_token_model *model, const char *text, size_t size, word *w)
{
    char name[8];
    const int32_t before = w->count;
    for (size_t i = 0; i < size; i++) {
        snprintf(name, sizeof name, "<0x%02X>", (uint8_t)text[i]);
        const int32_t id = iso_vocabulary_find(&model->vocabulary, name, 6);
        if (id < 0) {
            w->count = before;
            if (before > 0)
                w->symbol[before - 1].next = -1;
            return false;
        }
        add_symbol(w, id);
    }
    return true;
}

/* A character with its affixes. */
static const char *with_affixes(const iso_token_model *model, iso_bytes *room, const char *text, size_t *size,
                                bool first, bool last)
{
    if ((first || !model->prefix) && (!last || !model->suffix))
        return text;
    room->size = 0;
    iso_bytes_add(room, model->prefix, first ? 0 : model->prefix_size);
    iso_bytes_add(room, text, *size);
    iso_bytes_add(room, model->suffix, last ? model->suffix_size : 0);
    *size = room->size;
    return room->data;
}

static iso_status add_character(const iso_token_model *model, const char *text, size_t size, word *w)
{
    const int32_t id = iso_vocabulary_find(&model->vocabulary, text, size);
    if (id >= 0) {
        if (w->pending)
            add_symbol(w, model->unknown);
        w->pending = false;
        add_symbol(w, id);
        return ISO_OK;
    }
    if (model->byte_fallback && add_bytes(model, text, size, w))
        return ISO_OK;
    if (model->unknown < 0)
        return iso_unknown_character(text);
    if (w->pending && !model->fuse_unknown)
        add_symbol(w, model->unknown);
    w->pending = true;
    return ISO_OK;
}

static iso_status make_symbols(const iso_token_model *model, const char *text, size_t size, word *w)
{
    iso_bytes room = {0};
    iso_status status = ISO_OK;
    for (size_t at = 0, length; at < size && status == ISO_OK; at += length) {
        length = iso_utf8_size(text[at]);
        size_t whole = length;
        const char *character = with_affixes(model, &room, text + at, &whole, at == 0, at + length == size);
        status = room.failed ? iso_no_memory("a word") : add_character(model, character, whole, w);
    }
    if (w->pending)
        add_symbol(w, model->unknown);
    iso_bytes_free(&room);
    return status;
}

/* ---- merging: a heap of the pairs that can be merged, the lowest rank on top ---- */

static bool is_before(const iso_merge *a, const iso_merge *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(iso_merge *heap, int *count, iso_merge merge)
{
    int at = (*count)++;
    while (at > 0 && is_before(&merge, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = merge;
}

static iso_merge pop(iso_merge *heap, int *count)
{
    const iso_merge top = heap[0], last = heap[--*count];
    int at = 0;
    for (int child = 1; child < *count; child = 2 * at + 1) {
        if (child + 1 < *count && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (!is_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

/* Puts the pair that begins with symbol `at` into the heap, if it can be merged. */
static void propose(const iso_token_model *model, const word *w, int32_t at, iso_merge *heap, int *count)
{
    if (at < 0 || w->symbol[at].next < 0)
        return;
    const iso_pair_value *value = iso_pairs_find(&model->merges, (uint32_t)w->symbol[at].id,
                                                 (uint32_t)w->symbol[w->symbol[at].next].id);
    if (value)
        push(heap, count, (iso_merge){value->rank, at, value->id});
}

static void merge(const iso_token_model *model, word *w, iso_merge *heap)
{
    int count = 0;
    for (int32_t i = 0; i < w->count; i++)
        propose(model, w, i, heap, &count);
    while (count > 0) {
        const iso_merge top = pop(heap, &count);
        iso_symbol *left = &w->symbol[top.at];
        if (left->id < 0 || left->next < 0)
            continue;
        iso_symbol *right = &w->symbol[left->next];
        const iso_pair_value *value = iso_pairs_find(&model->merges, (uint32_t)left->id, (uint32_t)right->id);
        if (!value || value->id != top.id) /* one of the two has changed */
            continue;
        left->id = top.id;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0)
            w->symbol[left->next].previous = top.at;
        propose(model, w, left->previous, heap, &count);
        propose(model, w, top.at, heap, &count);
    }
}

/* Room for the symbols of a word and for their merges: each merge removes a symbol and proposes two pairs. */
static iso_status reserve(iso_token_scratch *scratch, size_t symbols)
{
    if (symbols <= scratch->symbols_room)
        return ISO_OK;
    if (symbols > INT32_MAX / 4)
        return iso_error(ISO_INVALID, "a word of %zu bytes; at most %d are possible", symbols, INT32_MAX / 4);
    const size_t room = 2 * symbols;
    iso_symbol *symbol = iso_grow(scratch->symbol, scratch->symbols_room, room, sizeof *symbol);
    if (symbol)
        scratch->symbol = symbol;
    iso_merge *heap =
        symbol ? iso_grow(scratch->heap, 3 * scratch->symbols_room, 3 * room, sizeof *heap) : NULL;
    if (!heap)
        return iso_no_memory("a word of %zu bytes", symbols);
    scratch->heap = heap;
    scratch->symbols_room = room;
    return ISO_OK;
}

static iso_status encode_whole(const iso_token_model *model, iso_token_scratch *scratch, const char *text,
                               size_t size, iso_ids *ids)
{
    iso_status status = reserve(scratch, size + 1);
    if (status != ISO_OK)
        return status;
    word w = {.symbol = scratch->symbol};
    status = make_symbols(model, text, size, &w);
    if (status != ISO_OK)
        return status;
    merge(model, &w, scratch->heap);
    for (int32_t i = 0; i < w.count; i++)
        if (w.symbol[i].id >= 0)
            iso_ids_add(ids, w.symbol[i].id);
    return ISO_OK;
}

/* ---- words without a pre-tokenizer are whole texts: they are divided ---- */

static bool is_known(const iso_token_model *model, const char *at)
{
    return iso_vocabulary_find(&model->vocabulary, at, iso_utf8_size(*at)) >= 0;
}

/* Unknown characters may become one token. */
static bool is_divisible(const iso_token_model *model, const char *left, const char *right)
{
    return !iso_pairs_find(&model->inside, iso_utf8_get(left), iso_utf8_get(right)) &&
           (is_known(model, left) || is_known(model, right));
}

static iso_status encode_parts(const iso_token_model *model, iso_token_scratch *scratch, const char *text,
                               size_t size, iso_ids *ids)
{
    size_t begin = 0;
    iso_status status = ISO_OK;
    for (size_t at = 0, next; at < size && status == ISO_OK; at = next) {
        next = at + iso_utf8_size(text[at]);
        if (next < size && !is_divisible(model, text + at, text + next))
            continue;
        /* a part that is cached must not be divided again */
        status = next - begin <= ISO_CACHED_BYTES
                     ? iso_token_model_encode(model, scratch, text + begin, next - begin, ids)
                     : encode_whole(model, scratch, text + begin, next - begin, ids);
        begin = next;
    }
    return status;
}

static iso_status bpe_encode(const iso_token_model *model, iso_token_scratch *scratch, const char *text,
                             size_t size, iso_ids *ids)
{
    if (model->ignore_merges) {
        const int32_t id = iso_vocabulary_find(&model->vocabulary, text, size);
        if (id >= 0) {
            iso_ids_add(ids, id);
            return ISO_OK;
        }
    }
    if (model->inside.count && size > ISO_CACHED_BYTES)
        return encode_parts(model, scratch, text, size, ids);
    return encode_whole(model, scratch, text, size, ids);
}

const iso_model_kind iso_model_bpe = {"BPE", bpe_read, bpe_encode};
