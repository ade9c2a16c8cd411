/* Saving checkpoints: what is in the file, byte by byte and as HDF5 and h5py see it, the same from any number
 * of ranks; rotation, `latest` and `best`; what is refused, and folders that fail.
 * Ranks: 1, 3, 5 */
#include <fcntl.h>
#include <hdf5.h>
#include <sys/file.h>
#include <zlib.h>

#include "runtime/base/lock.h"
#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/saver.h"
#include "tests/support/checkpoints.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];
static iso_saver *saver;
static made_state state;

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
    made_state_begin(&state, ctx, 0);
}

static void tear_down(void)
{
    iso_saver_destroy(saver);
    saver = NULL;
    made_state_end(&state);
    check_ok(remove_test_folder(ctx, folder));
}

static bool is_chief(void)
{
    return iso_rank(ctx) == 0;
}

/* Waits until it is committed. */
static void save(const char *name, bool best)
{
    iso_status last;
    check_ok(iso_saver_save(saver, in_folder(folder, name), &state.contents, &state.shards, best, &last));
    check_ok(last);
    check_ok(iso_saver_wait(saver));
    ck_assert_str_eq(iso_saver_message(saver), "");
}

/* ---- what is in a file ---- */

static void check_tensor(int file, const iso_commit_record *record, int t, int version)
{
    size_t bytes = made_bytes(&state.tensor[t]);
    void *expected = made_values(&state.tensor[t], t, version);
    char *found = malloc(bytes + 1);
    ck_assert_uint_eq(record->tensors[t].bytes, bytes);
    ck_assert_int_eq(pread(file, found, bytes, (off_t)record->tensors[t].offset), bytes);
    ck_assert_msg(memcmp(found, expected, bytes) == 0, "'%s' has other bytes", state.tensor[t].h5_path);
    ck_assert_msg(record->tensors[t].crc == crc32(0, expected, (uInt)bytes), "'%s' has another checksum",
                  state.tensor[t].h5_path);
    free(expected);
    free(found);
}

/* By the record alone. */
static void check_raw(const char *path, int version)
{
    iso_commit_record record;
    bool found = false;
    int file = open(path, O_RDONLY);
    ck_assert_msg(file >= 0, "'%s' is missing", path);
    check_ok(iso_commit_record_read(file, path, &found, &record));
    ck_assert(found);
    check_ok(iso_commit_record_check_others(file, path, &record));
    ck_assert_uint_eq(record.number, 1000 + (uint64_t)version);
    ck_assert_int_eq(record.n_tensors, MADE_TENSORS);
    for (int t = 0; t < MADE_TENSORS; t++)
        check_tensor(file, &record, t, version);
    iso_commit_record_free(&record);
    close(file);
}

/* In the memory's type, whose class and size must be the file's. */
static void check_dataset(hid_t file, int t, int version)
{
    static const hid_t none = -1;
    size_t bytes = made_bytes(&state.tensor[t]);
    hid_t dataset = H5Dopen2(file, state.tensor[t].h5_path, H5P_DEFAULT);
    ck_assert_msg(dataset != none, "'%s' is missing", state.tensor[t].h5_path);
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset);
    hsize_t dim[ISO_MAX_RANK];
    ck_assert_uint_eq(H5Tget_size(type), iso_dtype_size(state.tensor[t].dtype));
    ck_assert_int_eq(H5Tget_class(type) == H5T_FLOAT, iso_dtype_is_float(state.tensor[t].dtype));
    ck_assert_int_eq(H5Tget_class(type) == H5T_ENUM, state.tensor[t].dtype == ISO_BOOL);
    ck_assert_int_eq(H5Sget_simple_extent_dims(space, dim, NULL), state.tensor[t].shape.rank);
    for (int d = 0; d < state.tensor[t].shape.rank; d++)
        ck_assert_uint_eq(dim[d], (hsize_t)state.tensor[t].shape.dim[d]);
    char *found = malloc(bytes + 1);
    void *expected = made_values(&state.tensor[t], t, version);
    ck_assert_int_ge(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, found), 0);
    ck_assert_msg(memcmp(found, expected, bytes) == 0, "HDF5 reads other values of '%s'",
                  state.tensor[t].h5_path);
    free(found);
    free(expected);
    H5Dclose(dataset);
}

