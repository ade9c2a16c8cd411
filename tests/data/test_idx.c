/* IDX: every element type, gzip'd or not, and all that can be wrong with a file or a folder of them. Ranks: 1
 * Sanitize: 1 */
#include <stdio.h>
#include <sys/stat.h>
#include <zlib.h>

#include "runtime/data/idx.h"
#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

enum { MOST_BYTES = 4096 };

typedef struct file {
    uint8_t bytes[MOST_BYTES];
    size_t size;
} file;

static void put(file *f, uint64_t word, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--)
        f->bytes[f->size++] = (uint8_t)(word >> (8 * i));
}

static file header(int type, int rank, const uint32_t *dim)
{
    file f = {.size = 0};
    put(&f, (uint64_t)type << 8 | (uint64_t)rank, 4);
    for (int i = 0; i < rank; i++)
        put(&f, dim[i], 4);
    return f;
}

/* [rows, h, w] bytes 0, 1, 2, ... */
static file images(uint32_t rows, uint32_t h, uint32_t w)
{
    file f = header(0x08, 3, (uint32_t[]){rows, h, w});
    for (uint32_t i = 0; i < rows * h * w; i++)
        put(&f, i & 255, 1);
    return f;
}

static file labels(uint32_t rows)
{
    file f = header(0x08, 1, &rows);
    for (uint32_t i = 0; i < rows; i++)
        put(&f, i % 10, 1);
    return f;
}

static file zip(const file *f)
{
    file out = {.size = 0};
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (uint8_t *)(uintptr_t)f->bytes;
    z.avail_in = (unsigned)f->size;
    z.next_out = out.bytes;
    z.avail_out = MOST_BYTES;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.size = MOST_BYTES - z.avail_out;
    deflateEnd(&z);
    return out;
}

static iso_status parse(const file *f, iso_idx *idx)
{
    return iso_idx_parse(f->bytes, f->size, "some-file", idx);
}

START_TEST(test_types)
{
    static const struct {
        int code, bytes;
        iso_dtype dtype;
        uint64_t word[2];
        double value[2];
    } types[] = {
        {0x08, 1, ISO_U8, {3, 255}, {3, 255}},
        {0x09, 1, ISO_I32, {3, 0xfe}, {3, -2}},
        {0x0b, 2, ISO_I32, {300, 0xfffe}, {300, -2}},
        {0x0c, 4, ISO_I32, {70000, 0xfffffffe}, {70000, -2}},
        {0x0d, 4, ISO_F32, {0x3fc00000, 0xc0000000}, {1.5, -2}},
        {0x0e, 8, ISO_F64, {0x3ff8000000000000, 0xc000000000000000}, {1.5, -2}},
    };
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        file f = header(types[t].code, 1, (uint32_t[]){2});
        put(&f, types[t].word[0], types[t].bytes);
        put(&f, types[t].word[1], types[t].bytes);
        file packed = zip(&f);
        for (int gzip = 0; gzip < 2; gzip++) {
            iso_idx idx = {0};
            OK(parse(gzip ? &packed : &f, &idx));
            ck_assert_int_eq(idx.dtype, types[t].dtype);
            ck_assert_int_eq(idx.shape.rank, 1);
            ck_assert_int_eq(idx.shape.dim[0], 2);
            for (int i = 0; i < 2; i++) {
                double value = idx.dtype == ISO_U8    ? ((uint8_t *)idx.data)[i]
                               : idx.dtype == ISO_I32 ? ((int32_t *)idx.data)[i]
                               : idx.dtype == ISO_F32 ? ((float *)idx.data)[i]
                                                      : ((double *)idx.data)[i];
                ck_assert_msg(value == types[t].value[i], "type %02x: %g", types[t].code, value);
            }
            iso_free(idx.data);
        }
    }
}
END_TEST

