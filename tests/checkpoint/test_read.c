/* Checkpoints that were saved are read: the same tensors whole, in parts and by shards, from any number of
 * ranks; what was changed, cut off or put together wrongly is refused by all ranks alike.
 * Ranks: 1, 3   More: 5
 * */
#include <fcntl.h>
#include <hdf5.h>
#include <sys/stat.h>

#include "runtime/base/device.h"
#include "runtime/base/lock.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/saver.h"
#include "tests/support/checkpoints.h"
#include "tests/support/dice.h"
#include "tests/support/guarded_device.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];
static iso_saver *saver;
static made_state state;

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    check_ok(iso_saver_create(ctx, &saver));
    made_state_begin(&state, ctx, 0);
}

static void tear_down(void)
{
    made_state_end(&state);
    iso_saver_destroy(saver);
    check_ok(remove_test_folder(ctx, folder));
}

static bool is_chief(void)
{
    return iso_rank(ctx) == 0;
}

/* Before and behind what one rank does to files alone. */
static void meet(void)
{
    check_ok(iso_agree(ctx, ISO_OK));
}

static const char *save(const char *name, const iso_file_spec *contents, const iso_state_shards *shards)
{
    const char *path = in_folder(folder, name);
    check_ok(iso_saver_save(saver, path, contents, shards, false, NULL));
    check_ok(iso_saver_wait(saver));
    return path;
}

/* A version of the state under a name, with its number. */
static const char *save_version(const char *name, int version)
{
    made_state other;
    made_state_begin(&other, ctx, version);
    const char *path = save(name, &other.contents, &other.shards);
    made_state_end(&other);
    return path;
}

/* ---- what was saved ---- */

static void check_whole(iso_saved_file *file, int t, int version)
{
    const iso_saved_tensor *expected = &state.tensor[t];
    int tensor = iso_saved_file_at(file, expected->h5_path);
    ck_assert_msg(tensor >= 0, "'%s' is missing", expected->h5_path);
    const iso_saved_tensor *found = iso_saved_file_tensor(file, tensor);
    ck_assert(found->dtype == expected->dtype && iso_shape_equal(&found->shape, &expected->shape));
    if (expected->path) {
        ck_assert_str_eq(found->path, expected->path);
        ck_assert_int_eq(iso_saved_file_of(file, expected->path), tensor);
    } else {
        ck_assert_ptr_null(found->path);
    }
    iso_box box = iso_box_whole(&expected->shape);
    void *values = made_values(expected, t, version), *out = malloc(made_bytes(expected) + 1);
    check_ok(iso_saved_file_read(file, tensor, &box, expected->dtype, out));
    ck_assert_msg(memcmp(out, values, made_bytes(expected)) == 0, "'%s' has other bytes", expected->h5_path);
    free(out);
    free(values);
}

/* Any boxes, any ranges of them. */
static void check_parts(iso_saved_file *file, int t, dice *d)
{
    const iso_saved_tensor *expected = &state.tensor[t];
    int tensor = iso_saved_file_at(file, expected->h5_path);
    size_t size = iso_dtype_size(expected->dtype);
    char *values = made_values(expected, t, 0), *out = malloc(made_bytes(expected) + 1);
    for (int k = 0; k < 20; k++) {
        iso_box box = {.rank = expected->shape.rank};
        for (int i = 0; i < box.rank; i++) {
            box.offset[i] = throw_dice(d, (int)expected->shape.dim[i] + 1);
            box.extent[i] = throw_dice(d, (int)(expected->shape.dim[i] - box.offset[i]) + 1);
        }
        int64_t all = iso_box_count(&box), begin = throw_dice(d, (int)all + 1);
        int64_t count = k % 2 ? throw_dice(d, (int)(all - begin) + 1) : all - begin;
        iso_state_shard shard = {.path = expected->path,
                                 .dtype = expected->dtype,
                                 .shape = expected->shape,
                                 .box = box,
                                 .begin = begin,
                                 .count = count,
                                 .data = malloc((size_t)count * size + 1)};
        test_shard_place(&shard);
        check_ok(iso_saved_file_read_shard(file, tensor, &shard));
        check_ok(iso_shard_read(&shard, out));
        test_shard_free(&shard);
        for (int64_t i = 0; i < count; i++) {
            int64_t global = iso_box_global_index(&box, &expected->shape, begin + i);
            ck_assert(memcmp(out + (size_t)i * size, values + (size_t)global * size, size) == 0);
        }
    }
    free(out);
    free(values);
}

