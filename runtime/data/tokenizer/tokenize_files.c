/* Files of tokens from files of text. Each rank reads all texts and encodes every so many-th block; reading takes a
 * fraction of the time of encoding. After each round of one block for each rank, all write at their places. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/file.h"
#include "runtime/base/hash.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/tokenizer/documents_impl.h"
#include "runtime/session/session.h"

enum { HEADER_BYTES = 1024, HEADER_WORDS = 3 };

typedef struct work {
    iso_context *ctx;
    const iso_tokenize_files_options *options;
    iso_documents how;
    iso_text_blocks *blocks;
    char *temporary; /* name of the file until it is complete */
    int file;        /* -1: not open */
    int width;       /* bytes of a token */
    size_t header;   /* bytes before the first token */
    iso_ids ids;     /* of this rank in this round */
    iso_bytes bytes;
    uint64_t tokens, documents; /* of the rounds before */
} work;

/* What a rank has done in a round. */
typedef struct round {
    uint64_t tokens, documents, ended;
} round;

/* ---- the file ---- */

/* "FOLDER/.NAME.saving-12345678", as files of checkpoints have while they are written. */
static iso_status name_temporary(work *w)
{
    iso_text name = {0};
    struct timespec now = {0};
    char *folder = iso_file_folder(w->options->out);
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t words[] = {now.tv_sec, now.tv_nsec, getpid()};
    uint64_t number = iso_hash_bytes(0, words, sizeof words) % 100000000;
    iso_status status = iso_broadcast(w->ctx, &number, sizeof number);
    iso_text_add(&name, "%s/.%s.saving-%08" PRIu64, folder ? folder : ".", iso_file_name(w->options->out),
                 number);
    w->temporary = folder && !name.failed ? iso_strdup(iso_text_get(&name)) : NULL;
    iso_free(folder);
    iso_text_free(&name);
    return iso_agree(
        w->ctx, status == ISO_OK && !w->temporary ? iso_no_memory("the name '%s'", w->options->out) : status);
}

static iso_status open_temporary(work *w, bool makes)
{
    if (makes == !iso_is_chief(w->ctx))
        return ISO_OK;
    w->file = open(w->temporary, O_WRONLY | O_CLOEXEC | (makes ? O_CREAT | O_EXCL : 0), 0666);
    return w->file >= 0 ? ISO_OK : iso_file_failed(w->temporary, "it cannot be opened");
}

static iso_status write_at(work *w, const void *data, size_t size, uint64_t at)
{
    if (lseek(w->file, (off_t)at, SEEK_SET) >= 0 && iso_file_write(w->file, data, size))
        return ISO_OK;
    return iso_file_failed(w->temporary, "it cannot be written");
}

static void add_number(iso_bytes *bytes, uint32_t number, int width)
{
    char byte[4];
    for (int i = 0; i < width; i++)
        byte[i] = (char)(number >> 8 * i);
    iso_bytes_add(bytes, byte, (size_t)width);
}

/* Writes this rank's tokens from number `first` of the file on, without the first `skipped`. */
static iso_status write_tokens(work *w, size_t skipped, uint64_t first)
{
    w->bytes.size = 0;
    for (size_t i = skipped; i < w->ids.count; i++)
        add_number(&w->bytes, (uint32_t)w->ids.id[i], w->width);
    if (w->bytes.failed)
        return iso_no_memory("%zu tokens", w->ids.count);
    return w->bytes.size ? write_at(w, w->bytes.data, w->bytes.size, w->header + first * (uint64_t)w->width)
                         : ISO_OK;
}

