/* The files of tests/keras, read with HDF5. */
#include "tests/support/oracle.h"

#include <check.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 1024 };

struct oracle {
    hid_t file;
    int cases;
    char *name[MAX_CASES];
    int kept;
    void **keep;
};

/* Outside of a test, where Check cannot report. */
static void require(bool true_that, const char *what)
{
    if (true_that)
        return;
    fprintf(stderr, "tests/keras: %s failed\n", what);
    exit(1);
}

static void *keep(oracle *file, size_t bytes)
{
    void *memory = calloc(1, bytes + 1);
    file->keep = realloc(file->keep, (size_t)(file->kept + 1) * sizeof(void *));
    ck_assert(memory && file->keep);
    file->keep[file->kept++] = memory;
    return memory;
}

static herr_t visit(hid_t root, const char *name, const H5O_info_t *info, void *data)
{
    oracle *file = data;
    (void)root;
    if (info->type == H5O_TYPE_GROUP && info->num_attrs > 0 && strcmp(name, ".") != 0) {
        require(file->cases < MAX_CASES, "counting cases");
        file->name[file->cases++] = strdup(name);
    }
    return 0;
}

oracle *oracle_open(const char *name)
{
    char path[256];
    oracle *file = calloc(1, sizeof *file);
    snprintf(path, sizeof path, "tests/keras/%s", name);
    file->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    require(file->file >= 0, path);
    herr_t visited = H5Ovisit2(file->file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, file,
                               H5O_INFO_BASIC | H5O_INFO_NUM_ATTRS);
    require(visited >= 0 && file->cases > 0, path);
    return file;
}

void oracle_close(oracle *file)
{
    for (int i = 0; i < file->cases; i++)
        free(file->name[i]);
    for (int i = 0; i < file->kept; i++)
        free(file->keep[i]);
    free(file->keep);
    H5Fclose(file->file);
    free(file);
}

int oracle_cases(const oracle *file)
{
    return file->cases;
}

const char *oracle_case(const oracle *file, int index)
{
    return file->name[index];
}

int64_t oracle_elements(const iso_shape *shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->dim[i];
    return count;
}

static iso_shape shape_of(hid_t space)
{
    hsize_t dim[ISO_MAX_RANK] = {0};
    iso_shape shape = {.rank = H5Sget_simple_extent_ndims(space)};
    ck_assert(shape.rank >= 0 && shape.rank <= ISO_MAX_RANK);
    if (shape.rank > 0)
        H5Sget_simple_extent_dims(space, dim, NULL);
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = (int64_t)dim[i];
    H5Sclose(space);
    return shape;
}

double *oracle_data(oracle *file, const char *name, const char *dataset, iso_shape *shape)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", name, dataset);
    if (H5Lexists(file->file, path, H5P_DEFAULT) <= 0)
        return NULL;
    hid_t id = H5Dopen2(file->file, path, H5P_DEFAULT);
    iso_shape found = shape_of(H5Dget_space(id));
    double *values = keep(file, (size_t)oracle_elements(&found) * sizeof(double));
    ck_assert(H5Dread(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(id);
    if (shape)
        *shape = found;
    return values;
}

/* Opens an attribute; negative where the case has none. */
static hid_t open_attribute(const oracle *file, const char *name, const char *attribute)
{
    if (H5Aexists_by_name(file->file, name, attribute, H5P_DEFAULT) <= 0)
        return -1;
    return H5Aopen_by_name(file->file, name, attribute, H5P_DEFAULT, H5P_DEFAULT);
}

bool oracle_attribute_shape(const oracle *file, const char *name, const char *attribute, iso_shape *shape)
{
    hid_t id = open_attribute(file, name, attribute);
    if (id < 0)
        return false;
    *shape = shape_of(H5Aget_space(id));
    H5Aclose(id);
    return true;
}

int oracle_numbers(const oracle *file, const char *name, const char *attribute, double *values, int capacity)
{
    double all[64];
    hid_t id = open_attribute(file, name, attribute);
    if (id < 0)
        return 0;
    iso_shape shape = shape_of(H5Aget_space(id));
    int count = (int)oracle_elements(&shape);
    ck_assert_int_le(count, 64);
    herr_t done = H5Aread(id, H5T_NATIVE_DOUBLE, all);
    H5Aclose(id);
    if (done < 0)
        return 0;
    for (int i = 0; i < count && i < capacity; i++)
        values[i] = all[i];
    return count;
}

double oracle_number(const oracle *file, const char *name, const char *attribute, double usual)
{
    double value;
    return oracle_numbers(file, name, attribute, &value, 1) ? value : usual;
}

const char *oracle_text(oracle *file, const char *name, const char *attribute)
{
    hid_t id = open_attribute(file, name, attribute);
    if (id < 0)
        return NULL;
    hid_t stored = H5Aget_type(id), type = H5Tcopy(H5T_C_S1);
    char *text = NULL;
    if (H5Tget_class(stored) == H5T_STRING) {
        size_t size = H5Tget_size(stored) + 1;
        text = keep(file, size);
        H5Tset_size(type, size);
        ck_assert(H5Aread(id, type, text) >= 0);
    }
    H5Tclose(stored);
    H5Tclose(type);
    H5Aclose(id);
    return text;
}

bool oracle_is_integer(const oracle *file, const char *name, const char *dataset)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", name, dataset);
    hid_t id = H5Dopen2(file->file, path, H5P_DEFAULT), type = H5Dget_type(id);
    bool integer = H5Tget_class(type) == H5T_INTEGER;
    H5Tclose(type);
    H5Dclose(id);
    return integer;
}

double oracle_weight(uint32_t v, uint32_t i, double limit)
{
    uint32_t h = i * 2654435761u + (v + 1) * 2246822519u;
    h ^= h >> 16;
    h *= 2146121005u;
    h ^= h >> 15;
    h *= 2221713035u;
    h ^= h >> 16;
    return (float)((2.0 * h + 1.0 - 4294967296.0) / 4294967296.0 * limit);
}
