/* Rows of tokens and labels for encoders, from records of texts. */
#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/thread_modes.h"
#include "runtime/checkpoint/rows_file.h"
#include "runtime/data/tokenizer/documents_impl.h"
#include "runtime/data/tokenizer/text_records_impl.h"
#include "runtime/session/session.h"

enum { ROWS_AT_ONCE = 1024, MOST_LENGTH = 1 << 20 };

/* ---- one row ---- */

/* Shortens two texts to `most` tokens in all, the longer one first, as tokenizers does ("longest_first"). */
static void shorten(size_t count[2], size_t most)
{
    const int longer = count[0] > count[1] ? 0 : 1, shorter = 1 - longer;
    if (count[0] + count[1] <= most)
        return;
    if (2 * count[shorter] <= most) {
        count[longer] = most - count[shorter];
        return;
    }
    count[shorter] = most / 2;
    count[longer] = most / 2 + most % 2;
}

static iso_status fill_row(const iso_tokenizer *t, bool pair, iso_ids texts[2], size_t length, int32_t *row)
{
    const iso_template *template = pair ? &t->pair : &t->single;
    size_t added = 0, at = 0, count[2] = {texts[0].count, pair ? texts[1].count : 0};
    for (int i = 0; i < template->count; i++)
        added += template->item[i].text < 0;
    if (added >= length)
        return iso_error(ISO_INVALID, "a row of %zu tokens has no room for a text: %zu are added to each",
                         length, added);
    shorten(count, length - added);
    for (int i = 0; i < template->count; i++) {
        const iso_template_item *item = &template->item[i];
        const size_t n = item->text < 0 ? 1 : count[item->text];
        if (at + n > length)
            return iso_error(ISO_INVALID, "the post-processor repeats a text");
        memcpy(row + at, item->text < 0 ? &item->token : texts[item->text].id, n * sizeof *row);
        at += n;
    }
    for (; at < length; at++)
        row[at] = t->pad;
    return ISO_OK;
}

/* ---- the file ---- */

typedef struct work {
    iso_context *ctx;
    const iso_tokenizer *tokenizer;
    const iso_tokenize_rows_options *options;
    iso_token_scratch *scratch;
    iso_records records;
    iso_rows_file *file;
    iso_ids ids[2];
    int32_t *rows, *labels; /* [ROWS_AT_ONCE, length], [ROWS_AT_ONCE] */
} work;

static iso_status encode_record(work *w, const iso_record *record, int32_t *row)
{
    const bool pair = w->options->second;
    iso_status status = ISO_OK;
    for (int i = 0; i < 1 + pair; i++) {
        w->ids[i].count = 0;
        ISO_TRY(iso_tokenizer_append(w->tokenizer, w->scratch, (iso_part_ends){true, true, true},
                                     w->records.texts.data + record->begin[i], record->size[i], &w->ids[i]));
        if (!w->ids[i].id && !iso_ids_grow(&w->ids[i], 1))
            ISO_TRY(iso_no_memory("a row of tokens"));
    }
    ISO_TRY(fill_row(w->tokenizer, pair, w->ids, (size_t)w->options->length, row));
done:
    return status;
}

/* Writes records [begin, begin + count). */
static iso_status write_rows(work *w, int begin, int count)
{
    const int64_t length = w->options->length;
    iso_status status = ISO_OK;
    for (int i = 0; i < count; i++) {
        ISO_TRY(encode_record(w, &w->records.record[begin + i], w->rows + i * length));
        w->labels[i] = w->records.record[begin + i].label;
    }
    const iso_box rows = {.rank = 2, .offset = {begin, 0}, .extent = {count, length}},
                  labels = {.rank = 1, .offset = {begin}, .extent = {count}};
    ISO_TRY(iso_rows_file_write(w->file, 0, &rows, w->rows));
    if (w->options->label)
        ISO_TRY(iso_rows_file_write(w->file, 1, &labels, w->labels));
done:
    return status;
}

/* The rows of this rank: one after the other's. */
static iso_status write_own(work *w)
{
    const int64_t count = w->records.count, ranks = iso_ranks(w->ctx), rank = iso_rank(w->ctx);
    const int begin = (int)(count * rank / ranks), end = (int)(count * (rank + 1) / ranks);
    iso_status status = ISO_OK;
    for (int64_t done = 0; done < (count + ranks - 1) / ranks; done += ROWS_AT_ONCE) {
        const int64_t at = begin + done, left = end - at;
        ISO_TRY(iso_agree(w->ctx,
                          left > 0 ? write_rows(w, (int)at, (int)(left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE))
                                   : ISO_OK));
        ISO_TRY(iso_tokenize_stop_if_asked(w->ctx));
    }
done:
    return status;
}

static iso_status begin(work *w)
{
    const iso_tokenize_rows_options *o = w->options;
    const iso_record_columns columns = {o->first ? o->first : "text", o->second, o->label};
    iso_status status = ISO_OK;
    if (o->count < 1 || !o->files || o->length < 1 || o->length > MOST_LENGTH)
        return iso_error(ISO_INVALID, "files of records, and a length from 1 to %d, are needed", MOST_LENGTH);
    if (w->tokenizer->pad < 0)
        return iso_error(ISO_INVALID, "no file beside '%s' names a pad_token, which fills rows",
                         w->tokenizer->file);
    ISO_TRY(iso_file_check_name(o->out));
    for (int i = 0; i < o->count; i++)
        if (!o->files[i])
            return iso_error(ISO_INVALID, "file %d (counted from 0) of records is missing", i);
    for (int i = 0; i < o->count; i++)
        ISO_TRY(iso_records_read(o->files[i], &columns, &w->records));
    if (w->records.count == 0)
        return iso_error(ISO_INVALID, "the files have no records");
    w->scratch = iso_tokenizer_scratch_get(w->tokenizer);
    w->rows = iso_new(ROWS_AT_ONCE * (size_t)o->length * sizeof *w->rows);
    w->labels = iso_new(ROWS_AT_ONCE * sizeof *w->labels);
    if (!w->scratch || !w->rows || !w->labels)
        ISO_TRY(iso_no_memory("rows of %lld tokens", (long long)o->length));
done:
    return status;
}

static void end(work *w)
{
    if (w->scratch)
        iso_tokenizer_scratch_put(w->tokenizer, w->scratch);
    iso_records_free(&w->records);
    iso_ids_free(&w->ids[0]);
    iso_ids_free(&w->ids[1]);
    iso_free(w->rows);
    iso_free(w->labels);
}

iso_status iso_tokenize_rows_with(iso_context *ctx, const iso_tokenizer *tokenizer,
                                  const iso_tokenize_rows_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_tokenize_rows_options taken = {0};
    iso_options_copy(&taken, sizeof taken, options, size);
    ISO_NEED_AGREED_AS(ctx, "tokenizer, out", tokenizer, taken.out);
    work w = {.ctx = ctx, .tokenizer = tokenizer, .options = &taken};
    iso_status status;
    ISO_TRY(iso_agree(ctx, begin(&w)));
    const iso_rows_array arrays[] = {{"x", ISO_I32, ISO_SHAPE(w.records.count, taken.length)},
                                     {"y", ISO_I32, ISO_SHAPE(w.records.count)}};
    ISO_TRY(iso_rows_file_create(ctx, taken.out, arrays, taken.label ? 2 : 1, &w.file));
    status = iso_rows_file_finish(w.file, write_own(&w));
    if (status == ISO_OK && taken.rows)
        *taken.rows = w.records.count;
done:
    end(&w);
    return status;
}