/* No file of any shorter length is read, and none of any greater. */
START_TEST(test_every_length)
{
    file whole = images(2, 3, 2), packed = zip(&whole);
    const file *both[] = {&whole, &packed};
    for (int k = 0; k < 2; k++)
        for (size_t size = 0; size < both[k]->size; size++) {
            iso_idx idx = {0};
            file f = *both[k];
            f.size = size;
            FAILS(parse(&f, &idx), "some-file");
            ck_assert_ptr_null(idx.data);
        }
    for (int k = 0; k < 2; k++) {
        iso_idx idx = {0};
        file f = *both[k];
        put(&f, 0, 1);
        FAILS(parse(&f, &idx), k == 0 ? "more bytes" : "after the end");
    }
}
END_TEST

START_TEST(test_truncated_tells_numbers)
{
    iso_idx idx = {0};
    file f = images(2, 3, 2);
    f.size -= 5;
    FAILS(parse(&f, &idx), "[2, 3, 2], 28 bytes; it has 23");
}
END_TEST

START_TEST(test_gzip_members)
{
    iso_idx idx = {0};
    file whole = images(2, 3, 2), a = whole, b = {.size = 0};
    a.size = 10;
    memcpy(b.bytes, whole.bytes + 10, whole.size - 10);
    b.size = whole.size - 10;
    file first = zip(&a), second = zip(&b);
    memcpy(first.bytes + first.size, second.bytes, second.size);
    first.size += second.size;
    OK(parse(&first, &idx));
    ck_assert_int_eq(((uint8_t *)idx.data)[11], 11);
    iso_free(idx.data);
}
END_TEST

/* More rows than the header says: in the same member, and in one of its own. */
START_TEST(test_gzip_with_more_bytes)
{
    file longer = images(2, 3, 2), more = {.size = 0}, plain = longer;
    iso_idx idx = {0};
    put(&longer, 7, 1);
    put(&more, 7, 1);
    file one = zip(&longer), two = zip(&plain), last = zip(&more);
    FAILS(parse(&longer, &idx), "has more bytes than the shape [2, 3, 2] in its header says");
    FAILS(parse(&one, &idx), "has more bytes than the shape [2, 3, 2] in its header says");
    memcpy(two.bytes + two.size, last.bytes, last.size);
    two.size += last.size;
    FAILS(parse(&two, &idx), "has more bytes than the shape [2, 3, 2] in its header says");
    ck_assert_ptr_null(idx.data);
}
END_TEST

START_TEST(test_damaged_gzip)
{
    file whole = images(2, 3, 2), packed = zip(&whole);
    iso_idx idx = {0};
    packed.bytes[packed.size - 6] ^= 1; /* the checksum */
    FAILS(parse(&packed, &idx), "broken gzip data");
}
END_TEST

START_TEST(test_bad_headers)
{
    iso_idx idx = {0};
    file f = images(2, 3, 2);
    f.bytes[0] = 'P';
    FAILS(parse(&f, &idx), "50 00 08 03");
    f = header(0x0a, 1, (uint32_t[]){1});
    FAILS(parse(&f, &idx), "0x0a");
    f = header(0x08, 0, NULL);
    FAILS(parse(&f, &idx), "0 dimensions");
    f = header(0x08, 9, (uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    FAILS(parse(&f, &idx), "9 dimensions");
    f = images(0, 28, 28);
    FAILS(parse(&f, &idx), "is empty: its shape is [0, 28, 28]");
    f = header(0x0e, 3, (uint32_t[]){UINT32_MAX, UINT32_MAX, UINT32_MAX});
    FAILS(parse(&f, &idx), "overflows");
    f = header(0x0e, 2, (uint32_t[]){UINT32_MAX, UINT32_MAX});
    FAILS(parse(&f, &idx), "overflows");
    f = header(0x08, 2, (uint32_t[]){UINT32_MAX, 2000});
    FAILS(parse(&f, &idx), "it has 12");
    file packed = zip(&f);
    FAILS(parse(&packed, &idx), "can hold at most");
    ck_assert_ptr_null(idx.data);
}
END_TEST

/* More than fits into the memory that is taken at first. */
START_TEST(test_large_gzip)
{
    enum { WIDTH = 1 << 20, ROWS = 70 };
    iso_idx idx = {0};
    file f = header(0x08, 2, (uint32_t[]){ROWS, WIDTH});
    uint8_t *out = malloc(WIDTH), *row = calloc(1, WIDTH);
    z_stream z = {.next_out = out, .avail_out = WIDTH, .next_in = f.bytes, .avail_in = (unsigned)f.size};
    ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_NO_FLUSH), Z_OK);
    for (int i = 0; i < ROWS; i++) {
        row[i] = 1; /* row i has i + 1 ones */
        z.next_in = row;
        z.avail_in = WIDTH;
        ck_assert_int_ge(deflate(&z, i == ROWS - 1 ? Z_FINISH : Z_NO_FLUSH), Z_OK);
    }
    size_t size = WIDTH - z.avail_out;
    deflateEnd(&z);
    OK(iso_idx_parse(out, size, "large", &idx));
    for (int64_t i = 0; i < ROWS; i++) {
        const uint8_t *got = (const uint8_t *)idx.data + i * WIDTH;
        ck_assert(got[i] == 1 && got[i + 1] == 0 && got[WIDTH - 1] == 0);
    }
    iso_free(idx.data);
    idx.data = NULL;
    FAILS(iso_idx_parse(out, size - 300, "large", &idx), "large");
    ck_assert_ptr_null(idx.data);
    free(out);
    free(row);
}
END_TEST

