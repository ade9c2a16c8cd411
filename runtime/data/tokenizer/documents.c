#include "runtime/data/tokenizer/documents_impl.h"

/* Appends the tokens that the post-processor puts before a text, or after it. */
static void add_around(const iso_template *single, bool after, iso_ids *ids)
{
    bool passed = false;
    for (int i = 0; i < single->count; i++) {
        if (single->item[i].text < 0 && passed == after)
            iso_ids_add(ids, single->item[i].token);
        passed |= single->item[i].text >= 0;
    }
}

/* part: where in its document the text is. */
static iso_status append(const iso_documents *how, iso_part_ends part, const char *text, size_t size,
                         iso_ids *ids, int64_t *count)
{
    *count += part.begins;
    if (part.begins && how->separator >= 0)
        iso_ids_add(ids, how->separator);
    if (part.begins && how->special)
        add_around(&how->tokenizer->single, false, ids);
    iso_status status = iso_tokenizer_append(how->tokenizer, how->scratch, part, text, size, ids);
    if (part.ends && how->special)
        add_around(&how->tokenizer->single, true, ids);
    return status == ISO_OK && ids->failed ? iso_no_memory("%zu tokens", ids->count) : status;
}

static iso_status append_lines(const iso_documents *how, const iso_text_block *block, iso_ids *ids,
                               int64_t *count)
{
    iso_status status = ISO_OK;
    for (size_t at = 0, next; at < block->size && status == ISO_OK; at = next) {
        const char *line = block->data + at, *feed = memchr(line, '\n', block->size - at);
        size_t size = feed ? (size_t)(feed - line) : block->size - at;
        next = at + size + (feed != NULL);
        const bool begins = at > 0 || block->begins, ends = feed || block->ends;
        size -= ends && size > 0 && line[size - 1] == '\r';
        if (size > 0 || !begins)
            status = append(how, (iso_part_ends){begins, begins, ends}, line, size, ids, count);
    }
    return status;
}

iso_status iso_documents_append(const iso_documents *how, const iso_text_block *block, iso_ids *ids,
                                int64_t *count)
{
    return how->lines ? append_lines(how, block, ids, count)
                      : append(how, (iso_part_ends){block->begins, block->begins, block->ends}, block->data,
                               block->size, ids, count);
}