static void check_name(hid_t file, const iso_saved_group *about)
{
    char *name = NULL;
    hid_t group = H5Gopen2(file, about->h5_path, H5P_DEFAULT);
    ck_assert_int_ge(group, 0);
    ck_assert_int_eq(H5Aexists(group, "name") > 0, about->name != NULL);
    if (about->name) {
        hid_t attribute = H5Aopen(group, "name", H5P_DEFAULT), type = H5Aget_type(attribute);
        ck_assert(H5Tis_variable_str(type) > 0 && H5Tget_cset(type) == H5T_CSET_UTF8);
        ck_assert_int_ge(H5Aread(attribute, type, &name), 0);
        ck_assert_str_eq(name, about->name);
        H5free_memory(name);
        H5Tclose(type);
        H5Aclose(attribute);
    }
    H5Gclose(group);
}

static void check_text(hid_t file, const char *h5_path, const char *begin)
{
    hid_t dataset = H5Dopen2(file, h5_path, H5P_DEFAULT), type = H5Dget_type(dataset);
    char *text = calloc(1, H5Tget_size(type) + 1);
    ck_assert_int_ge(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text), 0);
    ck_assert_msg(strncmp(text, begin, strlen(begin)) == 0, "'%s' is '%s'", h5_path, text);
    free(text);
    H5Tclose(type);
    H5Dclose(dataset);
}

/* With HDF5. */
static void check_hdf5(const char *path, int version)
{
    iso_hdf5_lock();
    ck_assert_int_gt(H5Fis_hdf5(path), 0);
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), made = H5Fget_create_plist(file);
    unsigned super = 9, other;
    ck_assert_int_ge(H5Pget_version(made, &super, &other, &other, &other), 0);
    ck_assert_uint_eq(super, 0);
    for (int t = 0; t < MADE_TENSORS; t++)
        check_dataset(file, t, version);
    for (int g = 0; g < MADE_GROUPS; g++)
        check_name(file, &state.group[g]);
    check_text(file, "/isogrid/state", state.contents.state);
    check_text(file, "/isogrid/index", "[{\"place\":\"/layers/dense/vars/0\",\"path\":\"dense/kernel\"},");
    H5Pclose(made);
    ck_assert_int_ge(H5Fclose(file), 0);
    iso_hdf5_unlock();
}

