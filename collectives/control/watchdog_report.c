/* The watchdog's report: which ranks are lost, and which collective each rank entered last. It is printed
 * with one write, so that it is not mixed with other output, and written to a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/control/watchdog_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

enum { MOST_LISTED = 256 };

void iso_watchdog_read_text(const iso_watchdog_record *record, uint64_t progress,
                            char text[ISO_WATCHDOG_TEXT])
{
    uint64_t words[ISO_WATCHDOG_WORDS];
    for (int i = 0; i < ISO_WATCHDOG_WORDS; i++)
        words[i] =
            atomic_load_explicit(&record->text[iso_watchdog_parity(progress)][i], memory_order_relaxed);
    memcpy(text, words, ISO_WATCHDOG_TEXT);
    text[ISO_WATCHDOG_TEXT - 1] = 0;
}

/* "in collective 17.3, a reshard" */
static void add_progress(iso_text *report, const iso_watchdog *w, int rank)
{
    char text[ISO_WATCHDOG_TEXT];
    uint64_t progress = w->peer[rank].progress;
    if (progress == 0) {
        iso_text_add(report, "before its first collective");
        return;
    }
    iso_watchdog_read_text(&w->page->record[rank], progress, text);
    iso_text_add(report, "%s collective %llu", iso_watchdog_inside(progress) ? "in" : "after",
                 (unsigned long long)iso_watchdog_sequence(progress));
    if (iso_watchdog_position(progress))
        iso_text_add(report, ".%u", iso_watchdog_position(progress));
    iso_text_add(report, ", %s", text);
}

static unsigned seconds_silent(const iso_watchdog *w, int rank)
{
    return iso_watchdog_is_local(w, rank) ? (unsigned)w->peer[rank].silent
                                          : atomic_load(&w->page->record[rank].silent);
}

static void add_health(iso_text *report, const iso_watchdog *w, int rank)
{
    static const struct {
        const char *text;
        bool silent; /* when it was last heard of follows, if that is known here */
        const char *cause;
    } texts[] = {
        [ISO_WATCHDOG_ALIVE] = {"is alive", false, ""},
        [ISO_WATCHDOG_SUSPECT] = {"is silent", true, ""},
        [ISO_WATCHDOG_DEAD] = {"has ended unexpectedly", false, ""},
        [ISO_WATCHDOG_STOPPED] = {"is stopped (by SIGSTOP or SIGTSTP)", false, ""},
        [ISO_WATCHDOG_SILENT] = {"does not respond", true, ""},
        [ISO_WATCHDOG_CUT] = {"cannot be reached", true,
                              ": its host or the network has failed, or all ranks there are stopped"},
    };
    iso_watchdog_health health = w->peer[rank].health;
    if (health == ISO_WATCHDOG_SUSPECT && iso_watchdog_is_paused(w, rank))
        health = ISO_WATCHDOG_STOPPED;
    unsigned seconds = seconds_silent(w, rank); /* 0 if another host watches the rank and answers */
    iso_text_add(report, "%s", texts[health].text);
    if (texts[health].silent && seconds > 0)
        iso_text_add(report, ", last heard of %u s ago", seconds);
    iso_text_add(report, "%s", texts[health].cause);
    if (health == ISO_WATCHDOG_ALIVE && atomic_load(&w->page->record[rank].phase) == ISO_WATCHDOG_CUT_OFF)
        iso_text_add(report, ", its GPUs cannot exchange any more");
}

/* "evaluator, " before the numbers of its ranks */
static void add_group(iso_text *report, const iso_watchdog_identity *who)
{
    if (*who->group_name)
        iso_text_add(report, "%s, ", who->group_name);
}

void iso_watchdog_add_rank(iso_text *report, const iso_watchdog *w, int rank)
{
    const iso_watchdog_identity *who = &w->identity[rank];
    add_group(report, who);
    iso_text_add(report, "rank %d on %s (", (int)who->group_rank, who->host);
    if (who->group_rank != rank)
        iso_text_add(report, "rank %d of the job, ", rank);
    iso_text_add(report, "process %d) ", (int)who->pid);
    add_health(report, w, rank);
    iso_text_add(report, ", ");
    add_progress(report, w, rank);
}

/* Lost ranks, or those that are left. */
static void add_ranks(iso_text *report, const iso_watchdog *w, bool lost)
{
    int left_out = 0, listed = 0;
    for (int rank = 0; rank < w->n_ranks; rank++) {
        if (iso_watchdog_is_lost(w, rank) != lost)
            continue;
        if (listed++ >= MOST_LISTED) {
            left_out++;
            continue;
        }
        iso_text_add(report, "isogrid:   ");
        iso_watchdog_add_rank(report, w, rank);
        iso_text_add(report, "\n");
    }
    if (left_out > 0)
        iso_text_add(report, "isogrid:   and %d more\n", left_out);
}

