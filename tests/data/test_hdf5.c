/* HDF5 files as data sets: read at once or by rows, every stored type, and all that is refused. The test
 * makes its files. Ranks: 1
 * Sanitize: 1 */
#include <hdf5.h>
#include <math.h>
#include <stdio.h>

#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

static char folder[64], path[128], other[128];

static void make_folder(void)
{
    OK(make_test_folder(NULL, folder));
    snprintf(path, sizeof path, "%s/rows.h5", folder);
    snprintf(other, sizeof other, "%s/other.h5", folder);
}

static void remove_folder(void)
{
    OK(remove_test_folder(NULL, folder));
}

static hid_t create_file(const char *name)
{
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(file >= 0);
    return file;
}

/* A dataset of `type` from doubles (integral ones for integers); chunk_rows 0: contiguous. */
static void put(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dim, hsize_t chunk_rows,
                const double *values)
{
    hid_t create = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(rank, dim, NULL);
    hsize_t chunk[8];
    for (int d = 0; d < rank; d++)
        chunk[d] = d ? dim[d] : chunk_rows;
    if (chunk_rows) {
        ck_assert(H5Pset_chunk(create, rank, chunk) >= 0);
        ck_assert(H5Pset_deflate(create, 6) >= 0);
    }
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, create, H5P_DEFAULT);
    ck_assert(set >= 0);
    if (values)
        ck_assert(H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Pclose(create);
}

enum { ROWS = 37, WIDTH = 6 };

/* x: [rows, 3, 2] = row * 10 + element; y: [rows] = row % 10. */
static void make_rows(const char *name, hid_t x_type, hid_t y_type, hsize_t chunk_rows, bool weights)
{
    double x[ROWS * WIDTH], y[ROWS], w[ROWS];
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < WIDTH; k++)
            x[i * WIDTH + k] = 10 * (i % 12) + k;
        y[i] = i % 10;
        w[i] = 0.5 * i;
    }
    hid_t file = create_file(name);
    put(file, "x", x_type, 3, (hsize_t[]){ROWS, 3, 2}, chunk_rows, x);
    put(file, "y", y_type, 1, (hsize_t[]){ROWS}, chunk_rows, y);
    if (weights)
        put(file, "sample_weight", H5T_NATIVE_FLOAT, 1, (hsize_t[]){ROWS}, 0, w);
    H5Fclose(file);
}

/* Every row of every component, in a shuffled order, in parts. */
static void expect_rows(iso_dataset *ds)
{
    const iso_batch *batch = NULL;
    float x[8 * WIDTH], w[8];
    int32_t y[8];
    bool seen[ROWS] = {false};
    int count = 0;
    for (;;) {
        OK(iso_dataset_next(ds, &batch));
        if (!batch)
            break;
        int64_t half = batch->rows / 2;
        OK(batch->read(batch, 0, 0, half, ISO_F32, x));
        OK(batch->read(batch, 0, half, batch->rows - half, ISO_F32, x + half * WIDTH));
        OK(batch->read(batch, 1, 0, batch->rows, ISO_I32, y));
        OK(batch->read(batch, 2, 0, batch->rows, ISO_F32, w));
        for (int i = 0; i < batch->rows; i++, count++) {
            int row = (int)(2 * w[i]);
            ck_assert(row >= 0 && row < ROWS && !seen[row]);
            seen[row] = true;
            ck_assert_int_eq(y[i], row % 10);
            for (int k = 0; k < WIDTH; k++)
                ck_assert(x[i * WIDTH + k] == (float)(10 * (row % 12) + k));
        }
    }
    ck_assert_int_eq(count, ROWS);
}