static void check_file(const char *name, int version)
{
    if (is_chief()) {
        check_raw(in_folder(folder, name), version);
        check_hdf5(in_folder(folder, name), version);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}

START_TEST(test_what_is_in_a_file)
{
    check_ok(iso_saver_create(ctx, &saver));
    save("a.weights.h5", false);
    check_file("a.weights.h5", 0);
    ck_assert_str_eq(names_in(folder), "a.weights.h5 latest");
}
END_TEST

/* Straight from the shards, before the call returns. */
START_TEST(test_a_save_that_waits)
{
    size_t before = iso_memory_held();
    check_ok(iso_saver_create(ctx, &saver, .waits = true));
    check_ok(
        iso_saver_save(saver, in_folder(folder, "a.weights.h5"), &state.contents, &state.shards, true, NULL));
    ck_assert_str_eq(names_in(folder), "a.weights.h5 best latest");
    /* Memory is only for windows of the matrix that is cut into short runs: see test_memory. */
    if (!state.shards.shards[0].stream) /* the host writes what it may not access from a copy */
        ck_assert_uint_lt(iso_memory_held(), before + (7 << 19));
    check_file("a.weights.h5", 0);
}
END_TEST

/* Through HDF5's parallel driver: the same file. */
START_TEST(test_a_save_by_mpio)
{
    check_ok(iso_saver_create(ctx, &saver, .mpio = true));
    for (int n = 0; n < 2; n++) {
        check_ok(iso_saver_save(saver, in_folder(folder, "a.weights.h5"), &state.contents, &state.shards,
                                true, NULL));
        ck_assert_str_eq(names_in(folder), "a.weights.h5 best latest");
        check_file("a.weights.h5", 0);
    }
}
END_TEST

/* From any number of ranks: the file's checksum is what one rank gave when this was
 * written. By our own calls, and by HDF5's parallel driver. */
START_TEST(test_same_bytes_from_any_ranks)
{
    check_ok(iso_saver_create(ctx, &saver, .mpio = _i));
    save("a.weights.h5", false);
    if (is_chief()) {
        struct stat about;
        int file = open(in_folder(folder, "a.weights.h5"), O_RDONLY);
        ck_assert_int_eq(fstat(file, &about), 0);
        char *all = malloc((size_t)about.st_size);
        ck_assert_int_eq(read(file, all, (size_t)about.st_size), about.st_size);
        ck_assert_msg(iso_crc(0, all, (size_t)about.st_size) == 0x9e053d3e, "the file's checksum is %08x",
                      (unsigned)iso_crc(0, all, (size_t)about.st_size));
        free(all);
        close(file);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}
END_TEST

/* Later saves use the same layout; another state, number and version of the values. */
START_TEST(test_saves_again)
{
    iso_status last = ISO_FAILED;
    check_ok(iso_saver_create(ctx, &saver));
    for (int version = 0; version < 4; version++) {
        char name[32];
        snprintf(name, sizeof name, "%d.weights.h5", version);
        made_state_end(&state);
        made_state_begin(&state, ctx, version);
        check_ok(
            iso_saver_save(saver, in_folder(folder, name), &state.contents, &state.shards, false, &last));
        check_ok(last);
        made_state_end(&state); /* what was given may change, and go, at once */
        made_state_begin(&state, ctx, 7);
        while (version == 2 && strstr(names_in(folder), " 2.weights.h5") == NULL)
            iso_saver_poll(saver); /* polling alone gets it there */
    }
    check_ok(iso_saver_wait(saver));
    check_ok(iso_saver_wait(saver));
    for (int version = 0; version < 4; version++) {
        char name[32];
        snprintf(name, sizeof name, "%d.weights.h5", version);
        check_file(name, version);
    }
}
END_TEST

/* A state that outgrows its room; other tensors. */
START_TEST(test_layout_changes)
{
    char *text = malloc(100001);
    check_ok(iso_saver_create(ctx, &saver));
    save("a.weights.h5", false);
    snprintf(text, 100001, "{\"x\": \"%099990d\"}", 7);
    state.contents.state = text;
    save("a.weights.h5", false);
    check_file("a.weights.h5", 0);
    state.contents.n_tensors -= 2;
    state.contents.state = "{}";
    save("b.weights.h5", false);
    state.contents.n_tensors += 2;
    state.contents.state = "{\"again\": 1}";
    save("a.weights.h5", false);
    check_file("a.weights.h5", 0);
    free(text);
}
END_TEST

START_TEST(test_nothing_to_save)
{
    iso_file_spec nothing = {.state = "", .number = 3};
    iso_state_shards none = {0};
    check_ok(iso_saver_create(ctx, &saver, .waits = true));
    check_ok(iso_saver_save(saver, in_folder(folder, "a.weights.h5"), &nothing, &none, false, NULL));
    if (is_chief()) {
        ck_assert_int_gt(H5Fis_hdf5(in_folder(folder, "a.weights.h5")), 0);
    }
}
END_TEST

/* ---- rotation ---- */

static void expect_line(const char *name, const char *expected)
{
    char line[100] = "";
    FILE *file = fopen(in_folder(folder, name), "r");
    ck_assert_msg(file != NULL, "'%s' is missing", name);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, file));
    fclose(file);
    ck_assert_str_eq(line, expected);
}