/* ---- folders ---- */

static char folder[64];

static void make_folder(void)
{
    OK(make_test_folder(NULL, folder));
}

static void remove_folder(void)
{
    OK(remove_test_folder(NULL, folder));
}

static void write_file(const char *name, const file *f)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(f->bytes, 1, f->size, out), f->size);
    fclose(out);
}

START_TEST(test_folder)
{
    file x = images(12, 3, 2), y = labels(12), packed = zip(&x), tx = images(5, 3, 2), ty = labels(5);
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    float pixels[12 * 6];
    int32_t classes[12];
    write_file("train-images-idx3-ubyte.gz", &packed);
    write_file("train-labels-idx1-ubyte", &y);
    write_file("t10k-images.idx3-ubyte", &tx);
    write_file("t10k-labels.idx1-ubyte", &ty);
    OK(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds));
    ck_assert_int_eq(iso_dataset_rows(ds), 12);
    ck_assert_int_eq(iso_dataset_components(ds), 2);
    ck_assert(iso_shape_equal(iso_dataset_shape(ds, 0), &ISO_SHAPE(3, 2, 1)));
    ck_assert_int_eq(iso_dataset_shape(ds, 1)->rank, 0);
    ck_assert_int_eq(iso_dataset_dtype(ds, 0), ISO_U8);
    ck_assert_str_eq(iso_dataset_source(ds), folder);
    OK(iso_dataset_batch(ds, 12));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 0, 12, ISO_F32, pixels));
    OK(batch->read(batch, 1, 0, 12, ISO_I32, classes));
    for (int i = 0; i < 72; i++)
        ck_assert(pixels[i] == (float)i);
    for (int i = 0; i < 12; i++)
        ck_assert_int_eq(classes[i], i % 10);
    iso_dataset_destroy(ds);
    OK(iso_dataset_open(NULL, folder, ISO_TEST, &ds));
    ck_assert_int_eq(iso_dataset_rows(ds), 5);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_folder_errors)
{
    file x = images(12, 3, 2), y = labels(11), nothing = {.size = 0};
    iso_dataset *ds = NULL;
    FAILS(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds), "/train-images-idx*");
    write_file("train-images-idx3-ubyte", &x);
    FAILS(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds), "/train-labels-idx*");
    write_file("train-labels-idx1-ubyte", &y);
    FAILS(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds), "has 12 rows");
    FAILS(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds), "has 11");
    write_file("train-labels-idx1-ubyte", &nothing);
    FAILS(iso_dataset_open(NULL, folder, ISO_TRAIN, &ds), "it has 0 bytes");
    ck_assert_ptr_null(ds);
}
END_TEST

