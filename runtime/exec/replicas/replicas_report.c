/* After the replica check has found a difference: in which variables, on which hosts, and the first element
 * with its values. A copy is that of a memory domain; where each host is one domain, hosts are named, else domains
 * too. Nothing here is done unless copies differ. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/base/host.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/exec/replicas/replicas_impl.h"
#include "runtime/session/session.h"

enum { MOST_NAMED = 5, PATH = 512, UNIT_WORDS = ISO_SHARD_UNIT / 8 };

/* The entry of one rank for one box. */
typedef struct part {
    uint64_t key, digest;
    int rank, number; /* number: of the shard on its rank */
    int domain;
} part;

/* A box whose copies differ: parts[first] .. parts[first + count - 1]. */
typedef struct finding {
    int first, count;
} finding;

typedef struct report {
    iso_context *ctx;
    const iso_state_shards *shards;
    part *parts;
    finding *findings;
    int n_parts, n_findings;
    char *names; /* [ranks][ISO_HOST_NAME] of their machines */
    const iso_domains *domains;
    /* of one box: */
    uint64_t *digest; /* [domains] */
    bool *holds;      /* [domains] */
    bool majority;    /* more than half of its domains have the same copy */
    int reference;    /* the first of these domains; without a majority, the first of all */
    int same;         /* number of domains with the copy of the reference */
    int odd;          /* the first domain with another copy */
} report;

/* The description of a box, which a rank that holds it sends to the others. */
typedef struct description {
    char path[PATH];
    iso_dtype dtype;
    iso_shape shape;
    iso_box box;
} description;

/* Whether some host has several domains. */
static bool is_split(const report *r)
{
    for (int d = 1; d < r->domains->count; d++)
        if (r->domains->host[d] == r->domains->host[d - 1])
            return true;
    return false;
}

/* The word for the holders of copies in messages. */
static const char *holders_of(const report *r)
{
    return is_split(r) ? "memory domains" : "hosts";
}

/* ---- the parts of all ranks ---- */

static int by_key(const void *left, const void *right)
{
    const part *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->rank != b->rank ? a->rank - b->rank : a->number - b->number;
}

static iso_status list_own_parts(const report *r, part *mine, int64_t room)
{
    iso_status status = ISO_OK;
    for (int64_t i = 0; i < room; i++)
        mine[i] = (part){.rank = -1};
    for (int i = 0; i < r->shards->count; i++) {
        const iso_state_shard *shard = &r->shards->shards[i];
        uint64_t key = iso_replica_key(shard);
        mine[i] = (part){key, 0, iso_rank(r->ctx), i, shard->domain};
        ISO_TRY(iso_replica_digest(shard, key, &mine[i].digest));
    }
done:
    return status;
}

static iso_status replicas_make_room(report *r, int64_t most, part **mine)
{
    size_t ranks = (size_t)iso_ranks(r->ctx), domains = (size_t)r->domains->count;
    *mine = iso_new((size_t)(most + 1) * sizeof **mine);
    r->parts = iso_new((ranks * (size_t)most + 1) * sizeof *r->parts);
    r->names = iso_new(ranks * ISO_HOST_NAME);
    r->digest = iso_new(domains * sizeof *r->digest);
    r->holds = iso_new(domains * sizeof *r->holds);
    return *mine && r->parts && r->names && r->digest && r->holds
               ? ISO_OK
               : iso_error(ISO_NO_MEMORY,
                           "copies of variables differ between %s; there is no memory to find "
                           "out which",
                           holders_of(r));
}

/* Gathers the parts of all ranks, sorted by key, and the names of their machines. */
static iso_status gather_parts(report *r)
{
    char name[ISO_HOST_NAME];
    part *mine = NULL;
    int64_t most = r->shards->count;
    iso_status status;
    ISO_TRY(iso_all_reduce(r->ctx, ISO_REDUCE_MAX, ISO_I64, &most, 1));
    ISO_TRY(iso_agree(r->ctx, replicas_make_room(r, most, &mine)));
    ISO_TRY(iso_agree(r->ctx, list_own_parts(r, mine, most)));
    iso_host_name(name);
    ISO_TRY(iso_gather_all(r->ctx, name, sizeof name, r->names));
    ISO_TRY(iso_gather_all(r->ctx, mine, (size_t)most * sizeof *mine, r->parts));
    for (int64_t i = 0; i < most * iso_ranks(r->ctx); i++)
        if (r->parts[i].rank >= 0)
            r->parts[r->n_parts++] = r->parts[i];
    qsort(r->parts, (size_t)r->n_parts, sizeof *r->parts, by_key);
done:
    iso_free(mine);
    return status;
}