/* llm.c's: magic number, version, number of tokens. */
static iso_status write_header(work *w)
{
    static const char zeros[HEADER_BYTES] = {0};
    if (w->header == 0 || !iso_is_chief(w->ctx))
        return ISO_OK;
    if (w->tokens > UINT32_MAX)
        return iso_error(ISO_INVALID, "llm.c's header holds at most %" PRIu32 " tokens; there are %" PRIu64,
                         UINT32_MAX, w->tokens);
    w->bytes.size = 0;
    add_number(&w->bytes, w->width == 2 ? 20240520 : 20240801, 4);
    add_number(&w->bytes, w->width == 2 ? 1 : 7, 4);
    add_number(&w->bytes, (uint32_t)w->tokens, 4);
    iso_bytes_add(&w->bytes, zeros, HEADER_BYTES - 4 * HEADER_WORDS);
    return w->bytes.failed ? iso_no_memory("a header") : write_at(w, w->bytes.data, w->bytes.size, 0);
}

static iso_status sync_file(work *w)
{
    return fsync(w->file) == 0 ? ISO_OK : iso_file_failed(w->temporary, "it cannot be written");
}

/* Gives the file its name. */
static iso_status commit(work *w)
{
    if (!iso_is_chief(w->ctx))
        return ISO_OK;
    iso_status status = iso_file_take_name(w->temporary, w->options->out, false);
    char *folder = status == ISO_OK ? iso_file_folder(w->options->out) : NULL;
    if (folder)
        status = iso_folder_sync(folder);
    iso_free(folder);
    return status;
}

/* ---- rounds ---- */

/* Reads a block for each rank, and encodes that of this one. */
static iso_status encode_round(work *w, round *mine)
{
    iso_status status = ISO_OK;
    w->ids.count = 0;
    for (int rank = 0; rank < iso_ranks(w->ctx) && !mine->ended; rank++) {
        iso_text_block block;
        ISO_TRY(iso_text_blocks_next(w->blocks, &block));
        mine->ended = !block.data;
        if (block.data && rank == iso_rank(w->ctx)) {
            int64_t documents = 0;
            status = iso_documents_append(&w->how, &block, &w->ids, &documents);
            mine->documents = (uint64_t)documents;
            if (status != ISO_OK)
                return iso_text_blocks_error(w->blocks, status);
        }
    }
    mine->tokens = w->ids.count;
done:
    return status;
}

/* Writes the tokens of this rank; all [ranks]: their numbers. The separator before the first document is left out. */
static iso_status write_round(work *w, const round *all)
{
    iso_status status = ISO_OK;
    for (int rank = 0; rank < iso_ranks(w->ctx); rank++) {
        const bool first = w->how.separator >= 0 && w->tokens == 0 && w->documents == 0;
        const size_t skipped = first && all[rank].tokens > 0;
        if (rank == iso_rank(w->ctx) && status == ISO_OK)
            status = write_tokens(w, skipped, w->tokens);
        w->tokens += all[rank].tokens - skipped;
        w->documents += all[rank].documents;
    }
    return status;
}

iso_status iso_tokenize_stop_if_asked(iso_context *ctx)
{
    iso_status status = iso_stop_agree(ctx);
    return status == ISO_OK && ctx && iso_stop_requested(ctx) ? iso_stopped(ctx, NULL) : status;
}

static iso_status run_rounds(work *w)
{
    round *all = iso_new((size_t)iso_ranks(w->ctx) * sizeof *all);
    iso_status status = iso_agree(w->ctx, all ? ISO_OK : iso_no_memory("%d ranks", iso_ranks(w->ctx)));
    ISO_TRY(status);
    for (bool ended = false; !ended;) {
        round mine = {0};
        ISO_TRY(iso_agree(w->ctx, encode_round(w, &mine)));
        ISO_TRY(iso_gather_all(w->ctx, &mine, sizeof mine, all));
        ISO_TRY(iso_agree(w->ctx, write_round(w, all)));
        ended = all[0].ended;
        ISO_TRY(iso_tokenize_stop_if_asked(w->ctx));
    }
    if (w->tokens == 0)
        status = iso_agree(w->ctx, iso_error(ISO_INVALID, "the texts have no tokens"));
done:
    iso_free(all);
    return status;
}

/* ---- the call ---- */