START_TEST(test_rotation)
{
    check_ok(iso_saver_create(ctx, &saver, .keep = 2));
    save("1.weights.h5", false);
    save("2.weights.h5", true);
    save("3.weights.h5", false);
    ck_assert_str_eq(names_in(folder), "2.weights.h5 3.weights.h5 best latest");
    expect_line("latest", "3.weights.h5\n");
    expect_line("best", "2.weights.h5\n");
    save("4.weights.h5", false);
    ck_assert_str_eq(names_in(folder), "2.weights.h5 3.weights.h5 4.weights.h5 best latest");
    save("3.weights.h5", true); /* again: now it is the newest, and the best */
    ck_assert_str_eq(names_in(folder), "3.weights.h5 4.weights.h5 best latest");
    expect_line("best", "3.weights.h5\n");
    check_file("3.weights.h5", 0);
}
END_TEST

static void put_file(const char *name, const char *text)
{
    FILE *file = is_chief() ? fopen(in_folder(folder, name), "w") : NULL;
    if (file) {
        fputs(text, file);
        fclose(file);
    }
    check_ok(iso_agree(ctx, ISO_OK));
}

static void check_number(const char *name, uint64_t expected)
{
    iso_saved_file *file = NULL;
    uint64_t number = 0;
    check_ok(iso_saved_file_open(ctx, in_folder(folder, name), &file));
    ck_assert(iso_saved_file_committed(file, &number));
    ck_assert_uint_eq(number, expected);
    iso_saved_file_close(file);
}

/* Checkpoints that were there before count; files of others, and those without a record, are not touched. */
START_TEST(test_adoption)
{
    check_ok(iso_saver_create(ctx, &saver));
    state.contents.number = 20;
    save("2-0.5.weights.h5", false);
    save("final-0.5.weights.h5", false);
    save("2-best.weights.h5", false);
    state.contents.number = 30; /* of another run in the same folder */
    save("run-7.weights.h5", false);
    state.contents.number = 0; /* weights alone */
    save("4-0.5.weights.h5", false);
    state.contents.number = 10;
    save("3-0.5.weights.h5", false);
    save("other.weights.h5", false);
    iso_saver_destroy(saver);
    put_file("1-0.5.weights.h5", "Keras wrote this");
    put_file(".x.weights.h5.saving-0123abcd", "left behind");
    put_file(".x.weights.h5.saving-0123abc", "not ours");
    check_ok(iso_saver_create(ctx, &saver, .keep = 2));
    check_ok(iso_saver_adopt(saver, in_folder(folder, "{epoch}-{loss:.1f}.weights.h5")));
    ck_assert_str_eq(
        names_in(folder),
        ".x.weights.h5.saving-0123abc 1-0.5.weights.h5 2-0.5.weights.h5 2-best.weights.h5 "
        "3-0.5.weights.h5 4-0.5.weights.h5 final-0.5.weights.h5 latest other.weights.h5 run-7.weights.h5");
    save("5-0.5.weights.h5", false);
    ck_assert_str_eq(
        names_in(folder),
        ".x.weights.h5.saving-0123abc 1-0.5.weights.h5 2-0.5.weights.h5 2-best.weights.h5 "
        "4-0.5.weights.h5 5-0.5.weights.h5 final-0.5.weights.h5 latest other.weights.h5 run-7.weights.h5");
    check_number("5-0.5.weights.h5", 40);
    check_ok(iso_saver_adopt(saver, in_folder(folder, "missing/{epoch}.weights.h5")));
}
END_TEST

