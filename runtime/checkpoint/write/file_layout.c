#include "runtime/checkpoint/write/file_layout_impl.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/base/memory.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"
#include "runtime/checkpoint/hdf5/memory_driver_impl.h"
#include "runtime/checkpoint/saver.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "files are little-endian, and written as memory is");

enum {
    LEAST_STATE = 4096, /* least bytes for the state's text */
    PAGE = 4096,        /* tensors of at least LARGE bytes begin at a page */
    LARGE = 64 << 10,
    LEAST_BLOCK = 4096,
    MOST_BLOCK = 1 << 20, /* largest block of metadata, which keeps metadata together */
    BYTES_A_TENSOR = 768, /* of metadata, roughly */
    BYTES_A_GROUP = 1280,
};

/* A file that is being laid out. */
typedef struct maker {
    iso_memory_file *memory; /* the file */
    hid_t file, n_links, text, scalar, create;
    const iso_file_spec *spec;
    iso_file_layout *layout;
    uint64_t state, crcs; /* file offsets of these datasets */
} maker;

static iso_status hdf5_failed(const char *h5_path)
{
    return iso_hdf5_failed(h5_path, "it cannot be laid out in a file");
}

/* ---- groups ---- */

static iso_status put_name(const maker *m, hid_t group, const iso_saved_group *about)
{
    hid_t name = H5Acreate2(group, "name", m->text, m->scalar, H5P_DEFAULT, H5P_DEFAULT);
    bool good = name >= 0 && H5Awrite(name, m->text, &about->name) >= 0;
    iso_status status = good ? ISO_OK : hdf5_failed(about->h5_path);
    if (name >= 0)
        H5Aclose(name);
    return status;
}

/* The group may exist already, as the parent of an earlier one. */
static iso_status make_group(const maker *m, const iso_saved_group *about)
{
    hid_t group;
    H5E_BEGIN_TRY group = H5Gopen2(m->file, about->h5_path, H5P_DEFAULT);
    H5E_END_TRY
    if (group < 0)
        group = H5Gcreate2(m->file, about->h5_path, m->n_links, H5P_DEFAULT, H5P_DEFAULT);
    iso_status status = group < 0 ? hdf5_failed(about->h5_path) : ISO_OK;
    if (status == ISO_OK && about->name)
        status = put_name(m, group, about);
    if (group >= 0)
        H5Gclose(group);
    return status;
}

/* ---- datasets ---- */

/* One byte, as h5py stores booleans. */
static hid_t bool_type(void)
{
    hid_t type = H5Tenum_create(H5T_STD_I8LE);
    const signed char no = 0, yes = 1;
    if (type >= 0 && (H5Tenum_insert(type, "FALSE", &no) < 0 || H5Tenum_insert(type, "TRUE", &yes) < 0)) {
        H5Tclose(type);
        type = -1;
    }
    return type;
}

/* A copy, which the caller closes. */
static hid_t type_of(iso_dtype dtype)
{
    switch (dtype) {
    case ISO_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case ISO_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case ISO_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case ISO_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case ISO_U8:
        return H5Tcopy(H5T_STD_U8LE);
    case ISO_BOOL:
        return bool_type();
    default:
        return -1;
    }
}

static hid_t space_of(const iso_shape *shape)
{
    hsize_t dim[ISO_MAX_RANK];
    for (int i = 0; i < shape->rank; i++)
        dim[i] = (hsize_t)shape->dim[i];
    return shape->rank ? H5Screate_simple(shape->rank, dim, NULL) : H5Screate(H5S_SCALAR);
}

/* Takes ownership of type and space. *offset: of its first byte in the file, 0 if it has none. */
static iso_status make_dataset(const maker *m, const char *h5_path, hid_t type, hid_t space, uint64_t *offset)
{
    hid_t dataset = -1;
    haddr_t at = HADDR_UNDEF;
    if (type >= 0 && space >= 0)
        dataset = H5Dcreate2(m->file, h5_path, type, space, m->n_links, m->create, H5P_DEFAULT);
    bool empty = dataset >= 0 && H5Sget_simple_extent_npoints(space) == 0;
    if (dataset >= 0 && !empty)
        at = H5Dget_offset(dataset);
    bool good = dataset >= 0 && (empty || at != HADDR_UNDEF);
    iso_status status = good ? ISO_OK : hdf5_failed(h5_path);
    *offset = good && !empty ? at : 0;
    if (dataset >= 0)
        H5Dclose(dataset);
    if (type >= 0)
        H5Tclose(type);
    if (space >= 0)
        H5Sclose(space);
    return status;
}

static iso_status make_text(const maker *m, const char *h5_path, size_t bytes, uint64_t *offset)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, bytes) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        type = -1;
    }
    return make_dataset(m, h5_path, type, H5Screate(H5S_SCALAR), offset);
}

