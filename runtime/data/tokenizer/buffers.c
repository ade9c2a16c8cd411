/* Growing arrays of bytes, ids and spans, and what a thread needs while it encodes. */
#include "runtime/data/tokenizer/model_impl.h"
#include "runtime/data/tokenizer/tokenizer_impl.h"

/* Room for `more` elements after `count`, at least twice as much as before. */
static bool grow(void *array, size_t *room, size_t count, size_t more, size_t size, bool *failed)
{
    void *old, *larger;
    size_t wanted = *room ? 2 * *room : 64;
    while (wanted < count + more)
        wanted *= 2;
    memcpy(&old, array, sizeof old);
    larger = iso_grow(old, *room, wanted, size);
    *failed |= !larger;
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *room = wanted;
    return true;
}

bool iso_bytes_grow(iso_bytes *bytes, size_t more)
{
    return grow(&bytes->data, &bytes->room, bytes->size, more, 1, &bytes->failed);
}

bool iso_ids_grow(iso_ids *ids, size_t more)
{
    return grow(&ids->id, &ids->room, ids->count, more, sizeof *ids->id, &ids->failed);
}

bool iso_text_spans_grow(iso_text_spans *spans)
{
    return grow(&spans->span, &spans->room, spans->count, 1, sizeof *spans->span, &spans->failed);
}

void iso_bytes_free(iso_bytes *bytes)
{
    iso_free(bytes->data);
    *bytes = (iso_bytes){0};
}

void iso_ids_free(iso_ids *ids)
{
    iso_free(ids->id);
    *ids = (iso_ids){0};
}

iso_token_scratch *iso_token_scratch_create(void)
{
    iso_token_scratch *scratch = iso_new(sizeof *scratch);
    if (!scratch)
        return NULL;
    scratch->matching = iso_matching_create();
    scratch->cache = iso_new(ISO_CACHED_WORDS * sizeof *scratch->cache);
    if (scratch->matching && scratch->cache)
        return scratch;
    iso_token_scratch_destroy(scratch);
    return NULL;
}

void iso_token_scratch_destroy(iso_token_scratch *scratch)
{
    if (!scratch)
        return;
    for (int i = 0; i < 2; i++) {
        iso_bytes_free(&scratch->text[i]);
        iso_free(scratch->spans[i].span);
    }
    iso_bytes_free(&scratch->rewritten);
    iso_bytes_free(&scratch->word);
    iso_free(scratch->matches.span);
    iso_free(scratch->symbol);
    iso_free(scratch->heap);
    iso_free(scratch->cache);
    iso_matching_destroy(scratch->matching);
    iso_free(scratch);
}