/* Almost the whole: a few elements are left out of every row, so that what is read at once ends within them.
 */
static void check_almost_whole(iso_saved_file *file, int t)
{
    const iso_saved_tensor *expected = &state.tensor[t];
    int tensor = iso_saved_file_at(file, expected->h5_path), last = expected->shape.rank - 1;
    char *values = made_values(expected, t, 0);
    double *out = malloc(made_bytes(expected) / iso_dtype_size(expected->dtype) * sizeof *out + 1);
    for (int k = 0; k < 3 && last >= 0 && expected->shape.dim[last] > 3; k++) {
        iso_box box = iso_box_whole(&expected->shape);
        box.offset[last] = k;
        box.extent[last] -= 3;
        check_ok(iso_saved_file_read(file, tensor, &box, ISO_F64, out));
        for (int64_t i = 0; i < iso_box_count(&box); i++) {
            int64_t global = iso_box_global_index(&box, &expected->shape, i);
            ck_assert(out[i] == iso_element_get(values, expected->dtype, global));
        }
    }
    free(out);
    free(values);
}

static void check_contents(iso_saved_file *file, int version)
{
    uint64_t number = 0;
    ck_assert_str_eq(iso_saved_file_state(file), state.contents.state);
    ck_assert(iso_saved_file_committed(file, &number));
    ck_assert_uint_eq(number, 1000 + (uint64_t)version);
    ck_assert_int_eq(iso_saved_file_tensors(file), MADE_TENSORS);
    for (int t = 0; t < MADE_TENSORS; t++)
        check_whole(file, t, version);
    for (int g = 0; g < MADE_GROUPS; g++) {
        const char *name = iso_saved_file_name(file, state.group[g].h5_path);
        ck_assert(state.group[g].name ? name && !strcmp(name, state.group[g].name) : !name);
    }
}

START_TEST(test_what_was_saved)
{
    iso_saved_file *file = NULL;
    dice d = dice_for(iso_rank(ctx));
    check_ok(iso_saved_file_open(ctx, save("a.weights.h5", &state.contents, &state.shards), &file));
    check_contents(file, 0);
    for (int t = 0; t < MADE_TENSORS; t++) {
        check_parts(file, t, &d);
        check_almost_whole(file, t);
    }
    check_ok(iso_saved_file_verify(file));
    iso_saved_file_close(file);
}
END_TEST

/* A file stays what it is for who has it open, whatever comes in its place. */
START_TEST(test_replaced_while_open)
{
    iso_saved_file *file = NULL;
    check_ok(iso_saved_file_open(ctx, save_version("a.weights.h5", 1), &file));
    save_version("a.weights.h5", 2);
    check_contents(file, 1);
    check_ok(iso_saved_file_verify(file));
    iso_saved_file_close(file);
}
END_TEST

/* ---- a small file, every byte of it ---- */

enum { SMALL = 3, MOST_BYTES = 64 << 10 };
static char original[MOST_BYTES + 100];
static const iso_saved_tensor small_tensor[SMALL] = {
    {"/layers/dense/vars/0", "d/kernel", ISO_F32, {2, {3, 4}}},
    {"/layers/dense/vars/1", "d/bias", ISO_F64, {1, {5}}},
    {"/vars/0", "n", ISO_I64, {0, {0}}},
};
static const char *small_path;
static size_t small_bytes;