/* What another saver writes at the moment is not removed; what nobody writes is. */
START_TEST(test_stale_files)
{
    int file = -1;
    put_file(".x.weights.h5.saving-0123abcd", "left behind");
    put_file(".y.weights.h5.saving-0123abcd", "being written");
    if (is_chief()) {
        file = open(in_folder(folder, ".y.weights.h5.saving-0123abcd"), O_RDWR);
        ck_assert_int_eq(flock(file, LOCK_SH), 0);
    }
    check_ok(iso_saver_create(ctx, &saver));
    save("1.weights.h5", false);
    ck_assert_str_eq(names_in(folder), ".y.weights.h5.saving-0123abcd 1.weights.h5 latest");
    check_ok(iso_agree(ctx, ISO_OK));
    if (file >= 0)
        close(file);
    save("2.weights.h5", false);
    ck_assert_str_eq(names_in(folder), "1.weights.h5 2.weights.h5 latest");
}
END_TEST

START_TEST(test_missing_folders_are_made)
{
    check_ok(iso_saver_create(ctx, &saver));
    save("a/b//c/1.weights.h5", false);
    check_file("a/b//c/1.weights.h5", 0);
    ck_assert_str_eq(names_in(in_folder(folder, "a/b/c")), "1.weights.h5 latest");
    if (is_chief())
        ck_assert_int_eq(chdir(folder), 0);
    iso_status status = is_chief() ? ISO_OK : chdir(folder) ? ISO_FAILED : ISO_OK;
    check_ok(iso_agree(ctx, status));
    check_ok(iso_saver_save(saver, "d/1.weights.h5", &state.contents, &state.shards, false, NULL));
    check_ok(iso_saver_save(saver, "1.weights.h5", &state.contents, &state.shards, false, NULL));
    check_ok(iso_saver_wait(saver));
    ck_assert_str_eq(names_in(folder), "1.weights.h5 a d latest");
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

/* ---- refusals and failures ---- */

static void expect_refused(const char *name, const char *part)
{
    iso_status last = ISO_FAILED;
    check_refused(
        iso_saver_save(saver, in_folder(folder, name), &state.contents, &state.shards, false, &last), part);
    check_ok(last);
    ck_assert_str_eq(names_in(folder), "");
}

START_TEST(test_wrong_contents)
{
    check_ok(iso_saver_create(ctx, &saver));
    expect_refused("a.h5", "ends in \".weights.h5\"");
    expect_refused(".weights.h5", "ends in");
    expect_refused(".a.weights.h5", "dot");
    state.tensor[0].h5_path = "layers/dense";
    expect_refused("a.weights.h5", "'layers/dense' is not an HDF5 path");
    state.tensor[0].h5_path = "/layers//dense";
    expect_refused("a.weights.h5", "not an HDF5 path");
    state.tensor[0].h5_path = "/layers/../dense";
    expect_refused("a.weights.h5", "not an HDF5 path");
    state.tensor[0].h5_path = "/layers/de\nnse";
    expect_refused("a.weights.h5", "HDF5 path '/layers/de?nse': the name is not UTF-8");
    state.tensor[0].h5_path = "/isogrid/state";
    expect_refused("a.weights.h5", "are reserved");
    state.tensor[0].h5_path = state.tensor[1].h5_path;
    expect_refused("a.weights.h5",
                   "'/layers/dense/vars/1': it cannot be laid out in a file: name already exists");
    state.tensor[0].h5_path = "/layers/dense/vars/0";
    state.tensor[0].dtype = ISO_F64;
    expect_refused("a.weights.h5",
                   "'dense/kernel' is to be saved as float64 [7, 10], but is float32 [7, 10]");
    state.tensor[0].dtype = ISO_F32;
    state.tensor[0].shape.dim[0] = 8;
    expect_refused("a.weights.h5", "[8, 10]");
    state.tensor[0].shape.dim[0] = INT64_MAX / 11;
    expect_refused("a.weights.h5", "too many");
    state.tensor[0].shape.dim[0] = 7;
    state.tensor[0].path = "dense/none";
    expect_refused("a.weights.h5", "the ranks write 0 of the 70 elements of 'dense/none'");
    state.tensor[0].path = "dense/\xC2\x9Bno\xFF";
    expect_refused("a.weights.h5", "tensor 'dense/??no?': the name is not UTF-8");
    state.tensor[0].path = "dense/bias";
    expect_refused("a.weights.h5", "'dense/bias' is to be saved under two HDF5 paths");
    state.tensor[0].path = NULL;
    expect_refused("a.weights.h5", "neither a path nor a value");
    state.tensor[0].path = "dense/kernel";
    state.contents.state = NULL;
    expect_refused("a.weights.h5", "state");
    state.contents.state = "{}";
    save("a.weights.h5", false);
}
END_TEST

START_TEST(test_wrong_shards)
{
    check_ok(iso_saver_create(ctx, &saver));
    iso_state_shard *shard = &state.shard[0];
    const iso_state_shard before = *shard;
    if (iso_rank(ctx) == iso_ranks(ctx) - 1)
        shard->begin = 1;
    expect_refused("a.weights.h5", "lies outside");
    *shard = before;
    shard->writer = !is_chief();
    expect_refused("a.weights.h5", "of the 70 elements of 'dense/kernel'");
    *shard = before;
    save("a.weights.h5", false);
    check_file("a.weights.h5", 0);
}
END_TEST

/* Ranks that do not agree on what is saved, or where. */
START_TEST(test_ranks_differ)
{
    bool last = iso_rank(ctx) == iso_ranks(ctx) - 1;
    if (iso_ranks(ctx) == 1)
        return;
    check_ok(iso_saver_create(ctx, &saver));
    state.tensor[3].h5_path = last ? "/other" : "/layers/conv2d/vars/0";
    char names[400], numbers[200], tensor[200];
    int end = iso_ranks(ctx) - 1;
    snprintf(tensor, sizeof tensor, "rank %d has '%s, ", end, state.tensor[3].path);
    snprintf(names, sizeof names, "in the tensors of checkpoint '%s': rank 0 has '%s, ",
             in_folder(folder, "a.weights.h5"), state.tensor[3].path);
    expect_refused("a.weights.h5", names);
    ck_assert_msg(strstr(iso_error_message(), tensor) && strstr(iso_error_message(), "at /other'"), "%s",
                  iso_error_message());
    state.tensor[3].h5_path = "/layers/conv2d/vars/0";
    snprintf(names, sizeof names, "in the name of the checkpoint: rank 0 has '%s', rank %d has '",
             in_folder(folder, "b.weights.h5"), end);
    expect_refused(last ? "a.weights.h5" : "b.weights.h5", names);
    snprintf(numbers, sizeof numbers, "in the number of the checkpoint: rank 0 has '%d', rank %d has '%d'",
             (int)state.contents.number, end, (int)state.contents.number + 1);
    state.contents.number += last;
    expect_refused("a.weights.h5", numbers);
    state.contents.number -= last;
    expect_refused(last ? "a.h5" : "a.weights.h5", "rank ");
    save("a.weights.h5", false);
}
END_TEST

static void expect_failure(const char *name, const char *part)
{
    iso_status status =
        iso_saver_save(saver, in_folder(folder, name), &state.contents, &state.shards, false, NULL);
    if (status == ISO_OK) {
        status = iso_saver_wait(saver);
        ck_assert_msg(strstr(iso_saver_message(saver), part), "%s", iso_saver_message(saver));
    }
    ck_assert_int_eq(status, ISO_IO);
    ck_assert_msg(strstr(iso_error_message(), part), "%s", iso_error_message());
    check_ok(iso_saver_wait(saver)); /* a status is given out once */
}

START_TEST(test_failing_folders)
{
    check_ok(iso_saver_create(ctx, &saver));
    put_file("file", "not a folder");
    expect_failure("file/a.weights.h5", "File exists");
    expect_failure("file/b/a.weights.h5", "File exists");
    if (is_chief())
        ck_assert_int_eq(mkdir(in_folder(folder, "a.weights.h5"), 0777), 0);
    check_ok(iso_agree(ctx, ISO_OK));
    expect_failure("a.weights.h5", "Is a directory");
    ck_assert_str_eq(names_in(folder), "a.weights.h5 file");
    save("b.weights.h5", false);
    check_file("b.weights.h5", 0);
}
END_TEST

/* `latest` cannot be moved: a warning, no lost checkpoint. */
START_TEST(test_latest_fails)
{
    check_ok(iso_saver_create(ctx, &saver, .keep = 1));
    save("1.weights.h5", false);
    if (is_chief()) {
        ck_assert_int_eq(unlink(in_folder(folder, "latest")), 0);
        ck_assert_int_eq(mkdir(in_folder(folder, "latest"), 0777), 0);
    }
    check_ok(iso_agree(ctx, ISO_OK));
    check_ok(iso_saver_save(saver, in_folder(folder, "2.weights.h5"), &state.contents, &state.shards, false,
                            NULL));
    check_ok(iso_saver_wait(saver));
    ck_assert_ptr_nonnull(strstr(iso_saver_message(saver), "it is written, but '"));
    ck_assert_str_eq(names_in(folder), "1.weights.h5 2.weights.h5 latest");
    check_file("2.weights.h5", 0);
}
END_TEST

/* The status of a save comes with the next. */
START_TEST(test_last_status)
{
    iso_status last = ISO_OK;
    check_ok(iso_saver_create(ctx, &saver));
    if (is_chief())
        ck_assert_int_eq(mkdir(in_folder(folder, "a.weights.h5"), 0777), 0);
    check_ok(iso_agree(ctx, ISO_OK));
    check_ok(iso_saver_save(saver, in_folder(folder, "a.weights.h5"), &state.contents, &state.shards, false,
                            &last));
    check_ok(last);
    check_ok(iso_saver_save(saver, in_folder(folder, "b.weights.h5"), &state.contents, &state.shards, false,
                            &last));
    ck_assert_int_eq(last, ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_saver_message(saver), "a.weights.h5"));
    check_ok(iso_saver_wait(saver));
    check_file("b.weights.h5", 0);
}
END_TEST