/* ---- which boxes differ ---- */

/* Fills digest and holds with the copies of a box. True: they differ. */
static bool add_digests(report *r, const finding *box)
{
    int domains = r->domains->count, first = r->parts[box->first].domain;
    bool differ = false;
    memset(r->digest, 0, (size_t)domains * sizeof *r->digest);
    memset(r->holds, 0, (size_t)domains * sizeof *r->holds);
    for (int i = box->first; i < box->first + box->count; i++) {
        int domain = r->parts[i].domain;
        r->holds[domain] = true;
        r->digest[domain] += r->parts[i].digest;
    }
    for (int domain = 0; domain < domains; domain++)
        differ = differ || (r->holds[domain] && r->digest[domain] != r->digest[first]);
    return differ;
}

/* Inserts a finding: those that the lowest ranks list first come first. */
static iso_status insert_finding(report *r, finding fresh)
{
    const part *parts = r->parts;
    iso_status status = iso_list_add(r->findings, r->n_findings, fresh, "variables that differ");
    if (status != ISO_OK)
        return status;
    int at = r->n_findings - 1;
    for (; at > 0; at--) {
        const part *mine = &parts[fresh.first], *other = &parts[r->findings[at - 1].first];
        if (other->rank < mine->rank || (other->rank == mine->rank && other->number < mine->number))
            break;
        r->findings[at] = r->findings[at - 1];
    }
    r->findings[at] = fresh;
    return ISO_OK;
}

static iso_status list_findings(report *r)
{
    iso_status status = ISO_OK;
    for (int first = 0, end; first < r->n_parts; first = end) {
        for (end = first + 1; end < r->n_parts && r->parts[end].key == r->parts[first].key;)
            end++;
        finding box = {first, end - first};
        if (add_digests(r, &box))
            ISO_TRY(insert_finding(r, box));
    }
done:
    return status;
}

/* Chooses the domains to compare: the copy that most domains have, or else the first, and the first other one. */
static void choose_copies(report *r, const finding *box)
{
    int domains = r->domains->count, holders = 0, best = 0;
    add_digests(r, box);
    for (int domain = 0; domain < domains; domain++) {
        int same = 0;
        for (int other = 0; other < domains && r->holds[domain]; other++)
            same += r->holds[other] && r->digest[other] == r->digest[domain];
        holders += r->holds[domain];
        if (same > best) {
            best = same;
            r->reference = domain;
        }
    }
    r->majority = 2 * best > holders;
    for (int domain = domains - 1; domain >= 0 && !r->majority; domain--)
        if (r->holds[domain])
            r->reference = domain;
    r->same = 0;
    for (int domain = domains - 1; domain >= 0; domain--) {
        bool same = r->digest[domain] == r->digest[r->reference];
        r->same += r->holds[domain] && same;
        if (r->holds[domain] && !same)
            r->odd = domain;
    }
}

static iso_status describe_box(const report *r, const finding *box, description *d)
{
    const part *first = &r->parts[box->first];
    memset(d, 0, sizeof *d);
    if (first->rank == iso_rank(r->ctx)) {
        const iso_state_shard *shard = &r->shards->shards[first->number];
        snprintf(d->path, sizeof d->path, "%s", shard->path);
        d->dtype = shard->dtype;
        d->shape = shard->shape;
        d->box = shard->box;
    }
    return iso_broadcast_from(r->ctx, first->rank, d, sizeof *d);
}

/* ---- the first element that differs ---- */

/* 0: the shard's domain is the reference, 1: it is the odd one, -1: neither, or it is a shard of another box. */
static int side_of(const report *r, const iso_state_shard *shard, uint64_t key)
{
    if (iso_replica_key(shard) != key)
        return -1;
    return shard->domain == r->reference ? 0 : shard->domain == r->odd ? 1 : -1;
}