static const void *small_values(int t)
{
    static const float kernel[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const double bias[5] = {0.5, 1, 2, 3, 4};
    static const int64_t n[1] = {77};
    return t == 0 ? (const void *)kernel : t == 1 ? (const void *)bias : (const void *)n;
}

static void write_small(const char *bytes, size_t count)
{
    meet(); /* nobody reads any more */
    if (is_chief()) {
        int file = open(small_path, O_WRONLY | O_TRUNC | O_CREAT, 0666);
        ck_assert(file >= 0 && write(file, bytes, count) == (ssize_t)count);
        close(file);
    }
    meet();
}

/* One byte of it. */
static void change_small(size_t at, char byte)
{
    meet();
    if (is_chief()) {
        int file = open(small_path, O_WRONLY);
        ck_assert(file >= 0 && pwrite(file, &byte, 1, (off_t)at) == 1);
        close(file);
    }
    meet();
}

static void save_small(void)
{
    iso_saved_group group = {"/layers/dense/vars", "d"};
    iso_state_shard shard[SMALL];
    for (int t = 0; t < SMALL; t++) {
        iso_box box = iso_box_whole(&small_tensor[t].shape);
        shard[t] = (iso_state_shard){.path = small_tensor[t].path,
                                     .dtype = small_tensor[t].dtype,
                                     .shape = small_tensor[t].shape,
                                     .box = box,
                                     .count = iso_box_count(&box),
                                     .data = (void *)(uintptr_t)small_values(t),
                                     .writer = is_chief()};
    }
    iso_file_spec contents = {.n_tensors = SMALL,
                              .n_groups = 1,
                              .tensors = small_tensor,
                              .groups = &group,
                              .state = "{\"step\": 3}",
                              .number = 3};
    small_path = save("small.weights.h5", &contents, &(iso_state_shards){SMALL, shard});
    int file = open(small_path, O_RDONLY);
    small_bytes = (size_t)read(file, original, MOST_BYTES);
    ck_assert(small_bytes > 0 && small_bytes < MOST_BYTES);
    memset(original + small_bytes, 0, 100);
    close(file);
}

/* All ranks: the same. */
static void check_alike(iso_status status)
{
    uint8_t mine = (uint8_t)status, all[64];
    check_ok(iso_gather_all(ctx, &mine, 1, all));
    for (int i = 0; i < iso_ranks(ctx); i++)
        ck_assert_int_eq(all[i], mine);
}

/* What was verified is believed until somebody writes into it. */
START_TEST(test_changed_after_verifying)
{
    iso_saved_file *file = NULL;
    struct timespec old[2] = {{1000, 0}, {1000, 0}};
    save_small();
    size_t kernel =
        (size_t)((const char *)memmem(original, small_bytes, small_values(0), 12 * sizeof(float)) - original);
    ck_assert(!is_chief() || utimensat(AT_FDCWD, small_path, old, 0) == 0);
    meet();
    check_ok(iso_saved_file_open(ctx, small_path, &file));
    check_ok(iso_saved_file_verify(file));
    check_ok(iso_saved_file_verify(file));
    change_small(kernel + 5, (char)(original[kernel + 5] ^ 4));
    for (int again = 0; again < 2; again++) { /* what was refused is not taken for good the next time */
        iso_status status = iso_saved_file_verify(file);
        check_alike(status);
        ck_assert_int_eq(status, ISO_INVALID);
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "(d/kernel) is not what was written"));
    }
    change_small(kernel + 5, original[kernel + 5]);
    check_ok(iso_saved_file_verify(file));
    iso_saved_file_close(file);
}
END_TEST

