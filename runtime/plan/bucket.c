#include "runtime/plan/bucket.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"

/* Parts begin at multiples of CUT elements, members at multiples of a cache line. */
enum { CUT = 256, MEMBER_ALIGN = 16 };

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

int iso_group_slots(const iso_mesh *mesh, uint32_t axes, int slot, int *slots)
{
    int count = 1;
    for (int a = 0; a < mesh->n_axes; a++)
        if (axes & 1u << a)
            slot = iso_mesh_with_coordinate(mesh, slot, a, 0);
    slots[0] = slot;
    for (int a = mesh->n_axes - 1; a >= 0;
         a--) { /* row-major: the last axis varies fastest, so the list stays in order */
        if (!(axes & 1u << a))
            continue;
        int before = count;
        for (int c = 1; c < mesh->size[a]; c++)
            for (int i = 0; i < before; i++)
                slots[count++] = iso_mesh_with_coordinate(mesh, slots[i], a, c);
    }
    return count;
}

int iso_group_count(const iso_mesh *mesh, uint32_t axes, int slot, int *index)
{
    int count = 1;
    *index = 0;
    for (int a = 0; a < mesh->n_axes; a++)
        if (axes & 1u << a) {
            *index = *index * mesh->size[a] + iso_mesh_coordinate(mesh, slot, a);
            count *= mesh->size[a];
        }
    return count;
}

int iso_group_slot(const iso_mesh *mesh, uint32_t axes, int slot, int index)
{
    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        if (!(axes & 1u << a))
            continue;
        slot = iso_mesh_with_coordinate(mesh, slot, a, index % mesh->size[a]);
        index /= mesh->size[a];
    }
    return slot;
}

void iso_bucket_part(const iso_bucket *bucket, const iso_mesh *mesh, int slot, int64_t *begin, int64_t *count)
{
    int index;
    iso_group_count(mesh, bucket->axes, slot, &index);
    int64_t first = bucket->part * index;
    *begin = first < bucket->total ? first : bucket->total;
    *count = bucket->total - *begin < bucket->part ? bucket->total - *begin : bucket->part;
}

static const iso_optimizer *optimizer_of(const iso_program_change *change)
{
    return &((const iso_apply_attrs *)change->apply->attrs)->optimizer;
}

static bool belongs(const iso_bucket *bucket, const iso_program *program, const iso_program_change *change)
{
    return bucket->dtype == change->variable->dtype &&
           bucket->axes == program->values[change->value].layout.partial &&
           program->changes[bucket->members[0].change].apply->inputs[2] ==
               change->apply->inputs[2] && /* one count of iterations */
           iso_optimizer_equal(bucket->optimizer, optimizer_of(change));
}

static iso_status find_bucket(const iso_program *program, const iso_program_change *change,
                              iso_bucket_list *list, iso_bucket **found)
{
    for (int i = 0; i < list->count; i++)
        if (belongs(&list->buckets[i], program, change)) {
            *found = &list->buckets[i];
            return ISO_OK;
        }
    iso_bucket *bucket = &list->buckets[list->count];
    *bucket = (iso_bucket){.dtype = change->variable->dtype,
                           .optimizer = optimizer_of(change),
                           .axes = program->values[change->value].layout.partial,
                           .group = 1,
                           .kind = list->count};
    for (int a = 0; a < program->mesh->n_axes; a++)
        bucket->group *= bucket->axes & 1u << a ? program->mesh->size[a] : 1;
    void *memory;
    iso_status status =
        iso_alloc((size_t)program->n_changes * sizeof(iso_bucket_member), "a bucket of variables", &memory);
    if (status != ISO_OK)
        return status;
    bucket->members = memory;
    list->count++;
    *found = bucket;
    return ISO_OK;
}

static void add_member(const iso_program *program, int number, iso_bucket *bucket)
{
    const iso_program_change *change = &program->changes[number];
    iso_bucket_member *member = &bucket->members[bucket->n_members++];
    *member = (iso_bucket_member){.change = number,
                                  .variable = change->variable,
                                  .layout = program->variable_layout[change->variable->id],
                                  .update = program->update_layout[change->variable->id]};
    member->capacity =
        round_up(iso_layout_largest(program->mesh, &member->update, &change->variable->shape), MEMBER_ALIGN);
}

/* ---- splitting ---- */

static int64_t bucket_elements(const iso_bucket *bucket)
{
    int64_t elements = 0;
    for (int m = 0; m < bucket->n_members; m++)
        elements += bucket->members[m].capacity;
    return elements;
}

/* The step of the program that computes a member's gradient; those that no step computes come last. */
static int gradient_step(const iso_program *program, const iso_bucket_member *member)
{
    int step = program->values[program->changes[member->change].value].step;
    return step < 0 ? program->n_steps : step;
}

static int by_step(const void *a, const void *b, void *program)
{
    const iso_bucket_member *one = a, *other = b;
    int step = gradient_step(program, one), others = gradient_step(program, other);
    return step != others ? (step > others) - (step < others) : one->change - other->change;
}

/* Sorts the members by the order in which their gradients are computed; gradients of one program step by the order
 * of the variables. */
static void sort_members(const iso_program *program, iso_bucket *bucket)
{
    qsort_r(bucket->members, (size_t)bucket->n_members, sizeof *bucket->members, by_step, (void *)program);
}

