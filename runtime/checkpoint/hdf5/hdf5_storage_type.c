/* HDF5's types and texts. */
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/hdf5/hdf5_impl.h"

/* Types whose elements can be read from the file as they are. */
static bool find_equal(hid_t type, iso_storage_type *element)
{
    const struct {
        hid_t type;
        iso_storage_type element;
    } plain[] = {
        {H5T_IEEE_F32LE, ISO_STORAGE_F32}, {H5T_IEEE_F64LE, ISO_STORAGE_F64},
        {H5T_STD_I8LE, ISO_STORAGE_I8},    {H5T_STD_I16LE, ISO_STORAGE_I16},
        {H5T_STD_I32LE, ISO_STORAGE_I32},  {H5T_STD_I64LE, ISO_STORAGE_I64},
        {H5T_STD_U8LE, ISO_STORAGE_U8},    {H5T_STD_U16LE, ISO_STORAGE_U16},
        {H5T_STD_U32LE, ISO_STORAGE_U32},  {H5T_STD_U64LE, ISO_STORAGE_U64},
    };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (H5Tequal(type, plain[i].type) > 0) {
            *element = plain[i].element;
            return true;
        }
    return false;
}

/* The exponent and fraction bits of a float that otherwise follows IEEE's rules. */
static bool float_bits(hid_t type, size_t *exponent, size_t *fraction)
{
    size_t sign_at, exponent_at, fraction_at;
    return H5Tget_fields(type, &sign_at, &exponent_at, exponent, &fraction_at, fraction) >= 0 &&
           *exponent > 1 && *exponent < 16 && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
           H5Tget_ebias(type) == ((size_t)1 << (*exponent - 1)) - 1;
}

/* Half floats and bfloat16 as they are; for others the narrowest float that holds them. */
static bool find_float(hid_t type, iso_storage_type *element, bool *direct)
{
    size_t exponent, fraction, bytes = H5Tget_size(type);
    if (!float_bits(type, &exponent, &fraction))
        return false;
    bool two = bytes == 2 && H5Tget_order(type) == H5T_ORDER_LE && exponent + fraction == 15;
    if (two && (exponent == 5 || exponent == 8)) {
        *element = exponent == 5 ? ISO_STORAGE_F16 : ISO_STORAGE_BF16;
        return true; /* HDF5 returns their bytes unchanged too */
    }
    *direct = false;
    *element = exponent <= 8 && fraction <= 23 ? ISO_STORAGE_F32 : ISO_STORAGE_F64;
    return exponent <= 11 && fraction <= 52;
}

static bool find_integer(hid_t type, iso_storage_type *element, bool *direct)
{
    size_t bytes = H5Tget_size(type);
    bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    *direct = false;
    if (bytes == 1)
        *element = is_signed ? ISO_STORAGE_I8 : ISO_STORAGE_U8;
    else if (bytes == 2)
        *element = is_signed ? ISO_STORAGE_I16 : ISO_STORAGE_U16;
    else if (bytes <= 4)
        *element = is_signed ? ISO_STORAGE_I32 : ISO_STORAGE_U32;
    else
        *element = is_signed ? ISO_STORAGE_I64 : ISO_STORAGE_U64;
    return bytes <= 8;
}

static bool has_member(hid_t type, const char *name, int value)
{
    int member = H5Tget_member_index(type, name);
    signed char number = -1;
    return member >= 0 && H5Tget_member_value(type, (unsigned)member, &number) >= 0 && number == value;
}

bool iso_hdf5_is_bool(hid_t type)
{
    return H5Tget_class(type) == H5T_ENUM && H5Tget_size(type) == 1 && H5Tget_nmembers(type) == 2 &&
           has_member(type, "FALSE", 0) && has_member(type, "TRUE", 1);
}

/* Keras stores bfloat16 as two opaque bytes and names the type in an attribute. */
static iso_status find_bfloat16(hid_t dataset, hid_t type, const char *path, const char *h5_path,
                                iso_storage_type *element, bool *is)
{
    char *name = NULL;
    iso_status status = ISO_OK;
    if (H5Tget_size(type) == 2)
        status = iso_hdf5_attribute_text(dataset, path, h5_path, "dtype", 16, &name);
    *is = name && !strcmp(name, "bfloat16");
    iso_free(name);
    *element = ISO_STORAGE_BF16;
    return status;
}

static const char *name_of(H5T_class_t class)
{
    static const char *const names[] = {
        [H5T_INTEGER] = "unusual integers",
        [H5T_FLOAT] = "unusual floats",
        [H5T_TIME] = "times",
        [H5T_STRING] = "texts",
        [H5T_BITFIELD] = "bit fields",
        [H5T_OPAQUE] = "bytes without meaning",
        [H5T_COMPOUND] = "structures",
        [H5T_REFERENCE] = "references",
        [H5T_ENUM] = "an enumeration",
        [H5T_VLEN] = "variable length",
        [H5T_ARRAY] = "arrays",
    };
    return class >= 0 && (size_t) class < sizeof names / sizeof names[0] ? names[class] : "an unknown kind";
}

