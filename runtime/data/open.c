/* Resolves the name of a data set: a built-in data set, a folder or a file. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "collectives/control/control.h"
#include "runtime/base/arguments.h"
#include "runtime/base/hash.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_modes.h"
#include "runtime/data/dataset_impl.h"
#include "runtime/data/open_impl.h"
#include "runtime/data/tokens.h"
#include "runtime/session/session.h"

uint64_t iso_file_identity(const char *path, uint64_t hash)
{
    struct stat about;
    hash = iso_hash_text(hash, path);
    if (stat(path, &about) == 0) {
        int64_t words[] = {about.st_size, about.st_mtim.tv_sec, about.st_mtim.tv_nsec};
        hash = iso_hash_bytes(hash, words, sizeof words);
    }
    return hash;
}

static iso_status open_unknown(const char *name)
{
    const char *names[16];
    int count = iso_dataset_count() < 16 ? iso_dataset_count() : 16;
    iso_text text = {0};
    for (int i = 0; i < count; i++)
        names[i] = iso_dataset_name(i);
    iso_text_add_nearest(&text, name, names, count);
    iso_status status =
        iso_error(ISO_INVALID, "data set '%s' is not built in, and there is no such folder or file%s", name,
                  iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

typedef struct request {
    const char *name;
    iso_part part;
    uint64_t seed;
    const iso_dataset_open_options *options;
} request;

/* The message names IDX files, which users of text may not know. */
static iso_status open_folder(const request *r, iso_node **node)
{
    iso_status status = iso_open_folder(r->name, r->part, r->name, node);
    if (status == ISO_OK || r->options->context == 0)
        return status;
    return iso_error_prefix(status, "'%s' is a folder (text and tokens are read from files): ", r->name);
}

static iso_status open_source(const void *arguments, bool checked, iso_node **node)
{
    const request *r = arguments;
    struct stat about;
    const iso_builtin *builtin = iso_builtin_find(r->name);
    if (builtin)
        return builtin->open(r->part, r->seed, node);
    if (stat(r->name, &about) != 0)
        return errno == ENOENT ? open_unknown(r->name)
                               : iso_error(ISO_INVALID, "data set '%s': %s", r->name, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return open_folder(r, node);
    if (S_ISREG(about.st_mode) && iso_is_token_file(r->name, r->options->context))
        return iso_open_tokens(r->name, r->options, checked, node);
    if (S_ISREG(about.st_mode))
        return iso_open_hdf5(r->name, r->options, node);
    return iso_error(ISO_INVALID, "data set '%s' is neither a folder nor a file", r->name);
}

static iso_status check_request(const request *r)
{
    if (!r->name || !*r->name)
        return iso_error(ISO_INVALID, "the name of the data set is missing");
    if (r->part != ISO_TRAIN && r->part != ISO_TEST)
        return iso_error(ISO_INVALID, "data set '%s': there is no part %d", r->name, r->part);
    return ISO_OK;
}

/* Maybe only one rank of a host reads the file, so all ranks must ask for the same data. Collective. */
static iso_status agree_on(iso_context *ctx, const request *r)
{
    iso_status status = iso_agree(ctx, check_request(r));
    if (status != ISO_OK)
        return status;
    const iso_dataset_open_options *o = r->options;
    iso_text text = {0};
    iso_text_add(&text,
                 "'%s', part %d, x '%s', y '%s', sample_weight '%s', memory_limit %zu, context %" PRId64
                 ", vocabulary %" PRId64 ", tokenizer '%s'%s",
                 r->name, r->part, o->x ? o->x : "", o->y ? o->y : "",
                 o->sample_weight ? o->sample_weight : "", o->memory_limit, o->context, o->vocabulary,
                 o->tokenizer ? o->tokenizer : "", o->no_targets ? ", no targets" : "");
    status = iso_agree_same_text(ctx, "the data set to open", iso_text_get(&text));
    iso_text_free(&text);
    return status;
}

iso_status iso_dataset_open_with(iso_context *ctx, const char *name, iso_part part,
                                 const iso_dataset_open_options *options, size_t size)
{
    ISO_DEFAULT_MODES();
    iso_dataset_open_options taken = {0};
    iso_node *node = NULL;
    iso_dataset *ds = NULL;
    iso_options_copy(&taken, sizeof taken, options, size);
    ISO_NEED_AGREED_AS(ctx, "name, dataset", name, taken.dataset);
    request wanted = {name, part, iso_seed(ctx), &taken};
    iso_status status = agree_on(ctx, &wanted);
    if (status == ISO_OK)
        status = iso_host_shared_open(ctx, name, &(iso_opener){open_source, &wanted}, &node);
    if (status != ISO_OK)
        return status;
    status = iso_dataset_agree(ctx, iso_dataset_create(ctx, node, &ds), "the data set", &ds);
    if (status == ISO_OK)
        *taken.dataset = ds;
    return status;
}