/* Moves the members from `first` on to a new bucket. */
static iso_status cut_bucket(iso_bucket_list *list, int number, int first)
{
    iso_bucket *bucket = &list->buckets[number], *rest = &list->buckets[list->count];
    int members = bucket->n_members - first;
    void *memory;
    iso_status status =
        iso_alloc((size_t)members * sizeof(iso_bucket_member), "a bucket of variables", &memory);
    if (status != ISO_OK)
        return status;
    *rest = *bucket;
    rest->members = memcpy(memory, bucket->members + first, (size_t)members * sizeof(iso_bucket_member));
    rest->n_members = members;
    bucket->n_members = first;
    list->count++;
    return ISO_OK;
}

/* Cuts before a gradient with which the bucket would be too full, unless it is not yet half full. */
static iso_status split_bucket(const iso_program *program, iso_bucket_list *list, int number)
{
    int64_t element = (int64_t)iso_dtype_size(list->buckets[number].dtype), bytes = 0;
    int64_t full = bucket_elements(&list->buckets[number]) * element / ISO_BUCKETS_OF_A_KIND;
    full = full > ISO_BUCKET_BYTES ? full : ISO_BUCKET_BYTES;
    iso_status status = ISO_OK;
    sort_members(program, &list->buckets[number]);
    for (int m = 0; m < list->buckets[number].n_members; m++) {
        int64_t more = list->buckets[number].members[m].capacity * element;
        if (bytes >= full / 2 && bytes + more > full) {
            ISO_TRY(cut_bucket(list, number, m));
            number = list->count - 1;
            bytes = m = 0;
        }
        bytes += more;
    }
done:
    return status;
}

static void lay_out(iso_bucket *bucket)
{
    for (int m = 0; m < bucket->n_members; m++) {
        bucket->members[m].offset = bucket->total;
        bucket->total += bucket->members[m].capacity;
    }
    bucket->part = round_up((bucket->total + bucket->group - 1) / bucket->group, CUT);
}

/* ---- runs ---- */

/* The number of elements of `part` that are contiguous in `whole`, which contains it: the inner dimensions
 * that it has in full, times what it has of the next one. */
static int64_t together(const iso_box *whole, const iso_box *part)
{
    int64_t count = 1;
    for (int d = part->rank - 1; d >= 0; d--) {
        count *= part->extent[d];
        if (part->extent[d] != whole->extent[d])
            break;
    }
    return count;
}

/* The index in `whole` of element `index` of `part`. */
static int64_t bucket_index_of(const iso_box *whole, const iso_box *part, int64_t index)
{
    int64_t at = 0, stride = 1;
    for (int d = part->rank - 1; d >= 0; d--) {
        at += (index % part->extent[d] + part->offset[d] - whole->offset[d]) * stride;
        index /= part->extent[d];
        stride *= whole->extent[d];
    }
    return at;
}

iso_status iso_bucket_visit_runs(const iso_bucket *bucket, const iso_bucket_member *member,
                                 const iso_mesh *mesh, int slot, iso_bucket_run_visit visit, void *arg)
{
    int64_t part, size;
    iso_status status = ISO_OK;
    iso_bucket_part(bucket, mesh, slot, &part, &size);
    if (part >= member->offset + member->capacity || part + size <= member->offset)
        return ISO_OK;
    iso_box whole = iso_layout_box(mesh, &member->layout, &member->variable->shape, slot);
    iso_box box = iso_layout_box(mesh, &member->update, &member->variable->shape, slot);
    int64_t first = part > member->offset ? part - member->offset : 0, end = part + size - member->offset;
    end = end < iso_box_count(&box) ? end : iso_box_count(&box);
    int64_t length = together(&whole, &box);
    while (first < end) {
        int64_t stop = (first / length + 1) * length;
        stop = stop < end ? stop : end;
        iso_bucket_run run = {.begin = member->offset + first,
                              .count = stop - first,
                              .first = first,
                              .at = bucket_index_of(&whole, &box, first)};
        ISO_TRY(visit(arg, &run));
        first = stop;
    }
done:
    return status;
}

void iso_bucket_add_name(const iso_bucket *bucket, iso_text *text)
{
    iso_text_add(text, "%s", bucket->members[bucket->n_members - 1].variable->path);
    if (bucket->n_members > 1)
        iso_text_add(text, " and %d more", bucket->n_members - 1);
}

iso_status iso_buckets_create(const iso_program *program, bool split, iso_bucket_list *list)
{
    void *memory;
    iso_bucket *bucket;
    *list = (iso_bucket_list){0};
    iso_status status = ISO_OK;
    ISO_TRY(iso_alloc(((size_t)program->n_changes + 1) * sizeof(iso_bucket), "the buckets of a function",
                      &memory));
    list->buckets = memory;
    for (int i = 0; i < program->n_changes; i++) {
        if (!program->changes[i].apply)
            continue;
        ISO_TRY(find_bucket(program, &program->changes[i], list, &bucket));
        add_member(program, i, bucket);
    }
    list->kinds = list->count;
    for (int i = 0; split && i < list->kinds; i++)
        ISO_TRY(split_bucket(program, list, i));
    for (int i = 0; i < list->count; i++)
        lay_out(&list->buckets[i]);
done:
    if (status != ISO_OK)
        iso_buckets_destroy(list);
    return status;
}

void iso_buckets_destroy(iso_bucket_list *list)
{
    for (int i = 0; i < list->count; i++)
        iso_free(list->buckets[i].members);
    iso_free(list->buckets);
    *list = (iso_bucket_list){0};
}

bool iso_buckets_accumulate(const iso_bucket_list *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->buckets[i].optimizer->accumulation <= 1)
            return false;
    return list->count > 0;
}