/* A saver holds one copy of what this rank has, and windows of what changes hands: that which is put together
 * and two under way. It gives all back. */
START_TEST(test_memory)
{
    enum { MARGIN = 7 << 19 };
    size_t own = 0, before = iso_memory_held();
    for (int i = 0; i < state.shards.count; i++)
        if (state.shard[i].writer)
            own += (size_t)state.shard[i].count * iso_dtype_size(state.shard[i].dtype);
    check_ok(iso_saver_create(ctx, &saver));
    for (int n = 0; n < 3; n++)
        save("a.weights.h5", false);
    ck_assert_uint_le(iso_memory_peak(), before + own + MARGIN);
    iso_saver_destroy(saver);
    saver = NULL;
    ck_assert_uint_eq(iso_memory_held(), before);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 1);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    TCase *cases = tcase_create("save");
    tcase_add_checked_fixture(cases, set_up, tear_down);
    tcase_add_test(cases, test_memory); /* the first, for its peak */
    tcase_add_test(cases, test_what_is_in_a_file);
    tcase_add_test(cases, test_a_save_that_waits);
    tcase_add_test(cases, test_a_save_by_mpio);
    tcase_add_loop_test(cases, test_same_bytes_from_any_ranks, 0, 2);
    tcase_add_test(cases, test_saves_again);
    tcase_add_test(cases, test_layout_changes);
    tcase_add_test(cases, test_nothing_to_save);
    tcase_add_test(cases, test_rotation);
    tcase_add_test(cases, test_adoption);
    tcase_add_test(cases, test_stale_files);
    tcase_add_test(cases, test_missing_folders_are_made);
    tcase_add_test(cases, test_wrong_contents);
    tcase_add_test(cases, test_wrong_shards);
    tcase_add_test(cases, test_ranks_differ);
    tcase_add_test(cases, test_failing_folders);
    tcase_add_test(cases, test_latest_fails);
    tcase_add_test(cases, test_last_status);
    Suite *suite = suite_create("save");
    suite_add_tcase(suite, cases);
    if (run_suite(suite))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