static void add_reason(iso_text *report, const iso_watchdog *w)
{
    const iso_watchdog_verdict *verdict = &w->verdict;
    int lost = 0;
    for (int rank = 0; rank < w->n_ranks; rank++)
        lost += iso_watchdog_is_lost(w, rank);
    if (verdict->reason == ISO_WATCHDOG_A_LOSS)
        iso_text_add(report, "%d of %d ranks %s lost", lost, w->n_ranks, lost == 1 ? "is" : "are");
    else if (verdict->reason == ISO_WATCHDOG_A_BREAK)
        iso_text_add(report, "GPUs cannot exchange any more");
    else if (verdict->reason == ISO_WATCHDOG_A_MISMATCH) {
        const iso_watchdog_identity *one = &w->identity[verdict->first], *two = &w->identity[verdict->other];
        add_group(report, one);
        iso_text_add(report, "ranks %d and %d have called different collectives", (int)one->group_rank,
                     (int)two->group_rank);
    } else
        iso_text_add(report, "no progress for %.0f seconds (--timeout-abort)", iso_watchdog_longest_wait(w));
}

static void compose(iso_text *report, const iso_watchdog *w)
{
    iso_text_add(report, "isogrid: error: ");
    add_reason(report, w);
    if (w->ends_process)
        iso_text_add(report, "; the job ends with exit code %d\n", ISO_WATCHDOG_LOST);
    else
        iso_text_add(report, "; calls of Isogrid return this error\n");
    add_ranks(report, w, true);
    add_ranks(report, w, false);
}

void iso_watchdog_name_job(const char *other, char job[ISO_WATCHDOG_JOB])
{
    const char *names[] = {getenv("ISOGRID_JOB"), getenv("SLURM_JOB_ID"), getenv("OMPI_MCA_isogrid_job"),
                           other};
    *job = 0;
    for (int i = 0; i < 4 && !*job; i++)
        if (names[i] && strlen(names[i]) < ISO_WATCHDOG_JOB && !strpbrk(names[i], "/ \n"))
            snprintf(job, ISO_WATCHDOG_JOB, "%s", names[i]);
}

static bool write_file(const char *path, const char *text, size_t length)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0)
        return false;
    bool good = iso_file_write(file, text, length);
    close(file);
    if (!good)
        unlink(path);
    return good;
}

bool iso_watchdog_write_report(const char *job, const char *host, const char *text, size_t length, char *path,
                               size_t size)
{
    const char *folders[] = {getenv("ISOGRID_REPORTS"), ".", getenv("TMPDIR"), "/tmp"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (!folders[i] || !*folders[i])
            continue;
        snprintf(path, size, "%s/isogrid-report.%s.%s.txt", folders[i], job, host);
        if (write_file(path, text, length))
            return true;
    }
    return false;
}

static bool store(const iso_watchdog *w, const char *text, size_t length, char *path, size_t size)
{
    return iso_watchdog_write_report(w->job, w->identity[w->rank].host, text, length, path, size);
}

void iso_watchdog_store_report(const iso_watchdog *w, const char *text, size_t length)
{
    char path[1024];
    (void)store(w, text, length, path, sizeof path); /* if it cannot be written, the printed one remains */
}

void iso_watchdog_keep_loss(iso_watchdog *w, const char *report)
{
    static const char prefix[] = "isogrid: error: ";
    if (atomic_exchange(&w->page->kept, 1))
        return;
    if (!strncmp(report, prefix, sizeof prefix - 1))
        report += sizeof prefix - 1;
    snprintf(w->page->loss, sizeof w->page->loss, "%.*s", (int)strcspn(report, "\n"), report);
}

void iso_watchdog_report(iso_watchdog *w)
{
    iso_text report = {0};
    char path[1024];
    compose(&report, w);
    size_t length = report.length;
    iso_watchdog_keep_loss(w, iso_text_get(&report));
    if (store(w, iso_text_get(&report), report.length, path, sizeof path))
        iso_text_add(&report, "isogrid:   this report is also in %s%s\n", path,
                     w->n_hosts > 1 ? ", and on each host that can be reached" : "");
    else
        iso_text_add(&report, "isogrid:   this report could not be written to a file: %s\n", strerror(errno));
    iso_file_write(STDERR_FILENO, iso_text_get(&report), report.length);
    atomic_store(&w->page->reported, 1);
    iso_watchdog_links_report(w, iso_text_get(&report), length);
    iso_text_free(&report);
}