/* Contiguous and chunked; at once and by rows; with and without somebody who reads ahead. */
START_TEST(test_read)
{
    hsize_t chunk = _i & 1 ? 5 : 0;
    size_t limit = _i & 2 ? 1 : 0;
    iso_dataset *ds = NULL;
    make_rows(path, H5T_STD_U8BE, H5T_NATIVE_INT64, chunk, true);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = limit));
    ck_assert_int_eq(iso_dataset_rows(ds), ROWS);
    ck_assert_int_eq(iso_dataset_components(ds), 3);
    ck_assert(iso_shape_equal(iso_dataset_shape(ds, 0), &ISO_SHAPE(3, 2)));
    ck_assert_int_eq(iso_dataset_dtype(ds, 0), ISO_U8);
    ck_assert_int_eq(iso_dataset_dtype(ds, 1), ISO_I64);
    ck_assert_int_eq(iso_dataset_dtype(ds, 2), ISO_F32);
    ck_assert_str_eq(iso_dataset_source(ds), path);
    OK(iso_dataset_shuffle(ds, _i & 4 ? 3 : 0));
    OK(iso_dataset_batch(ds, 8));
    if (_i & 8)
        OK(iso_dataset_prefetch(ds, 2));
    for (int epoch = 0; epoch < 3; epoch++) {
        OK(iso_dataset_rewind(ds, epoch));
        expect_rows(ds);
    }
    iso_dataset_destroy(ds);
    ck_assert_uint_eq(iso_memory_held(), 0);
}
END_TEST

/* Parts of rows come out of the file as such, contiguous or in chunks, with or without somebody who reads
 * ahead (whole rows, then). */
START_TEST(test_parts)
{
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    make_rows(path, H5T_STD_U8BE, H5T_NATIVE_INT64, _i & 1 ? 5 : 0, true);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = _i & 2 ? 1 : 0));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 9));
    if (_i & 4)
        OK(iso_dataset_prefetch(ds, 2));
    OK(iso_dataset_next(ds, &batch));
    check_parts(batch, &ISO_SHAPE(3, 2));
    OK(iso_dataset_next(ds, &batch));
    check_parts(batch, &ISO_SHAPE(3, 2));
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_cached_rows)
{
    iso_dataset *ds = NULL;
    make_rows(path, H5T_NATIVE_FLOAT, H5T_NATIVE_UINT8, 0, true);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = 1));
    OK(iso_dataset_cache(ds, _i ? other : NULL));
    OK(iso_dataset_shuffle(ds, 0));
    OK(iso_dataset_batch(ds, 8));
    for (int epoch = 0; epoch < 2; epoch++) {
        OK(iso_dataset_rewind(ds, epoch));
        expect_rows(ds);
    }
    iso_dataset_destroy(ds);
}
END_TEST

/* A cache that was made of other datasets of the same file, of the same shapes, is made again. */
START_TEST(test_cache_knows_its_names)
{
    double a[] = {1, 2, 3}, b[] = {4, 5, 6}, y[] = {0, 1, 0};
    hid_t file = create_file(path);
    put(file, "a", H5T_NATIVE_FLOAT, 1, (hsize_t[]){3}, 0, a);
    put(file, "b", H5T_NATIVE_FLOAT, 1, (hsize_t[]){3}, 0, b);
    put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){3}, 0, y);
    H5Fclose(file);
    for (int round = 0; round < 4; round++) {
        iso_dataset *ds = NULL;
        const iso_batch *batch = NULL;
        float got[3];
        OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = round % 2 ? "b" : "a", .y = "y",
                            .memory_limit = _i));
        OK(iso_dataset_cache(ds, other));
        OK(iso_dataset_batch(ds, 3));
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 0, 0, 3, ISO_F32, got));
        ck_assert_msg(got[0] == (round % 2 ? 4 : 1), "round %d: %g", round, got[0]);
        iso_dataset_destroy(ds);
    }
}
END_TEST

START_TEST(test_types)
{
    const struct {
        hid_t type;
        iso_dtype dtype;
    } types[] = {
        {H5T_STD_I8LE, ISO_I32},  {H5T_STD_U8LE, ISO_U8},    {H5T_STD_I16BE, ISO_I32},
        {H5T_STD_U16LE, ISO_I32}, {H5T_STD_I32BE, ISO_I32},  {H5T_STD_U32LE, ISO_I64},
        {H5T_STD_I64LE, ISO_I64}, {H5T_IEEE_F32BE, ISO_F32}, {H5T_IEEE_F64LE, ISO_F64},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (size_t limit = 0; limit < 2; limit++) {
            const iso_batch *batch = NULL;
            iso_dataset *ds = NULL;
            int32_t x[ROWS * WIDTH];
            make_rows(path, types[t].type, H5T_STD_U8LE, 0, false);
            OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = limit));
            ck_assert_int_eq(iso_dataset_components(ds), 2);
            ck_assert_int_eq(iso_dataset_dtype(ds, 0), types[t].dtype);
            OK(iso_dataset_batch(ds, ROWS));
            OK(iso_dataset_next(ds, &batch));
            OK(batch->read(batch, 0, 0, ROWS, ISO_I32, x));
            for (int i = 0; i < ROWS * WIDTH; i++)
                ck_assert_int_eq(x[i], 10 * (i / WIDTH % 12) + i % WIDTH);
            iso_dataset_destroy(ds);
        }
}
END_TEST