iso_status iso_hdf5_storage_type(hid_t dataset, hid_t type, const char *path, const char *h5_path,
                                 iso_storage_type *element, bool *direct)
{
    iso_status status = ISO_OK;
    H5T_class_t class = H5Tget_class(type);
    bool known = find_equal(type, element);
    if (!known && class == H5T_FLOAT)
        known = find_float(type, element, direct);
    if (!known && class == H5T_INTEGER)
        known = find_integer(type, element, direct);
    if (!known && iso_hdf5_is_bool(type)) {
        *element = ISO_STORAGE_BOOL;
        return ISO_OK;
    }
    if (!known && class == H5T_OPAQUE)
        status = find_bfloat16(dataset, type, path, h5_path, element, &known);
    if (known || status != ISO_OK)
        return status;
    return iso_error(ISO_INVALID, "'%s': '%s' has elements that are not read: %s of %zu bytes each", path,
                     h5_path, name_of(class), H5Tget_size(type));
}

/* ---- texts ---- */

/* A text to read: of an attribute or a dataset. */
typedef struct text_source {
    hid_t object;
    herr_t (*read)(hid_t object, hid_t type, void *out);
    const char *path, *h5_path; /* for messages */
} text_source;

static herr_t read_attribute(hid_t object, hid_t type, void *out)
{
    return H5Aread(object, type, out);
}

static herr_t read_dataset(hid_t object, hid_t type, void *out)
{
    return H5Dread(object, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

static iso_status unreadable(const text_source *from)
{
    return iso_hdf5_failed(from->path, "HDF5 cannot read a text of '%s'", from->h5_path);
}

static iso_status read_variable(const text_source *from, hid_t type, size_t most, char **text)
{
    char *lent = NULL;
    iso_status status = ISO_OK;
    if (from->read(from->object, type, &lent) < 0)
        return unreadable(from);
    if (lent && strnlen(lent, most + 1) <= most && !(*text = iso_strdup(lent)))
        status = iso_no_memory("a text of the file");
    H5free_memory(lent);
    return status;
}

static iso_status read_fixed(const text_source *from, hid_t type, size_t bytes, size_t most, char **text)
{
    if (bytes > most)
        return ISO_OK;
    *text = iso_new(bytes + 1);
    if (!*text)
        return iso_no_memory("a text of the file");
    if (from->read(from->object, type, *text) >= 0)
        return ISO_OK;
    iso_free(*text);
    *text = NULL;
    return unreadable(from);
}

static iso_status read_text(const text_source *from, hid_t type, hid_t space, size_t most, char **text)
{
    if (type < 0 || space < 0)
        return unreadable(from);
    hssize_t points = H5Sget_simple_extent_npoints(space);
    size_t bytes = H5Tget_size(type);
    H5T_class_t class = H5Tget_class(type);
    if (class == H5T_STRING && points == 1 && H5Tis_variable_str(type) > 0)
        return read_variable(from, type, most, text);
    if (class == H5T_STRING && points == 1)
        return read_fixed(from, type, bytes, most, text);
    if (class == H5T_INTEGER && bytes == 1 && points >= 0)
        return read_fixed(from, type, (size_t)points, most, text);
    return ISO_OK;
}

iso_status iso_hdf5_attribute_text(hid_t object, const char *path, const char *h5_path, const char *name,
                                   size_t most, char **text)
{
    text_source from = {-1, read_attribute, path, h5_path};
    htri_t there = H5Aexists(object, name);
    *text = NULL;
    if (there == 0)
        return ISO_OK;
    if (there > 0)
        from.object = H5Aopen(object, name, H5P_DEFAULT);
    if (from.object < 0)
        return unreadable(&from);
    hid_t type = H5Aget_type(from.object), space = type < 0 ? -1 : H5Aget_space(from.object);
    iso_status status = read_text(&from, type, space, most, text);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    H5Aclose(from.object);
    return status;
}

iso_status iso_hdf5_dataset_text(hid_t dataset, const char *path, const char *h5_path, size_t most,
                                 char **text)
{
    const text_source from = {dataset, read_dataset, path, h5_path};
    hid_t type = H5Dget_type(dataset), space = type < 0 ? -1 : H5Dget_space(dataset);
    *text = NULL;
    iso_status status = read_text(&from, type, space, most, text);
    if (space >= 0)
        H5Sclose(space);
    if (type >= 0)
        H5Tclose(type);
    return status;
}