/* A file whose record is cut off still has its checksums. */
START_TEST(test_lost_record)
{
    iso_saved_file *file = NULL;
    save_small();
    size_t kernel =
        (size_t)((const char *)memmem(original, small_bytes, small_values(0), 12 * sizeof(float)) - original);
    ck_assert(!is_chief() || truncate(small_path, (off_t)small_bytes - 8) == 0);
    meet();
    check_ok(iso_saved_file_open(ctx, small_path, &file));
    ck_assert(!iso_saved_file_committed(file, NULL));
    ck_assert(iso_saved_file_has_checksums(file));
    check_ok(iso_saved_file_verify(file));
    change_small(kernel + 5, (char)(original[kernel + 5] ^ 4));
    iso_status status = iso_saved_file_verify(file);
    check_alike(status);
    ck_assert_int_eq(status, ISO_INVALID);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "(d/kernel) is not what was written"));
    iso_saved_file_close(file);
}
END_TEST

/* Refused, with a message that names the file, or the very tensors. Returns whether it was refused. */
static bool refused_or_same(const char *what, size_t where)
{
    iso_saved_file *file = NULL;
    double out[12];
    iso_status status = iso_saved_file_open(ctx, small_path, &file);
    if (status == ISO_OK)
        status = iso_saved_file_verify(file);
    check_alike(status);
    for (int t = 0; t < SMALL && status == ISO_OK; t++) {
        const iso_saved_tensor *expected = &small_tensor[t];
        int tensor = iso_saved_file_at(file, expected->h5_path);
        ck_assert_msg(tensor >= 0, "%s at %zu: '%s' is missing", what, where, expected->h5_path);
        ck_assert(iso_shape_equal(&iso_saved_file_tensor(file, tensor)->shape, &expected->shape));
        iso_box box = iso_box_whole(&expected->shape);
        check_ok(iso_saved_file_read(file, tensor, &box, expected->dtype, out));
        ck_assert_msg(
            !memcmp(out, small_values(t), (size_t)iso_box_count(&box) * iso_dtype_size(expected->dtype)),
            "%s at %zu: '%s' has other bytes", what, where, expected->h5_path);
    }
    if (status == ISO_OK)
        ck_assert_int_eq(iso_saved_file_tensors(file), SMALL);
    else
        ck_assert_msg(status == ISO_INVALID && strstr(iso_error_message(), small_path), "%s at %zu: %d, %s",
                      what, where, (int)status, iso_error_message());
    iso_saved_file_close(file);
    return status != ISO_OK;
}

/* From one position to the next: by one rank with ISOGRID_TEST_LONG, by one, and by several. All are odd, so that
 * every bit of a byte has its turn. */
static size_t stride(size_t all, size_t one, size_t several)
{
    return iso_ranks(ctx) > 1 ? several : getenv("ISOGRID_TEST_LONG") ? all : one;
}

START_TEST(test_flipped_bits)
{
    size_t kept = 0;
    save_small();
    for (size_t i = 0; i < small_bytes; i += stride(1, 11, 149)) {
        change_small(i, (char)(original[i] ^ 1 << i % 8));
        kept += !refused_or_same("a flipped bit", i);
        change_small(i, original[i]);
    }
    ck_assert_uint_le(kept, 8); /* of the characters that tell of a record: it is then a file without one */
}
END_TEST

START_TEST(test_cut_off)
{
    size_t kept = 0;
    save_small();
    for (size_t i = 0; i < small_bytes; i += stride(17, 51, 211)) {
        write_small(original, i);
        kept += !refused_or_same("cut off", i);
    }
    ck_assert_uint_le(kept, (ISO_COMMIT_TAIL + SMALL * ISO_COMMIT_ENTRY) / 17 +
                                1); /* nothing is missing but the record */
    write_small(original, small_bytes + 100);
    refused_or_same("grown", small_bytes);
}
END_TEST

/* ---- put together wrongly ---- */

static void expect_refused(const char *path, const char *reason)
{
    iso_saved_file *file = NULL;
    iso_status status = iso_saved_file_open(ctx, path, &file);
    check_alike(status);
    check_refused(status, reason);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), folder));
}