START_TEST(test_names)
{
    double values[4] = {1, 2, 3, 4};
    iso_dataset *ds = NULL;
    hid_t file = create_file(path);
    hid_t group = H5Gcreate2(file, "deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(group, "images", H5T_NATIVE_FLOAT, 2, (hsize_t[]){2, 2}, 0, values);
    H5Gclose(group);
    put(file, "labels", H5T_NATIVE_INT, 1, (hsize_t[]){2}, 0, values);
    H5Fclose(file);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "deep/images", .y = "labels"));
    ck_assert_int_eq(iso_dataset_rows(ds), 2);
    iso_dataset_destroy(ds);
    ds = NULL;
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "has no dataset 'x'");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "deep/images", .y = "lables"),
          "did you mean 'labels'");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "deep", .y = "labels"), "'deep'");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "labels", .y = "labels", .sample_weight = "w"),
          "'w'");
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_several)
{
    double values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, got[2];
    const iso_batch *batch = NULL;
    iso_dataset *ds = NULL;
    hid_t file = create_file(path);
    put(file, "a", H5T_NATIVE_FLOAT, 2, (hsize_t[]){2, 3}, 0, values);
    put(file, "b", H5T_NATIVE_FLOAT, 1, (hsize_t[]){2}, 0, values + 6);
    put(file, "c,d", H5T_NATIVE_INT, 1, (hsize_t[]){2}, 0, values + 8);
    put(file, "e", H5T_NATIVE_INT, 1, (hsize_t[]){3}, 0, values);
    H5Fclose(file);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a", .y = "b", .sample_weight = "none"));
    ck_assert_int_eq(iso_dataset_components(ds), 2);
    iso_dataset_destroy(ds);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a,b", .y = "c,d", .sample_weight = "b"));
    ck_assert_int_eq(iso_dataset_components(ds), 4);
    ck_assert_int_eq(iso_dataset_inputs(ds), 2);
    ck_assert_int_eq(iso_dataset_targets(ds), 1);
    OK(iso_dataset_batch(ds, 2));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 1, 0, 2, ISO_F64, got));
    ck_assert(got[0] == 6 && got[1] == 7);
    OK(batch->read(batch, 2, 0, 2, ISO_F64, got));
    ck_assert(got[0] == 8 && got[1] == 9);
    iso_dataset_destroy(ds);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a", .y = "b,b", .sample_weight = "b,b"));
    ck_assert_int_eq(iso_dataset_components(ds), 5);
    iso_dataset_destroy(ds);
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "b,a", .no_targets = true));
    ck_assert_int_eq(iso_dataset_components(ds), 2);
    iso_dataset_destroy(ds);
    ds = NULL;
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a,f", .y = "b"), "'f'");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a,e", .y = "b"), "'e' has 3 rows, 'a' has 2");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a,", .y = "b"), "'a,' is not a list");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a", .y = "b,b,b,b,b,b,b,b,b"), "at most 8");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "a", .y = "b,b,b", .sample_weight = "b,b"),
          "2 sample weights for 3 targets");
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_rows_must_agree)
{
    double values[8] = {0};
    iso_dataset *ds = NULL;
    hid_t file = create_file(path);
    put(file, "x", H5T_NATIVE_FLOAT, 2, (hsize_t[]){3, 2}, 0, values);
    put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){4}, 0, values);
    H5Fclose(file);
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "'y' has 4 rows, 'x' has 3");
}
END_TEST

static hid_t make_bool(signed char if_false, signed char if_true)
{
    hid_t type = H5Tenum_create(H5T_NATIVE_SCHAR);
    ck_assert(H5Tenum_insert(type, "FALSE", &if_false) >= 0);
    ck_assert(H5Tenum_insert(type, "TRUE", &if_true) >= 0);
    return type;
}

