/* The file operations of a save's threads: write, commit, discard. */
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/saver.h"
#include "runtime/checkpoint/write/saver_impl.h"

void iso_save_outcome_set(iso_saver *saver, iso_save_outcome *outcome, iso_status status)
{
    *outcome = (iso_save_outcome){.status = (int32_t)status, .rank = saver->rank};
    if (status != ISO_OK)
        snprintf(outcome->text, sizeof outcome->text, "%s", iso_error_message());
}

/* ---- writing ---- */

/* Reserves the space, so that a full disk is noticed at once. */
static iso_status commit_reserve(const iso_saver *saver)
{
    const iso_commit_record *record = &saver->layout.record;
    return iso_file_reserve(saver->file, saver->path.temporary,
                            record->hdf5_bytes + iso_commit_record_bytes(record->n_tensors));
}

/* Opens the file in which this rank writes. The chief has made it before the other ranks look for it. */
static iso_status commit_open(iso_saver *saver)
{
    const iso_save_outcome *made = &saver->mine->outcome;
    if (saver->rank != 0)
        return iso_temporary_open(saver->path.temporary, &saver->file);
    return made->status == ISO_OK ? commit_reserve(saver)
                                  : iso_error((iso_status)made->status, "%s", made->text);
}

void iso_save_make_file(iso_saver *saver)
{
    iso_save_outcome_set(saver, &saver->mine->outcome,
                         iso_temporary_make(saver->path.temporary, &saver->file));
}

iso_status iso_save_begin_file(iso_saver *saver)
{
    iso_status status = commit_open(saver);
    if (status == ISO_OK)
        status = iso_file_layout_write(&saver->layout, saver->file, saver->path.temporary);
    if (status == ISO_OK)
        status = iso_file_end_at(saver->file, saver->path.temporary, saver->layout.record.hdf5_bytes);
    return status;
}

iso_status iso_save_sync(iso_saver *saver)
{
    iso_status status = ISO_OK;
    if (saver->file < 0)
        status = iso_temporary_open(saver->path.temporary, &saver->file);
    if (status == ISO_OK)
        status = iso_file_sync(saver->file, saver->path.temporary);
    if (saver->rank != 0 && saver->file >= 0) {
        if (close(saver->file) && status == ISO_OK)
            status = iso_file_failed(saver->path.temporary, "closing failed");
        saver->file = -1;
    }
    return status;
}

static iso_status commit_write_part(iso_saver *saver, const iso_save_part *part)
{
    return iso_save_part_write(part, &saver->layout.record, saver->file, saver->path.temporary,
                               saver->mine->crc);
}

static iso_status write_own(iso_saver *saver)
{
    iso_status status = ISO_OK;
    ISO_TRY(commit_open(saver));
    for (int i = 0; i < saver->parts.count; i++)
        if (!saver->parts.parts[i].leaves)
            ISO_TRY(commit_write_part(saver, &saver->parts.parts[i]));
done:
    return status;
}

/* Received parts are taken even if they can no longer be written: other ranks wait for this one. */
static iso_status write_received(iso_saver *saver, iso_status status)
{
    iso_save_part window;
    while (iso_two_phase_take(&saver->two_phase, !saver->has_thread, &window))
        if (status == ISO_OK)
            status = commit_write_part(saver, &window);
    return status;
}

void iso_save_write(iso_saver *saver)
{
    iso_status status = write_received(saver, write_own(saver));
    if (status == ISO_OK)
        status = iso_save_sync(saver);
    if (status != ISO_OK && saver->file >= 0) {
        close(saver->file);
        saver->file = -1;
    }
    iso_save_outcome_set(saver, &saver->mine->outcome, status);
}

/* ---- committing ---- */

static iso_status commit(iso_saver *saver)
{
    iso_commit_record *record = &saver->layout.record;
    iso_status status = ISO_OK;
    for (int t = 0; t < record->n_tensors; t++)
        record->tensors[t].crc = saver->all->crc[t];
    iso_file_layout_set_crcs(&saver->layout);
    ISO_TRY(iso_file_layout_write(&saver->layout, saver->file, saver->path.temporary));
    ISO_TRY(iso_commit_record_write(saver->file, saver->path.temporary, record));
    ISO_TRY(iso_file_sync(saver->file, saver->path.temporary));
    ISO_TRY(iso_temporary_check(saver->path.temporary, saver->file));
    /* A file that is not one of a series is the only one: it is kept under another name. */
    ISO_TRY(iso_file_take_name(saver->path.temporary, saver->path.whole, saver->options.no_latest));
    /* The file now counts for rotation, even if a power failure may still undo the rename. */
    ISO_TRY(iso_kept_add(&saver->kept, saver->path.folder, saver->path.name));
    ISO_TRY(iso_folder_sync(saver->path.folder));
done:
    return status;
}

/* Failures from here on lose no checkpoint: they are reported, and the next save repeats these steps. */
static void commit_note(iso_text *notes, iso_status status)
{
    if (status != ISO_OK)
        iso_text_add(notes, "%s%s", notes->length ? "; " : "", iso_error_message());
}

static void tidy(iso_saver *saver, iso_text *notes)
{
    const iso_path *path = &saver->path;
    if (saver->best)
        commit_note(notes, iso_kept_set_best(&saver->kept, path->folder, path->name));
    commit_note(notes, iso_kept_point_best(&saver->kept, saver->id));
    if (!saver->options.no_latest)
        commit_note(notes, iso_folder_point(path->folder, "latest", saver->id, path->name));
    commit_note(notes, iso_kept_rotate(&saver->kept, saver->options.keep));
}

void iso_save_commit(iso_saver *saver)
{
    iso_text notes = {0};
    saver->outcome = saver->all->outcome;
    if (saver->outcome.status == ISO_OK)
        iso_save_outcome_set(saver, &saver->outcome, commit(saver));
    if (saver->outcome.status == ISO_OK)
        tidy(saver, &notes);
    else
        unlink(saver->path.temporary);
    if (saver->file >= 0)
        close(saver->file);
    saver->file = -1;
    iso_folder_remove_stale(saver->path.folder);
    if (notes.length)
        snprintf(saver->outcome.text, sizeof saver->outcome.text, "%s", notes.data);
    iso_text_free(&notes);
}