static iso_status find_separator(const iso_tokenizer *t, const iso_tokenize_files_options *o, int32_t *id)
{
    *id = -1;
    if (o->no_separator)
        return ISO_OK;
    *id = o->separator ? iso_tokenizer_id(t, o->separator) : t->end;
    if (*id >= 0 || (!o->separator && !o->lines && o->count == 1))
        return ISO_OK;
    return o->separator
               ? iso_error(ISO_INVALID, "the separator '%s' is no token of '%s'", o->separator, t->file)
               : iso_error(ISO_INVALID,
                           "no file beside '%s' names an eos_token, which separates documents: name "
                           "another token, or none",
                           t->file);
}

static iso_status begin(work *w, const iso_tokenizer *t)
{
    const iso_tokenize_files_options *o = w->options;
    if (!*o->out || o->count < 1 || !o->files)
        return iso_error(ISO_INVALID, "the %s is missing", !*o->out ? "name of the file of tokens" : "text");
    for (int i = 0; i < o->count; i++)
        if (!o->files[i])
            return iso_error(ISO_INVALID, "text %d (counted from 0) is missing", i);
    iso_status status = iso_file_check_name(o->out);
    if (status == ISO_OK)
        status = find_separator(t, o, &w->how.separator);
    if (status != ISO_OK)
        return status;
    w->width = t->vocabulary > UINT16_MAX + 1 ? 4 : 2;
    w->header = o->form == ISO_TOKENS_LLMC ? HEADER_BYTES : 0;
    w->how.tokenizer = t;
    w->how.lines = o->lines;
    w->how.special = o->special;
    w->how.scratch = iso_tokenizer_scratch_get(t);
    if (!w->how.scratch)
        return iso_no_memory("a tokenizer");
    return iso_text_blocks_open(t, o->files, o->count, o->lines, 0, &w->blocks);
}

static void end(work *w)
{
    if (w->how.scratch)
        iso_tokenizer_scratch_put(w->how.tokenizer, w->how.scratch);
    iso_text_blocks_close(w->blocks);
    iso_ids_free(&w->ids);
    iso_bytes_free(&w->bytes);
    iso_free(w->temporary);
}

/* The file must not stay if something fails. */
static iso_status close_file(work *w, iso_status status)
{
    if (w->file >= 0)
        close(w->file);
    if (status != ISO_OK && w->file >= 0 && iso_is_chief(w->ctx))
        unlink(w->temporary);
    return status;
}

static iso_status write_file(work *w)
{
    iso_status status;
    ISO_TRY(name_temporary(w));
    ISO_TRY(iso_agree(w->ctx, open_temporary(w, true)));
    ISO_TRY(iso_agree(w->ctx, open_temporary(w, false)));
    ISO_TRY(run_rounds(w));
    ISO_TRY(iso_agree(w->ctx, write_header(w)));
    ISO_TRY(iso_agree(w->ctx, sync_file(w)));
    ISO_TRY(iso_agree(w->ctx, commit(w)));
done:
    status = close_file(w, status);
    iso_status removed = iso_agree(w->ctx, ISO_OK); /* no rank returns before the file is gone */
    return status == ISO_OK ? removed : status;
}

iso_status iso_tokenize_files_with(iso_context *ctx, const iso_tokenizer *tokenizer,
                                   const iso_tokenize_files_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_tokenize_files_options taken = {0};
    iso_options_copy(&taken, sizeof taken, options, size);
    ISO_NEED_AGREED_AS(ctx, "tokenizer, out", tokenizer, taken.out);
    work w = {.ctx = ctx, .options = &taken, .file = -1};
    iso_status status;
    ISO_TRY(iso_agree(ctx, begin(&w, tokenizer)));
    ISO_TRY(write_file(&w));
    if (taken.tokens)
        *taken.tokens = (int64_t)w.tokens;
    if (taken.documents)
        *taken.documents = (int64_t)w.documents;
    if (taken.width)
        *taken.width = w.width;
done:
    end(&w);
    return status;
}