/* h5py's bool is read as 0 and 1. */
START_TEST(test_bool)
{
    const signed char flags[] = {1, 0, 0, 1, 1, 0};
    const uint8_t expected[] = {1, 0, 0, 1, 1, 0};
    uint8_t x[6] = {9, 9, 9, 9, 9, 9};
    hid_t type = make_bool(0, 1), file = create_file(path);
    put(file, "x", type, 2, (hsize_t[]){2, 3}, 0, NULL);
    put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){2}, 0, NULL);
    hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
    ck_assert(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, flags) >= 0);
    H5Dclose(set);
    H5Tclose(type);
    H5Fclose(file);
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = _i ? 1 : 0));
    ck_assert_int_eq(iso_dataset_dtype(ds, 0), ISO_U8);
    OK(iso_dataset_batch(ds, 2));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 0, 2, ISO_U8, x));
    ck_assert_mem_eq(x, expected, sizeof x);
    iso_dataset_destroy(ds);
}
END_TEST

static void make_file_with_x(hid_t type, int rank, const hsize_t *dim)
{
    hid_t file = create_file(path);
    put(file, "x", type, rank, dim, 0, NULL);
    put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){2}, 0, NULL);
    H5Fclose(file);
}

START_TEST(test_refused_types_and_shapes)
{
    iso_dataset *ds = NULL;
    hid_t text = H5Tcopy(H5T_C_S1), swapped = make_bool(1, 0);
    make_file_with_x(swapped, 1, (hsize_t[]){2});
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "not integers or floats");
    make_file_with_x(H5T_STD_U64LE, 1, (hsize_t[]){2});
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "unsigned integers of 8 bytes");
    make_file_with_x(text, 1, (hsize_t[]){2});
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "not integers or floats");
    make_file_with_x(H5T_NATIVE_LDOUBLE, 1, (hsize_t[]){2});
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "not integers or floats");
    make_file_with_x(H5T_NATIVE_INT, 0, NULL);
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "0 dimensions");
    make_file_with_x(H5T_NATIVE_INT, 2, (hsize_t[]){2, 0});
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "dimension 1 is 0");
    H5Tclose(swapped);
    H5Tclose(text);
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_refused_storage)
{
    iso_dataset *ds = NULL;
    hsize_t dim[] = {2};
    hid_t file = create_file(path), space = H5Screate_simple(1, dim, NULL),
          create = H5Pcreate(H5P_DATASET_CREATE);
    put(file, "y", H5T_NATIVE_INT, 1, dim, 0, NULL);
    ck_assert(H5Pset_external(create, "/etc/passwd", 0, 8) >= 0);
    H5Dclose(H5Dcreate2(file, "outside", H5T_NATIVE_INT, space, H5P_DEFAULT, create, H5P_DEFAULT));
    H5Pclose(create);
    create = H5Pcreate(H5P_DATASET_CREATE);
    ck_assert(H5Pset_virtual(create, space, "other.h5", "y", space) >= 0);
    H5Dclose(H5Dcreate2(file, "virtual", H5T_NATIVE_INT, space, H5P_DEFAULT, create, H5P_DEFAULT));
    H5Pclose(create);
    ck_assert(H5Lcreate_external("other.h5", "y", file, "link", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    ck_assert(H5Lcreate_soft("link", file, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Sclose(space);
    H5Fclose(file);
    file = create_file(other);
    put(file, "y", H5T_NATIVE_INT, 1, dim, 0, NULL);
    H5Fclose(file);
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "outside"), "keeps its values in other files");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "virtual"), "virtual");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "link"), "a link to another file");
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .x = "soft"), "a link to another file");
    ck_assert_ptr_null(ds);
}
END_TEST

/* Extents that the file does not hold: refused, or an error of whoever reads; never a crash. */
START_TEST(test_lying_extents)
{
    iso_dataset *ds = NULL;
    hsize_t dim[] = {(hsize_t)1 << 40, 1 << 20, 1 << 10}, chunk[] = {1, 1, 1 << 10};
    hid_t file = create_file(path), space = H5Screate_simple(3, dim, NULL),
          create = H5Pcreate(H5P_DATASET_CREATE);
    ck_assert(H5Pset_chunk(create, 3, chunk) >= 0);
    H5Dclose(H5Dcreate2(file, "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, create, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(create);
    put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){2}, 0, NULL);
    H5Fclose(file);
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "overflows");
    ck_assert_ptr_null(ds);
}
END_TEST