/* [{"place": "/vars/0", "path": "d1/kernel"}, ...]; freed with free(). */
static char *index_text(const iso_file_spec *spec)
{
    json_t *all = json_array();
    for (int t = 0; t < spec->n_tensors; t++)
        json_array_append_new(
            all, json_pack("{s:s, s:s?}", "place", spec->tensors[t].h5_path, "path", spec->tensors[t].path));
    bool whole = json_array_size(all) == (size_t)spec->n_tensors;
    char *text = whole ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

static iso_status make_index(const maker *m)
{
    uint64_t offset;
    char *text = index_text(m->spec);
    if (!text)
        return iso_error(ISO_INVALID, "the names of the tensors are not UTF-8, or there is no memory");
    size_t bytes = strlen(text) + 1;
    iso_status status = make_text(m, "/isogrid/index", bytes, &offset);
    if (status == ISO_OK)
        status = iso_memory_file_write(m->memory, text, bytes, offset)
                     ? ISO_OK
                     : iso_no_memory("the %zu bytes of a file's layout", bytes);
    free(text);
    return status;
}

static iso_status make_own(maker *m)
{
    iso_shape shape = ISO_SHAPE(m->spec->n_tensors);
    iso_status status = make_text(m, "/isogrid/state", m->layout->state_capacity, &m->state);
    if (status == ISO_OK)
        status = make_dataset(m, "/isogrid/crc32", H5Tcopy(H5T_STD_U32LE), space_of(&shape), &m->crcs);
    return status;
}

static iso_status make_tensors(const maker *m)
{
    iso_status status = ISO_OK;
    for (int t = 0; t < m->spec->n_tensors && status == ISO_OK; t++) {
        const iso_saved_tensor *tensor = &m->spec->tensors[t];
        int64_t count = 0;
        iso_commit_tensor *to = &m->layout->record.tensors[t];
        ISO_TRY(iso_shape_count(&tensor->shape, &count));
        to->bytes = (uint64_t)count * iso_dtype_size(tensor->dtype);
        ISO_TRY(
            make_dataset(m, tensor->h5_path, type_of(tensor->dtype), space_of(&tensor->shape), &to->offset));
    }
done:
    return status;
}

/* ---- the file ---- */

static size_t block_of(const iso_file_spec *spec)
{
    size_t bytes = (size_t)spec->n_tensors * BYTES_A_TENSOR + (size_t)spec->n_groups * BYTES_A_GROUP;
    return bytes < LEAST_BLOCK ? LEAST_BLOCK : bytes > MOST_BLOCK ? MOST_BLOCK : bytes;
}

static iso_status create_file(maker *m)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (access >= 0 && iso_memory_file_set_driver(access, m->memory) >= 0 &&
        H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) >= 0 &&
        H5Pset_meta_block_size(access, block_of(m->spec)) >= 0 && H5Pset_alignment(access, LARGE, PAGE) >= 0)
        m->file = H5Fcreate("layout", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (access >= 0)
        H5Pclose(access);
    return m->file < 0 ? hdf5_failed("/") : ISO_OK;
}

static iso_status create_properties(maker *m)
{
    m->n_links = H5Pcreate(H5P_LINK_CREATE);
    m->create = H5Pcreate(H5P_DATASET_CREATE);
    m->text = H5Tcopy(H5T_C_S1);
    m->scalar = H5Screate(H5S_SCALAR);
    bool good = m->n_links >= 0 && m->create >= 0 && m->text >= 0 && m->scalar >= 0 &&
                H5Pset_create_intermediate_group(m->n_links, 1) >= 0 &&
                H5Pset_char_encoding(m->n_links, H5T_CSET_UTF8) >= 0 &&
                H5Pset_layout(m->create, H5D_CONTIGUOUS) >= 0 &&
                H5Pset_alloc_time(m->create, H5D_ALLOC_TIME_EARLY) >= 0 &&
                H5Pset_fill_time(m->create, H5D_FILL_TIME_NEVER) >= 0 &&
                H5Pset_obj_track_times(m->create, 0) >= 0 && H5Tset_size(m->text, H5T_VARIABLE) >= 0 &&
                H5Tset_cset(m->text, H5T_CSET_UTF8) >= 0;
    return good ? ISO_OK : hdf5_failed("/");
}

static void close_properties(const maker *m)
{
    if (m->n_links >= 0)
        H5Pclose(m->n_links);
    if (m->create >= 0)
        H5Pclose(m->create);
    if (m->text >= 0)
        H5Tclose(m->text);
    if (m->scalar >= 0)
        H5Sclose(m->scalar);
}

static iso_status make_all(maker *m)
{
    iso_status status = ISO_OK;
    iso_hdf5_quiet quiet;
    iso_hdf5_quiet_begin(&quiet);
    ISO_TRY(create_properties(m));
    ISO_TRY(create_file(m));
    for (int g = 0; g < m->spec->n_groups; g++)
        ISO_TRY(make_group(m, &m->spec->groups[g]));
    ISO_TRY(make_own(m));
    ISO_TRY(make_index(m));
    ISO_TRY(make_tensors(m));
done:
    if (m->file >= 0 && H5Fclose(m->file) < 0 && status == ISO_OK)
        status = hdf5_failed("/");
    close_properties(m);
    iso_hdf5_quiet_end(&quiet);
    return status;
}

