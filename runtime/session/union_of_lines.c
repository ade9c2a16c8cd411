#include "runtime/session/union_of_lines.h"

#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"

/* Adds to `all` the lines that it does not have. */
static void add_lines(iso_text *all, char *lines)
{
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        iso_text with_end = {0};
        iso_text_add(&with_end, "\n%s\n", line);
        if (!strstr(iso_text_get(all), iso_text_get(&with_end)))
            iso_text_add(all, "%s\n", line);
        iso_text_free(&with_end);
    }
}

/* The lowest rank that has a line which `all` lacks; else the number of ranks. */
static iso_status find_rank(iso_context *ctx, const char *what, const iso_text *all, const char *lines,
                            int64_t *rank)
{
    iso_text more = {0};
    char *copy = iso_strdup(lines);
    iso_status status = iso_agree(ctx, copy ? ISO_OK : iso_no_memory("%s", what));
    iso_text_add(&more, "%s", iso_text_get(all));
    if (status == ISO_OK)
        add_lines(&more, copy);
    *rank = more.length > all->length ? iso_rank(ctx) : iso_ranks(ctx);
    iso_text_free(&more);
    iso_free(copy);
    return status == ISO_OK ? iso_all_reduce(ctx, ISO_REDUCE_MIN, ISO_I64, rank, 1) : status;
}

/* Adds the lines of one rank on all. */
static iso_status add_lines_of(iso_context *ctx, int root, const char *what, const char *lines, iso_text *all)
{
    char *copy = NULL;
    size_t size = strlen(lines);
    iso_status status = ISO_OK;
    ISO_TRY(iso_broadcast_from(ctx, root, &size, sizeof size));
    copy = iso_new(size + 1);
    ISO_TRY(iso_agree(ctx, copy ? ISO_OK : iso_no_memory("%s", what)));
    if (iso_rank(ctx) == root)
        memcpy(copy, lines, size);
    ISO_TRY(iso_broadcast_from(ctx, root, copy, size));
    add_lines(all, copy);
    ISO_TRY(iso_agree(ctx, all->failed ? iso_no_memory("%s", what) : ISO_OK));
done:
    iso_free(copy);
    return status;
}

iso_status iso_union_of_lines(iso_context *ctx, const char *what, const iso_text *own, iso_text *all)
{
    iso_status status = ISO_OK;
    int64_t rank = 0;
    ISO_TRY(iso_agree(ctx, own->failed ? iso_no_memory("%s", what) : ISO_OK));
    iso_text_add(all, "\n");
    for (;;) {
        ISO_TRY(find_rank(ctx, what, all, iso_text_get(own), &rank));
        if (rank == iso_ranks(ctx))
            break;
        ISO_TRY(add_lines_of(ctx, (int)rank, what, iso_text_get(own), all));
    }
done:
    return status;
}