/* A record that is sound, but tells of other places than HDF5: here two tensors have changed theirs. */
START_TEST(test_mark_of_another_file)
{
    const char *path = save("a.weights.h5", &state.contents, &state.shards);
    if (is_chief()) {
        iso_commit_record record;
        bool found = false;
        int file = open(path, O_RDWR);
        check_ok(iso_commit_record_read(file, path, &found, &record));
        uint64_t offset = record.tensors[0].offset;
        ck_assert(found && record.tensors[0].bytes == record.tensors[6].bytes);
        record.tensors[0].offset = record.tensors[6].offset;
        record.tensors[6].offset = offset;
        check_ok(iso_commit_record_write(file, path, &record));
        iso_commit_record_free(&record);
        close(file);
    }
    meet();
    expect_refused(path, "disagree about '/layers/dense/vars/0'");
}
END_TEST

/* What other programs do to a file takes its record away, and then what they did counts. */
static void edit(const char *path, void (*change)(hid_t file))
{
    if (is_chief()) {
        iso_hdf5_lock();
        hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
        ck_assert(file >= 0);
        change(file);
        ck_assert(H5Fclose(file) >= 0);
        iso_hdf5_unlock();
    }
    meet();
}

static void delete_dataset(hid_t file)
{
    ck_assert(H5Ldelete(file, "/layers/dense/vars/1", H5P_DEFAULT) >= 0);
}

static void delete_index(hid_t file)
{
    ck_assert(H5Ldelete(file, "/isogrid/index", H5P_DEFAULT) >= 0);
}

static void link_index(hid_t file)
{
    delete_index(file);
    ck_assert(H5Lcreate_soft("/isogrid/state", file, "/isogrid/index", H5P_DEFAULT, H5P_DEFAULT) >= 0);
}

static void change_index(hid_t file, const char *text)
{
    delete_index(file);
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, strlen(text) + 1);
    hid_t dataset = H5Dcreate2(file, "/isogrid/index", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) >= 0);
    H5Dclose(dataset);
    H5Tclose(type);
    H5Sclose(space);
}

static void index_no_json(hid_t file)
{
    change_index(file, "[{");
}

static void index_no_list(hid_t file)
{
    change_index(file, "{}");
}

static void index_no_place(hid_t file)
{
    change_index(file, "[{\"path\": \"a\"}]");
}

static void index_place_twice(hid_t file)
{
    change_index(
        file, "[{\"place\": \"/isogrids/flags\", \"path\": null}, {\"place\": \"/isogrids/flags\", \"path\": "
              "\"a\"}]");
}

static void index_path_twice(hid_t file)
{
    change_index(file,
                 "[{\"place\": \"/isogrids/flags\", \"path\": \"a\"}, {\"place\": \"/isogrids/blocks\", "
                 "\"path\": \"a\"}]");
}

START_TEST(test_edited)
{
    static const struct {
        void (*change)(hid_t file);
        const char *reason;
    } edits[] = {
        {delete_dataset, "dataset '/layers/dense/vars/1' is missing"},
        {link_index, "'/isogrid/index' is a soft link"},
        {index_no_json, "/isogrid/index, line 1"},
        {index_no_list, "is not a list"},
        {index_no_place, "entry 0 without 'place' and 'path'"},
        {index_place_twice, "the dataset '/isogrids/flags' twice"},
        {index_path_twice, "the path 'a' twice"},
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const char *path = save("a.weights.h5", &state.contents, &state.shards);
        edit(path, edits[i].change);
        expect_refused(path, edits[i].reason);
    }
}
END_TEST

/* Without index and record it is what Keras would have: tensors at places. */
START_TEST(test_without_mark)
{
    const char *path = save("a.weights.h5", &state.contents, &state.shards);
    iso_saved_file *file = NULL;
    edit(path, delete_index);
    check_ok(iso_saved_file_open(ctx, path, &file));
    ck_assert(!iso_saved_file_committed(file, NULL));
    ck_assert_int_eq(iso_saved_file_tensors(file), MADE_TENSORS);
    ck_assert_int_eq(iso_saved_file_of(file, "dense/kernel"), -1);
    ck_assert(!iso_saved_file_has_checksums(file)); /* it is not known whose they are */
    check_ok(iso_saved_file_verify(file));
    iso_saved_file_close(file);
}
END_TEST