/* ---- the skeleton ---- */

static iso_status count_bytes(void *data, uint64_t offset, uint64_t bytes)
{
    (void)offset;
    *(uint64_t *)data += bytes;
    return ISO_OK;
}

typedef struct walk {
    const maker *m;
    int file;
    const char *name;
    char *at; /* the next byte of the skeleton */
} walk;

/* The address in the skeleton of the file's byte at offset `byte`, if this part contains it. */
static char *file_layout_within(const walk *w, uint64_t byte, uint64_t offset, uint64_t bytes)
{
    return byte && byte >= offset && byte - offset < bytes ? w->at + (byte - offset) : NULL;
}

static iso_status take_part(void *data, uint64_t offset, uint64_t bytes)
{
    walk *w = data;
    iso_file_layout *layout = w->m->layout;
    char *state = file_layout_within(w, w->m->state, offset, bytes),
         *crcs = file_layout_within(w, w->m->crcs, offset, bytes);
    layout->state = state ? state : layout->state;
    layout->crcs = crcs ? crcs : layout->crcs;
    iso_memory_file_read(w->m->memory, w->at, (size_t)bytes, offset);
    w->at += bytes;
    return ISO_OK;
}

static iso_status take_skeleton(maker *m)
{
    uint64_t bytes = 0;
    iso_file_layout *layout = m->layout;
    iso_status status = ISO_OK;
    layout->record.hdf5_bytes = m->memory->bytes;
    ISO_TRY(iso_commit_record_visit_others(&layout->record, count_bytes, &bytes));
    layout->skeleton_bytes = (size_t)bytes;
    layout->skeleton = iso_new(layout->skeleton_bytes);
    if (!layout->skeleton)
        return iso_no_memory("the %zu bytes of a file's layout", layout->skeleton_bytes);
    walk w = {.m = m, .at = layout->skeleton};
    ISO_TRY(iso_commit_record_visit_others(&layout->record, take_part, &w));
done:
    return status;
}

iso_status iso_file_layout_make(const iso_file_spec *spec, iso_file_layout *layout)
{
    iso_file_layout fresh = {.structure = iso_file_spec_structure(spec),
                             .record.n_tensors = spec->n_tensors,
                             .record.tensors =
                                 iso_new(((size_t)spec->n_tensors + 1) * sizeof(iso_commit_tensor)),
                             .state_capacity = strlen(spec->state) * 2};
    iso_memory_file memory = {0};
    maker m = {&memory, -1, -1, -1, -1, -1, spec, &fresh, 0, 0};
    iso_status status = ISO_OK;
    if (fresh.state_capacity < LEAST_STATE)
        fresh.state_capacity = LEAST_STATE;
    if (!fresh.record.tensors)
        status = iso_no_memory("the offsets of %d tensors", spec->n_tensors);
    if (status == ISO_OK)
        status = make_all(&m);
    if (status == ISO_OK)
        status = take_skeleton(&m);
    iso_memory_file_free(&memory);
    if (status == ISO_OK)
        *layout = fresh;
    else
        iso_file_layout_free(&fresh);
    return status;
}

void iso_file_layout_free(iso_file_layout *layout)
{
    iso_free(layout->skeleton);
    iso_commit_record_free(&layout->record);
    *layout = (iso_file_layout){0};
}

bool iso_file_layout_holds(const iso_file_layout *layout, const iso_file_spec *spec)
{
    return strlen(spec->state) < layout->state_capacity;
}

/* ---- per save ---- */

void iso_file_layout_set_state(iso_file_layout *layout, const char *state)
{
    memset(layout->state, 0, layout->state_capacity);
    memcpy(layout->state, state, strlen(state));
}

void iso_file_layout_set_crcs(iso_file_layout *layout)
{
    for (int t = 0; t < layout->record.n_tensors; t++)
        memcpy(layout->crcs + (size_t)t * 4, &layout->record.tensors[t].crc, 4);
    layout->record.others = iso_crc(0, layout->skeleton, layout->skeleton_bytes);
}

static iso_status file_layout_write_part(void *data, uint64_t offset, uint64_t bytes)
{
    walk *w = data;
    iso_status status = iso_file_write_at(w->file, w->name, w->at, (size_t)bytes, offset);
    w->at += bytes;
    return status;
}

iso_status iso_file_layout_write(const iso_file_layout *layout, int file, const char *name)
{
    walk w = {.file = file, .name = name, .at = layout->skeleton};
    return iso_commit_record_visit_others(&layout->record, file_layout_write_part, &w);
}