/* Adds the digests of the units of the box that this rank lists. digest: [2][units] */
static iso_status add_unit_digests(const report *r, uint64_t key, int64_t units, uint64_t *digest)
{
    iso_mapping mapping;
    iso_status status = ISO_OK;
    for (int i = 0; i < r->shards->count; i++) {
        const iso_state_shard *shard = &r->shards->shards[i];
        iso_replica_units mine = iso_replica_units_of(shard);
        int side = side_of(r, shard, key);
        if (side < 0)
            continue;
        ISO_TRY(iso_map(shard->stream, shard->data, iso_shard_bytes(shard), &mapping));
        for (int64_t u = mine.first; u < mine.first + mine.count; u++)
            digest[side * units + u] = iso_replica_unit_digest(shard, mapping.data, key, u);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

/* The first unit of the box that differs between the two copies. */
static iso_status find_unit(const report *r, uint64_t key, int64_t units, int64_t *unit)
{
    void *memory = NULL;
    iso_status status = iso_agree(
        r->ctx, iso_alloc((size_t)units * 2 * sizeof(uint64_t), "the digests of two copies", &memory));
    if (status != ISO_OK)
        return status;
    uint64_t *digest = memory;
    ISO_TRY(iso_agree(r->ctx, add_unit_digests(r, key, units, digest)));
    ISO_TRY(iso_all_reduce(r->ctx, ISO_REDUCE_SUM, ISO_I64, digest, (size_t)units * 2));
    for (*unit = 0; *unit < units - 1 && digest[*unit] == digest[units + *unit];)
        ++*unit;
done:
    iso_free(memory);
    return status;
}

/* Copies the unit if this rank lists it. */
static iso_status copy_unit(const report *r, uint64_t key, int64_t unit, uint64_t words[2][UNIT_WORDS])
{
    iso_mapping mapping;
    iso_status status = ISO_OK;
    for (int i = 0; i < r->shards->count; i++) {
        const iso_state_shard *shard = &r->shards->shards[i];
        iso_replica_units mine = iso_replica_units_of(shard);
        int side = side_of(r, shard, key);
        if (side < 0 || unit < mine.first || unit >= mine.first + mine.count)
            continue;
        size_t bytes;
        const char *data = iso_replica_unit(shard, shard->data, unit, &bytes);
        ISO_TRY(iso_map(shard->stream, data, bytes, &mapping));
        memcpy(words[side], mapping.data, bytes);
        ISO_TRY(iso_unmap(ISO_OK, &mapping));
    }
done:
    return status;
}

/* The bytes of one unit in both copies. */
static iso_status read_unit(const report *r, uint64_t key, int64_t unit, uint64_t words[2][UNIT_WORDS])
{
    memset(words, 0, 2 * sizeof *words);
    iso_status status = iso_agree(r->ctx, copy_unit(r, key, unit, words));
    if (status != ISO_OK)
        return status;
    return iso_all_reduce(r->ctx, ISO_REDUCE_OR, ISO_I64, words, 2 * UNIT_WORDS);
}

/* "0.5 (0x3f000000)": the bits too, because other bits may be printed as the same number. */
static void add_value(iso_text *text, iso_dtype dtype, const void *data, int64_t i)
{
    size_t size = iso_dtype_size(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + (size_t)i * size, size);
    iso_text_add(text, "%.*g (0x%0*" PRIx64 ")", size > 4 ? 17 : 9, iso_element_get(data, dtype, i),
                 (int)(2 * size), bits);
}

/* "[12, 7]", or nothing for a scalar. */
static void add_index(iso_text *text, const description *d, int64_t i)
{
    int64_t index[ISO_MAX_RANK], at = iso_box_global_index(&d->box, &d->shape, i);
    for (int k = d->shape.rank - 1; k >= 0; k--) {
        index[k] = at % d->shape.dim[k];
        at /= d->shape.dim[k];
    }
    for (int k = 0; k < d->shape.rank; k++)
        iso_text_add(text, "%s%" PRId64, k ? ", " : " at [", index[k]);
    iso_text_add(text, d->shape.rank > 0 ? "]" : "");
}

/* Whether a rank is on the host of a domain and, where hosts have several, stores parts in this one. */
static bool is_of(const report *r, int rank, int domain)
{
    if (iso_host_of_rank(r->ctx, rank) != r->domains->host[domain])
        return false;
    for (int i = 0; is_split(r) && i < r->n_parts; i++)
        if (r->parts[i].rank == rank && r->parts[i].domain == domain)
            return true;
    return !is_split(r);
}

/* "host 1 (node2, ranks 2, 3)"; "memory domain 3 of host 1 (node2, ranks 2, 3)" */
static void add_host(const report *r, int domain, iso_text *text)
{
    int count = 0, first = 0;
    for (int rank = iso_ranks(r->ctx) - 1; rank >= 0; rank--)
        if (is_of(r, rank, domain)) {
            first = rank;
            count++;
        }
    if (is_split(r))
        iso_text_add(text, "memory domain %d of ", domain);
    iso_text_add(text, "host %d (%s, rank%s ", r->domains->host[domain],
                 r->names + (size_t)first * ISO_HOST_NAME, count > 1 ? "s" : "");
    for (int rank = first, listed = 0; rank < iso_ranks(r->ctx) && listed < 8; rank++)
        if (is_of(r, rank, domain))
            iso_text_add(text, "%s%d", listed++ ? ", " : "", rank);
    iso_text_add(text, count > 8 ? ", ...)" : ")");
}

static iso_status describe_element(const report *r, const finding *box, const description *d, iso_text *text)
{
    uint64_t words[2][UNIT_WORDS], key = r->parts[box->first].key;
    size_t size = iso_dtype_size(d->dtype);
    int64_t unit, bytes = iso_box_count(&d->box) * (int64_t)size, i = 0;
    int64_t each = ISO_SHARD_UNIT / (int64_t)size;
    iso_status status;
    ISO_TRY(find_unit(r, key, (bytes + ISO_SHARD_UNIT - 1) / ISO_SHARD_UNIT, &unit));
    ISO_TRY(read_unit(r, key, unit, words));
    while (i < each - 1 &&
           !memcmp((char *)words[0] + (size_t)i * size, (char *)words[1] + (size_t)i * size, size))
        i++;
    add_host(r, r->odd, text);
    iso_text_add(text, " has ");
    add_value(text, d->dtype, words[1], i);
    add_index(text, d, unit * each + i);
    iso_text_add(text, ", ");
    if (r->majority && r->same > 1)
        iso_text_add(text, "the %d other %s that agree have ", r->same, holders_of(r));
    else {
        add_host(r, r->reference, text);
        iso_text_add(text, " has ");
    }
    add_value(text, d->dtype, words[0], i);
done:
    return status;
}

/* ---- the message ---- */

/* The other holders whose copy of the first variable is not that of the reference. */
static void add_other_hosts(const report *r, iso_text *text)
{
    int domains = r->domains->count;
    for (int domain = r->odd + 1; domain < domains; domain++) {
        if (!r->holds[domain] || r->digest[domain] == r->digest[r->reference])
            continue;
        iso_text_add(text, "; ");
        add_host(r, domain, text);
        iso_text_add(text, " differs too");
    }
    if (!r->majority && domains > 2)
        iso_text_add(text, "; no copy is that of most %s", holders_of(r));
}

static iso_status add_other_variables(const report *r, iso_text *text)
{
    description d;
    iso_status status = ISO_OK;
    for (int i = 1; i < r->n_findings && i < MOST_NAMED; i++) {
        ISO_TRY(describe_box(r, &r->findings[i], &d));
        iso_text_add(text, "%s'%s'", i > 1 ? ", " : "; also different: ", d.path);
    }
    if (r->n_findings > MOST_NAMED)
        iso_text_add(text, " and %d more", r->n_findings - MOST_NAMED);
done:
    return status;
}

static iso_status compose(report *r, iso_text *text)
{
    description d;
    const finding *first = &r->findings[0];
    iso_status status;
    ISO_TRY(describe_box(r, first, &d));
    choose_copies(r, first);
    iso_text_add(text, "the copies of '%s' differ between %s: ", d.path, holders_of(r));
    ISO_TRY(describe_element(r, first, &d, text));
    add_other_hosts(r, text);
    ISO_TRY(add_other_variables(r, text));
done:
    return status;
}

iso_status iso_replicas_report(const iso_runtime *runtime, const iso_state_shards *shards)
{
    report r = {.ctx = runtime->ctx, .shards = shards, .domains = &runtime->domains};
    iso_text text = {0};
    iso_status status;
    ISO_TRY(gather_parts(&r));
    ISO_TRY(iso_agree(r.ctx, list_findings(&r)));
    if (r.n_findings > 0)
        ISO_TRY(compose(&r, &text));
    else
        iso_text_add(&text,
                     "copies of variables differ between %s, and were equal when they were compared again",
                     holders_of(&r));
    status = iso_error(ISO_FAILED, "%s", iso_text_get(&text));
done:
    iso_text_free(&text);
    iso_free(r.findings);
    iso_free(r.parts);
    iso_free(r.names);
    iso_free(r.digest);
    iso_free(r.holds);
    return status;
}