/* A file cut off anywhere gives one clear message, from opening or from reading. */
START_TEST(test_truncated_files)
{
    make_rows(path, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT, 0, false);
    FILE *f = fopen(path, "rb");
    static char bytes[1 << 16];
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    ck_assert_uint_gt(size, 1000);
    for (size_t cut = 0; cut < size; cut += 97) {
        iso_dataset *ds = NULL;
        const iso_batch *batch = NULL;
        double x[WIDTH];
        f = fopen(path, "wb");
        ck_assert_uint_eq(fwrite(bytes, 1, cut, f), cut);
        fclose(f);
        iso_status status = iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = 1);
        for (int i = 0; i < ROWS && status == ISO_OK; i++) {
            OK(iso_dataset_next(ds, &batch));
            status = batch->read(batch, 0, 0, 1, ISO_F64, x);
        }
        ck_assert_int_eq(status, ISO_INVALID);
        ck_assert_msg(strstr(iso_error_message(), path), "%s", iso_error_message());
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* The compressed bytes of `name` in the file become others. */
static void damage(const char *name)
{
    haddr_t at = 0;
    hsize_t bytes = 0, offset[8];
    unsigned mask;
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, name, H5P_DEFAULT);
    hid_t space = H5Dget_space(set);
    ck_assert(H5Dget_chunk_info(set, space, 0, offset, &mask, &at, &bytes) >= 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
    FILE *f = fopen(path, "r+b");
    fseek(f, (long)at, SEEK_SET);
    for (hsize_t i = 0; i < bytes; i++)
        fputc(0x5a, f);
    fclose(f);
}

/* Whatever was read before is freed. */
START_TEST(test_memory_of_files_that_cannot_be_read)
{
    static const char *const names[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        iso_dataset *ds = NULL;
        make_rows(path, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT, ROWS, false);
        damage(names[i]);
        size_t held = iso_memory_held();
        ck_assert_int_ne(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), ISO_OK);
        ck_assert_msg(strstr(iso_error_message(), path), "%s", iso_error_message());
        ck_assert_ptr_null(ds);
        ck_assert_uint_eq(iso_memory_held(), held);
    }
}
END_TEST

START_TEST(test_not_hdf5)
{
    iso_dataset *ds = NULL;
    FILE *f = fopen(path, "wb");
    fputs("x,y\n1,2\n", f);
    fclose(f);
    FAILS(iso_dataset_open(NULL, path, ISO_TRAIN, &ds), "is not an HDF5 file");
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_check_names_the_row)
{
    double x[6] = {0, 1, 2, 3, 4, 5}, y[3] = {0};
    for (size_t limit = 0; limit < 2; limit++) {
        iso_dataset *ds = NULL;
        x[5] = 5;
        for (int bad = 0; bad < 2; bad++) {
            hid_t file = create_file(path);
            put(file, "x", H5T_NATIVE_FLOAT, 2, (hsize_t[]){3, 2}, 0, x);
            put(file, "y", H5T_NATIVE_INT, 1, (hsize_t[]){3}, 0, y);
            H5Fclose(file);
            OK(iso_dataset_open(NULL, path, ISO_TRAIN, &ds, .memory_limit = limit));
            OK(iso_dataset_shuffle(ds, 0));
            OK(iso_dataset_batch(ds, 2));
            if (bad)
                FAILS(iso_dataset_check(ds), "'x' (inputs), row 2, element [1]: nan");
            else
                OK(iso_dataset_check(ds));
            iso_dataset_destroy(ds);
            x[5] = NAN;
        }
    }
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("hdf5");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, make_folder, remove_folder);
    tcase_add_loop_test(cases, test_read, 0, 16);
    tcase_add_loop_test(cases, test_parts, 0, 8);
    tcase_add_loop_test(cases, test_cached_rows, 0, 2);
    tcase_add_loop_test(cases, test_cache_knows_its_names, 0, 2);
    tcase_add_test(cases, test_types);
    tcase_add_test(cases, test_names);
    tcase_add_test(cases, test_several);
    tcase_add_test(cases, test_rows_must_agree);
    tcase_add_loop_test(cases, test_bool, 0, 2);
    tcase_add_test(cases, test_refused_types_and_shapes);
    tcase_add_test(cases, test_refused_storage);
    tcase_add_test(cases, test_lying_extents);
    tcase_add_test(cases, test_truncated_files);
    tcase_add_test(cases, test_memory_of_files_that_cannot_be_read);
    tcase_add_test(cases, test_not_hdf5);
    tcase_add_test(cases, test_check_names_the_row);
    Suite *suite = suite_create("hdf5");
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