START_TEST(test_names)
{
    iso_dataset *ds = NULL;
    int fashion = 0;
    FAILS(iso_dataset_open(NULL, "fashion-mnits", ISO_TRAIN, &ds), "did you mean 'fashion-mnist'");
    FAILS(iso_dataset_open(NULL, "/nowhere/at/all", ISO_TRAIN, &ds), "/nowhere/at/all");
    FAILS(iso_dataset_open(NULL, "", ISO_TRAIN, &ds), "the name of the data set is missing");
    FAILS(iso_dataset_open(NULL, "/dev/null", ISO_TRAIN, &ds), "neither a folder nor a file");
    ck_assert_ptr_null(ds);
    ck_assert_int_gt(iso_dataset_count(), 0);
    for (int i = 0; i < iso_dataset_count(); i++) {
        ck_assert_uint_gt(strlen(iso_dataset_description(i)), 0);
        fashion += strcmp(iso_dataset_name(i), "fashion-mnist") == 0;
    }
    ck_assert_int_eq(fashion, 1);
}
END_TEST

/* ISOGRID_DATA comes before the package's folder. */
START_TEST(test_data_folder_of_the_environment)
{
    char path[128];
    file x = images(4, 3, 2), y = labels(4);
    iso_dataset *ds = NULL;
    snprintf(path, sizeof path, "%s/fashion-mnist", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    write_file("fashion-mnist/train-images-idx3-ubyte", &x);
    write_file("fashion-mnist/train-labels-idx1-ubyte", &y);
    setenv("ISOGRID_DATA", folder, 1);
    OK(iso_dataset_open(NULL, "fashion-mnist", ISO_TRAIN, &ds));
    unsetenv("ISOGRID_DATA");
    ck_assert_int_eq(iso_dataset_rows(ds), 4);
    ck_assert_str_eq(iso_dataset_source(ds), "fashion-mnist");
    iso_dataset_destroy(ds);
}
END_TEST

/* The real one, where Debian's package is installed: the facts that its authors publish. */
START_TEST(test_fashion_mnist)
{
    static const struct {
        iso_part part;
        int64_t rows;
    } parts[] = {{ISO_TRAIN, 60000}, {ISO_TEST, 10000}};
    for (int p = 0; p < 2; p++) {
        iso_dataset *ds = NULL;
        const iso_batch *batch = NULL;
        int64_t count[10] = {0};
        uint8_t label;
        OK(iso_dataset_open(NULL, "fashion-mnist", parts[p].part, &ds));
        ck_assert_int_eq(iso_dataset_rows(ds), parts[p].rows);
        ck_assert(iso_shape_equal(iso_dataset_shape(ds, 0), &ISO_SHAPE(28, 28, 1)));
        for (int64_t i = 0; i < parts[p].rows; i++) {
            OK(iso_dataset_next(ds, &batch));
            OK(batch->read(batch, 1, 0, 1, ISO_U8, &label));
            ck_assert_int_lt(label, 10);
            count[label]++;
        }
        for (int i = 0; i < 10; i++)
            ck_assert_int_eq(count[i], parts[p].rows / 10);
        iso_dataset_destroy(ds);
    }
}
END_TEST

int main(void)
{
    TCase *parser = tcase_create("parser"), *folders = tcase_create("folders"), *real = tcase_create("real");
    tcase_add_test(parser, test_types);
    tcase_add_test(parser, test_every_length);
    tcase_add_test(parser, test_truncated_tells_numbers);
    tcase_add_test(parser, test_gzip_members);
    tcase_add_test(parser, test_gzip_with_more_bytes);
    tcase_add_test(parser, test_damaged_gzip);
    tcase_add_test(parser, test_bad_headers);
    tcase_add_test(parser, test_large_gzip);
    tcase_add_checked_fixture(folders, make_folder, remove_folder);
    tcase_add_test(folders, test_folder);
    tcase_add_test(folders, test_folder_errors);
    tcase_add_test(folders, test_data_folder_of_the_environment);
    tcase_add_test(real, test_names);
    if (access("/usr/share/datasets/fashion-mnist", R_OK) == 0)
        tcase_add_test(real, test_fashion_mnist);
    Suite *suite = suite_create("idx");
    suite_add_tcase(suite, parser);
    suite_add_tcase(suite, folders);
    suite_add_tcase(suite, real);
    return run_suite(suite);
}