static void add_vector(hid_t file, const char *name, hid_t type, const void *values)
{
    hsize_t three = 3;
    hid_t space = H5Screate_simple(1, &three, NULL);
    hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(dataset >= 0 && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
}

static void add_vectors(hid_t file)
{
    add_vector(file, "/large", H5T_NATIVE_UINT64, (uint64_t[]){1, UINT64_C(1) << 63, 3});
    add_vector(file, "/wide", H5T_NATIVE_INT64, (int64_t[]){1, 2, -INT64_C(4294967296)});
    add_vector(file, "/parts", H5T_NATIVE_DOUBLE, (double[]){0.5, 1, 1e300});
}

/* An element that cannot be converted is named with its value and the reason. */
START_TEST(test_values_that_do_not_fit)
{
    const char *path = save("a.weights.h5", &state.contents, &state.shards);
    iso_saved_file *file = NULL;
    char out[3 * 8];
    edit(path, add_vectors);
    check_ok(iso_saved_file_open(ctx, path, &file));
    iso_box all = iso_box_range(0, 3), last = iso_box_range(1, 2);
    int large = iso_saved_file_at(file, "/large"), parts = iso_saved_file_at(file, "/parts");
    check_refused(
        iso_saved_file_read(file, large, &all, ISO_F32, out),
        "element 1 of '/large', [3] of uint64, is 9223372036854775808, and integers are read below 2^63");
    check_refused(iso_saved_file_read(file, iso_saved_file_at(file, "/wide"), &last, ISO_I32, out),
                  "element 2 of '/wide', [3] of int64, is -4294967296, which does not fit into int32");
    check_refused(iso_saved_file_read(file, parts, &all, ISO_I32, out),
                  "element 0 of '/parts', [3] of float64, is 0.5, which does not fit into int32");
    check_refused(iso_saved_file_read(file, parts, &last, ISO_F32, out),
                  "1.0000000000000001e+300, which does not fit into float32");
    iso_saved_file_close(file);
}
END_TEST

/* The file of no rank is at fault. */
static void check_unequal(iso_status status, const char *part)
{
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_msg(strstr(iso_error_message(), part), "'%s' is not in '%s'", part, iso_error_message());
}

START_TEST(test_ranks_with_other_files)
{
    char paths[2][256];
    snprintf(paths[0], sizeof paths[0], "%s", save_version("a.weights.h5", 0));
    snprintf(paths[1], sizeof paths[1], "%s", save_version("b.weights.h5", 1));
    iso_saved_file *file = NULL;
    bool other = iso_rank(ctx) == 1;
    iso_status status = iso_saved_file_open(ctx, paths[other], &file);
    if (iso_ranks(ctx) == 1)
        check_ok(status);
    else
        check_unequal(status, "rank 1 differs from rank 0 in the file '");
    iso_saved_file_close(file);
    status = iso_saved_file_open(ctx, other ? in_folder(folder, "none") : paths[0], &file);
    if (iso_ranks(ctx) == 1)
        check_ok(status);
    else
        check_unequal(status, "rank 1: rank 0 has opened it, but on this rank '");
    iso_saved_file_close(file);
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    size_t held = iso_memory_held();
    if (status == ISO_OK &&
        RUN_TESTS_WITH("reading", 300, set_up, tear_down, test_what_was_saved, test_replaced_while_open,
                       test_changed_after_verifying, test_flipped_bits, test_cut_off,
                       test_mark_of_another_file, test_edited, test_without_mark, test_lost_record,
                       test_values_that_do_not_fit, test_ranks_with_other_files))
        status = iso_error(ISO_FAILED, "a test failed");
    if (status == ISO_OK && iso_memory_held() != held)
        status = iso_error(ISO_FAILED, "%zu bytes are left", iso_memory_held() - held);
    return iso_finish(ctx, status);
}
