/* The list of --devices: the rank of each slot, in the order of the mesh. */
#include <ctype.h>
#include <stdlib.h>

#include "runtime/base/arguments.h"
#include "runtime/base/memory.h"
#include "runtime/spmd/spmd_impl.h"

/* Ranks from `first` to `last`, ascending or descending, each `times` times. */
typedef struct item {
    int first, last;
    int64_t times;
} item;

static iso_status bad_list(const char *text, const char *at, const char *what)
{
    return iso_error(ISO_INVALID,
                     "%s at position %d; expected the rank of each slot, for example 0,1,2,3 or 0-3,0-3 or "
                     "0x4,1x4",
                     what, (int)(at - text) + 1);
}

/* A number at *at, and the spaces after it. */
static iso_status parse_number(const char *text, const char **at, const char *what, int *number)
{
    char *end;
    const char *begin = iso_skip_space(*at);
    long read = isdigit((unsigned char)*begin) ? strtol(begin, &end, 10) : -1;
    if (read < 0)
        return bad_list(text, begin, what);
    if (read > ISO_MOST_SLOTS)
        return bad_list(text, begin, "a number that is too large");
    *number = (int)read;
    *at = iso_skip_space(end);
    return ISO_OK;
}

/* "3", "0-3", "3-0", "2x4" at *at. */
static iso_status parse_item(const char *text, const char **at, item *out)
{
    iso_status status = ISO_OK;
    int times = 1;
    ISO_TRY(parse_number(text, at, "no rank", &out->first));
    out->last = out->first;
    if (**at == '-') {
        ++*at;
        ISO_TRY(parse_number(text, at, "no rank after '-'", &out->last));
    } else if (**at == 'x') {
        const char *begin = ++*at;
        ISO_TRY(parse_number(text, at, "no number of slots after 'x'", &times));
        if (times == 0)
            ISO_TRY(bad_list(text, begin, "no slot"));
    }
    out->times = times;
done:
    return status;
}

/* Writes the list to `list` (NULL: only counts). */
static iso_status parse(const char *text, int *list, int64_t *count)
{
    const char *at = text;
    *count = 0;
    for (;;) {
        item i;
        iso_status status = parse_item(text, &at, &i);
        if (status != ISO_OK)
            return status;
        int64_t ranks = (i.last > i.first ? (int64_t)i.last - i.first : (int64_t)i.first - i.last) + 1;
        if (*count + ranks * i.times > ISO_MOST_SLOTS)
            return iso_error(ISO_INVALID, "more than %d slots", ISO_MOST_SLOTS);
        for (int64_t k = 0; list && k < ranks * i.times; k++)
            list[*count + k] = i.last > i.first ? i.first + (int)(k / i.times) : i.first - (int)(k / i.times);
        *count += ranks * i.times;
        if (*at == 0)
            return ISO_OK;
        if (*at != ',')
            return bad_list(text, at, "neither ',' nor the end");
        at++;
    }
}

iso_status iso_devices_parse(const char *text, int **rank_of_slot, int *count)
{
    int64_t n = 0;
    void *list = NULL;
    iso_status status = ISO_OK;
    ISO_NEED(text, rank_of_slot, count);
    ISO_TRY(parse(text, NULL, &n));
    ISO_TRY(iso_alloc((size_t)n * sizeof(int), "the ranks of slots", &list));
    ISO_TRY(parse(text, list, &n));
    *rank_of_slot = list;
    *count = (int)n;
    return ISO_OK;
done:
    iso_free(list);
    return iso_error_prefix(status, "--devices '%s': ", text);
}
