/* Data sets on ranks and hosts: rows read once a host, one order everywhere, and a rank that fails alone. Two
 * ranks pretend to be a host. Ranks: 1, 3, 5   More: 2 */
#include <dlfcn.h>
#include <hdf5.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collectives/control/control.h"
#include "runtime/base/memory.h"
#include "runtime/data/open_impl.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

enum { RANKS_PER_HOST = 2, ROWS_ON_HOST = 100 };

static iso_context *ctx;

static char folder[64], path[160];

static void make_folder(void)
{
    OK(make_test_folder(ctx, folder));
}

static void remove_folder(void)
{
    OK(remove_test_folder(ctx, folder));
}

/* Three rows: images "abc", labels "ABC". */
static void write_rows(void)
{
    for (int i = 0; i < 2 && iso_rank(ctx) == 0; i++) {
        snprintf(path, sizeof path, "%s/train-%s-idx1-ubyte", folder, i ? "labels" : "images");
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        fwrite("\0\0\x08\x01\0\0\0\x03", 1, 8, f);
        fwrite(i ? "ABC" : "abc", 1, 3, f);
        fclose(f);
    }
    OK(iso_agree(ctx, ISO_OK));
}

static void expect_abc(iso_dataset *ds)
{
    uint8_t x[3], y[3];
    const iso_batch *batch = NULL;
    OK(iso_dataset_batch(ds, 3));
    OK(iso_dataset_next(ds, &batch));
    OK(batch->read(batch, 0, 0, 3, ISO_U8, x));
    OK(batch->read(batch, 1, 0, 3, ISO_U8, y));
    ck_assert(memcmp(x, "abc", 3) == 0 && memcmp(y, "ABC", 3) == 0);
}

/* The first rank of a host reads the files, the others see its rows, and they outlive the first one's. */
START_TEST(test_rows_are_shared)
{
    iso_dataset *ds = NULL;
    size_t held = iso_memory_held();
    write_rows();
    OK(iso_dataset_open(ctx, folder, ISO_TRAIN, &ds));
    ck_assert_str_eq(iso_dataset_source(ds), folder);
    if (iso_rank(ctx) % RANKS_PER_HOST == 0) {
        expect_abc(ds);
        iso_dataset_destroy(ds);
    }
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) % RANKS_PER_HOST) {
        expect_abc(ds);
        iso_dataset_destroy(ds);
    }
    ck_assert_uint_eq(iso_memory_held(), held);
}
END_TEST

/* 18 MB of rows are nobody's own where several ranks share a host; and the ranks that did not read them never
 * held a copy. */
START_TEST(test_shared_rows_are_held_once)
{
    enum { MOST = 1 << 20 };
    iso_dataset *ds = NULL;
    size_t held = iso_memory_held(), peak = iso_memory_peak();
    OK(iso_dataset_open(ctx, "random", ISO_TRAIN, &ds));
    ck_assert_int_eq(iso_memory_held() - held<MOST, iso_host_ranks(ctx)> 1);
    if (iso_rank(ctx) % RANKS_PER_HOST)
        ck_assert_uint_lt(iso_memory_peak() - peak, MOST);
    iso_dataset_destroy(ds);
    ck_assert_uint_eq(iso_memory_held(), held);
}
END_TEST

/* ---- the memory that a host takes while its ranks open a data set ---- */

/* The most that this process has seen of its private pages and those of shared rows; not watched: 0. */
static _Atomic size_t most_taken;

/* Pages of this process that are of no file and of no shared memory. */
static size_t private_bytes(void)
{
    size_t all = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert(f && fscanf(f, "%zu %zu %zu", &all, &resident, &shared) == 3);
    fclose(f);
    return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

static void note_memory(int fd)
{
    char link[64], name[64] = "";
    struct stat about;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, name, sizeof name - 1) < 0 || !strstr(name, "isogrid-data") || fstat(fd, &about) != 0)
        return;
    const size_t taken = private_bytes() + (size_t)about.st_blocks * 512;
    most_taken = taken > most_taken ? taken : most_taken;
}

/* Every copy to shared rows goes through this call. */
ssize_t write(int fd, const void *data, size_t bytes)
{
    ssize_t (*real)(int, const void *, size_t);
    void *address = dlsym(RTLD_NEXT, "write");
    memcpy(&real, &address, sizeof real);
    ssize_t written = real(fd, data, bytes);
    if (most_taken)
        note_memory(fd);
    return written;
}

/* The rank that reads rows for its host frees them as it copies them: 18 MB of rows never take 36. */
START_TEST(test_rows_are_held_once_while_they_are_opened)
{
    enum { ROWS_BYTES = 6000 * 28 * 28 * 4, SLACK = 8 << 20 };
    iso_dataset *ds = NULL;
    const size_t before = private_bytes();
    most_taken = 1;
    OK(iso_dataset_open(ctx, "random", ISO_TRAIN, &ds));
    const size_t most = most_taken;
    most_taken = 0;
    const bool copies = iso_is_host_leader(ctx) && iso_host_ranks(ctx) > 1;
    ck_assert_int_eq(most > 1, copies);
    if (copies) {
        ck_assert_uint_ge(most, before + ROWS_BYTES - SLACK);
        ck_assert_uint_lt(most, before + ROWS_BYTES + SLACK);
    }
    iso_dataset_destroy(ds);
}
END_TEST

/* Tokens and their targets overlap: they are shared once. */
START_TEST(test_tokens_are_shared)
{
    enum { CONTEXT = 4, COUNT = 23 };
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    int32_t token[5][CONTEXT];
    snprintf(path, sizeof path, "%s/tokens.txt", folder);
    if (iso_rank(ctx) == 0) {
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        for (int i = 0; i < COUNT; i++)
            fputc('a' + i, f);
        fclose(f);
    }
    OK(iso_agree(ctx, ISO_OK));
    OK(iso_dataset_open(ctx, path, ISO_TRAIN, &ds, .context = CONTEXT));
    OK(iso_dataset_batch(ds, 5));
    OK(iso_dataset_next(ds, &batch));
    for (int target = 0; target < 2; target++) {
        OK(batch->read(batch, target, 0, 5, ISO_I32, token));
        for (int i = 0; i < 5 * CONTEXT; i++)
            ck_assert_int_eq(token[i / CONTEXT][i % CONTEXT], 'a' + i + target);
    }
    iso_dataset_destroy(ds);
}
END_TEST

/* What is not in memory each rank opens for itself. */
START_TEST(test_rows_in_a_file_of_each_rank)
{
    iso_dataset *ds = NULL;
    const iso_batch *batch = NULL;
    float value[2];
    snprintf(path, sizeof path, "%s/rows.h5", folder);
    if (iso_rank(ctx) == 0) {
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, (hsize_t[]){2}, NULL);
        for (int i = 0; i < 2; i++) {
            hid_t set = H5Dcreate2(file, i ? "y" : "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT,
                                   H5P_DEFAULT);
            ck_assert(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, (float[]){1, 2}) >= 0);
            H5Dclose(set);
        }
        H5Sclose(space);
        H5Fclose(file);
    }
    OK(iso_agree(ctx, ISO_OK));
    for (size_t limit = 0; limit < 2; limit++) {
        OK(iso_dataset_open(ctx, path, ISO_TRAIN, &ds, .memory_limit = limit));
        OK(iso_dataset_batch(ds, 2));
        OK(iso_dataset_next(ds, &batch));
        OK(batch->read(batch, 1, 0, 2, ISO_F32, value));
        ck_assert(value[1] == 2);
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* Units of 8 rows are read from a file, the last one of a batch may be smaller. */
START_TEST(test_bytes_that_are_kept)
{
    enum { ROWS = 40, AHEAD = 2 };
    static const struct {
        int64_t batch, kept;
        int count;
        iso_row_range ranges[2];
    } cases[] = {{1, 1, 1, {{0, 1}}},          {9, 9, 1, {{0, 9}}}, {9, 1, 1, {{8, 1}}},
                 {9, 9, 2, {{0, 1}, {8, 1}}},  {9, 8, 1, {{3, 1}}}, {9, 8, 2, {{0, 2}, {5, 1}}},
                 {10, 10, 2, {{1, 2}, {5, 5}}}};
    snprintf(path, sizeof path, "%s/kept.h5", folder);
    if (iso_rank(ctx) == 0) {
        const float zeros[ROWS] = {0};
        hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        hid_t space = H5Screate_simple(1, (hsize_t[]){ROWS}, NULL);
        for (int i = 0; i < 2; i++) {
            hid_t set = H5Dcreate2(file, i ? "y" : "x", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT,
                                   H5P_DEFAULT);
            ck_assert(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros) >= 0);
            H5Dclose(set);
        }
        H5Sclose(space);
        H5Fclose(file);
    }
    OK(iso_agree(ctx, ISO_OK));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_dataset *ds = NULL;
        const iso_batch *batch = NULL;
        size_t bytes = 0;
        OK(iso_dataset_open(ctx, path, ISO_TRAIN, &ds, .memory_limit = 1));
        OK(iso_dataset_batch(ds, cases[i].batch));
        OK(iso_dataset_prefetch(ds, AHEAD));
        OK(iso_dataset_next(ds, &batch));
        const iso_kept_bytes *kept = batch->kept(batch, cases[i].ranges, cases[i].count, &bytes);
        ck_assert(kept && kept->bytes == 0 && *kept->total == 0); /* no step has counted them */
        ck_assert_msg(bytes == (size_t)cases[i].kept * (1 + AHEAD) * 2 * sizeof(float), "case %zu: %zu", i,
                      bytes);
        iso_dataset_destroy(ds);
    }
}
END_TEST

/* Three components of 16 rows, anywhere in one piece of memory. */
static iso_status open_apart(const void *places, bool checked, iso_node **node)
{
    enum { ROW = 64 << 10 };
    const int *place = places; /* [3] in rows */
    const iso_spans spans = iso_spans_of_rows(16);
    iso_spec spec = {.n_components = 3, .n_inputs = 3};
    iso_memory_rows memory = {0};
    (void)checked;
    OK(iso_alloc((size_t)64 * ROW, "rows", &memory.owned[0]));
    for (int i = 0; i < 64 * ROW; i++)
        ((unsigned char *)memory.owned[0])[i] = (unsigned char)(1 + i / ROW);
    for (int i = 0; i < 3; i++) {
        spec.dtype[i] = ISO_U8;
        spec.shape[i] = ISO_SHAPE(ROW);
        spec.elements[i] = ROW;
        spec.bytes[i] = ROW;
        memory.data[i] = (const char *)memory.owned[0] + (ptrdiff_t)place[i] * ROW;
    }
    return iso_memory_node("apart", &spec, &spans, &memory, node);
}

START_TEST(test_components_that_overlap_are_shared)
{
    static const int places[][3] = {{0, 32, 8}, {8, 32, 0}, {32, 0, 47}, {0, 16, 32}, {5, 5, 5}, {20, 0, 10}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        iso_node *node = NULL;
        OK(iso_host_shared_open(ctx, "apart", &(iso_opener){open_apart, places[i]}, &node));
        for (int k = 0; k < 3; k++)
            for (int row = 0; row < 16; row++)
                ck_assert_int_eq(*(const unsigned char *)node->ops->peek(node, k, row),
                                 1 + places[i][k] + row);
        iso_node_release(node);
    }
}
END_TEST

/* A host whose file is missing makes all ranks fail, and its rank is named. */
START_TEST(test_one_host_fails)
{
    int ranks = iso_ranks(ctx), last = (ranks - 1) / RANKS_PER_HOST * RANKS_PER_HOST;
    bool lacks = iso_rank(ctx) >= last;
    iso_dataset *ds = NULL;
    write_rows();
    /* The name is the same everywhere; what is there is not. */
    setenv("ISOGRID_DATA", folder, 1);
    snprintf(path, sizeof path, "%s/fashion-mnist", folder);
    if (iso_rank(ctx) == 0)
        ck_assert_int_eq(symlink(".", path), 0);
    if (lacks) {
        snprintf(path, sizeof path, "%s/empty", folder);
        if (iso_rank(ctx) == last)
            ck_assert_int_eq(mkdir(path, 0700), 0);
        setenv("ISOGRID_DATA", path, 1);
        snprintf(path, sizeof path, "%s/empty/fashion-mnist", folder);
        if (iso_rank(ctx) == last)
            ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    OK(iso_agree(ctx, ISO_OK));
    FAILS(iso_dataset_open(ctx, "fashion-mnist", ISO_TRAIN, &ds), "/train-images-idx*");
    char who[32];
    snprintf(who, sizeof who, "rank %d: ", last);
    ck_assert_int_eq(strstr(iso_error_message(), who) != NULL, ranks > 1);
    ck_assert_ptr_null(ds);
    unsetenv("ISOGRID_DATA");
}
END_TEST

/* The last host has one other byte in one row: of IDX files, of an HDF5 file that is read at once, and of the
 * last row of one that is not. */
static void write_host_rows(int host, bool other)
{
    unsigned char row[ROWS_ON_HOST];
    for (int i = 0; i < ROWS_ON_HOST; i++)
        row[i] = (unsigned char)i;
    row[ROWS_ON_HOST - 1] ^= other;
    snprintf(path, sizeof path, "%s/host%d", folder, host);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/host%d/train-%s-idx1-ubyte", folder, host, i ? "labels" : "images");
        FILE *f = fopen(path, "wb");
        ck_assert_ptr_nonnull(f);
        fwrite((char[]){0, 0, 8, 1, 0, 0, 0, ROWS_ON_HOST}, 1, 8, f);
        fwrite(row, 1, sizeof row, f);
        fclose(f);
    }
    snprintf(path, sizeof path, "%s/host%d/rows.h5", folder, host);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    hid_t space = H5Screate_simple(1, (hsize_t[]){ROWS_ON_HOST}, NULL);
    for (int i = 0; i < 2; i++) {
        hid_t set =
            H5Dcreate2(file, i ? "y" : "x", H5T_NATIVE_UCHAR, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        ck_assert(H5Dwrite(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, row) >= 0);
        H5Dclose(set);
    }
    H5Sclose(space);
    H5Fclose(file);
}

START_TEST(test_hosts_with_other_data)
{
    static const struct {
        const char *name;
        size_t limit;
    } source[] = {{"data", 0}, {"data/rows.h5", 0}, {"data/rows.h5", 1}};
    int host = iso_rank(ctx) / RANKS_PER_HOST, hosts = iso_hosts(ctx);
    char cwd[400];
    ck_assert_ptr_nonnull(getcwd(cwd, sizeof cwd));
    for (int differ = 0; differ < 2; differ++) {
        if (iso_rank(ctx) % RANKS_PER_HOST == 0)
            write_host_rows(10 * differ + host, differ && host == hosts - 1);
        OK(iso_agree(ctx, ISO_OK));
        snprintf(path, sizeof path, "%s/host%d", folder, 10 * differ + host);
        ck_assert_int_eq(chdir(path), 0);
        if (iso_rank(ctx) % RANKS_PER_HOST == 0)
            ck_assert_int_eq(symlink(".", "data"), 0);
        OK(iso_agree(ctx, ISO_OK));
        for (int i = 0; i < 3; i++) {
            iso_dataset *ds = NULL;
            iso_status status =
                iso_dataset_open(ctx, source[i].name, ISO_TRAIN, &ds, .memory_limit = source[i].limit);
            ck_assert_msg(status == (differ && hosts > 1 ? ISO_INVALID : ISO_OK), "%s", iso_error_message());
            if (status != ISO_OK)
                ck_assert_msg(strstr(iso_error_message(), "from rank 0 in the rows of data set 'data") !=
                                  NULL,
                              "%s", iso_error_message());
            iso_dataset_destroy(ds);
        }
        ck_assert_int_eq(chdir(cwd), 0);
    }
}
END_TEST

START_TEST(test_ranks_ask_for_other_data)
{
    iso_dataset *ds = NULL;
    write_rows();
    iso_status status =
        iso_dataset_open(ctx, iso_rank(ctx) == iso_ranks(ctx) - 1 ? folder : "random", ISO_TRAIN, &ds);
    ck_assert_int_eq(status, iso_ranks(ctx) > 1 ? ISO_INVALID : ISO_OK);
    iso_dataset_destroy(ds);
}
END_TEST

START_TEST(test_ranks_with_other_data)
{
    float x[4] = {0};
    iso_dataset *ds = NULL;
    int64_t rows = iso_rank(ctx) == iso_ranks(ctx) - 1 ? 3 : 4;
    iso_status status = iso_dataset_arrays(ctx, &ds, .x = {x, ISO_F32, ISO_SHAPE(rows)});
    ck_assert_int_eq(status, iso_ranks(ctx) > 1 ? ISO_INVALID : ISO_OK);
    if (status != ISO_OK)
        ck_assert_msg(strstr(iso_error_message(), "3 rows") != NULL, "%s", iso_error_message());
    iso_dataset_destroy(ds);
}
END_TEST

/* Every rank sees the same order, that of a program without ranks. */
START_TEST(test_ranks_see_one_order)
{
    enum { ROWS = 200 };
    int32_t mine[2 * ROWS], alone[2 * ROWS];
    iso_dataset *ds = numbers(ctx, ROWS), *single = numbers(NULL, ROWS);
    OK(iso_dataset_shuffle(ds, 30));
    OK(iso_dataset_batch(ds, 16));
    OK(iso_dataset_shuffle(single, 30));
    OK(iso_dataset_batch(single, 16));
    OK(iso_dataset_rewind(ds, 2));
    OK(iso_dataset_rewind(single, 2));
    int words = read_epoch(ds, mine);
    ck_assert_int_eq(read_epoch(single, alone), words);
    ck_assert(memcmp(mine, alone, (size_t)words * sizeof mine[0]) == 0);
    iso_dataset_destroy(ds);
    iso_dataset_destroy(single);
}
END_TEST

static iso_status negate(const iso_element *in, void *const *out, void *user)
{
    (*(int *)user)++;
    *(int32_t *)out[0] = -*(const int32_t *)in->data[0];
    *(uint8_t *)out[1] = 0;
    return ISO_OK;
}

static iso_status copy_letters(const iso_element *in, void *const *out, void *user)
{
    ++*(int *)user;
    for (int c = 0; c < 2; c++)
        *(uint8_t *)out[c] = *(const uint8_t *)in->data[c];
    return ISO_OK;
}

/* The chief makes the file; the others, who see it, read it. */
START_TEST(test_cache_file)
{
    snprintf(path, sizeof path, "%s/cache", folder);
    for (int round = 0; round < 3; round++) {
        int calls = 0;
        int32_t words[21];
        iso_dataset *ds = numbers(ctx, 20);
        OK(iso_dataset_map(ds, negate, .user = &calls));
        OK(iso_dataset_cache(ds, path));
        ck_assert_int_eq(calls, round != 1 && iso_rank(ctx) == 0 ? 20 : 0);
        OK(iso_dataset_batch(ds, 20));
        ck_assert_int_eq(read_epoch(ds, words), 21);
        for (int i = 0; i < 20; i++)
            ck_assert_int_eq(words[i], -i);
        OK(iso_agree(ctx, ISO_OK));
        iso_dataset_destroy(ds);
        if (round == 1 && iso_rank(ctx) == 0)
            ck_assert_int_eq(truncate(path, 4000), 0);
        OK(iso_agree(ctx, ISO_OK));
    }
}
END_TEST

/* Rows that ranks share come from the same file as those of a rank that opens it alone: a cache made by one
 * serves the other. */
START_TEST(test_shared_rows_keep_their_identity)
{
    char cache[128];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    write_rows();
    for (int alone = 0; alone < 2; alone++) {
        int calls = 0;
        iso_dataset *ds = NULL;
        if (!alone || iso_rank(ctx) == 0) {
            OK(iso_dataset_open(alone ? NULL : ctx, folder, ISO_TRAIN, &ds));
            OK(iso_dataset_map(ds, copy_letters, .user = &calls));
            OK(iso_dataset_cache(ds, cache));
        }
        iso_dataset_destroy(ds);
        OK(iso_agree(ctx, ISO_OK));
        ck_assert_int_eq(calls, !alone && iso_rank(ctx) == 0 ? 3 : 0);
    }
}
END_TEST

/* Hosts without a common file system each make their own. */
START_TEST(test_cache_file_of_each_host)
{
    int calls = 0, host = iso_rank(ctx) / RANKS_PER_HOST;
    int32_t words[40];
    iso_dataset *ds = numbers(ctx, 20);
    snprintf(path, sizeof path, "%s/cache-%d", folder, host);
    OK(iso_dataset_map(ds, negate, .user = &calls));
    OK(iso_dataset_cache(ds, path));
    ck_assert_int_eq(calls, iso_rank(ctx) % RANKS_PER_HOST == 0 ? 20 : 0);
    ck_assert_int_eq(read_epoch(ds, words), 40);
    ck_assert_int_eq(words[38], -19);
    iso_dataset_destroy(ds);
}
END_TEST

/* One rank of all cannot make its cache. */
START_TEST(test_cache_file_fails_somewhere)
{
    int hosts = iso_hosts(ctx), calls = 0;
    bool fails = iso_rank(ctx) / RANKS_PER_HOST == hosts - 1;
    iso_dataset *ds = numbers(ctx, 20);
    snprintf(path, sizeof path, "%s/%scache", folder, fails ? "nowhere/" : "");
    OK(iso_dataset_map(ds, negate, .user = &calls));
    ck_assert_int_eq(iso_dataset_cache(ds, path), ISO_IO);
    ck_assert(strstr(iso_error_message(), "nowhere/cache"));
    iso_dataset_destroy(ds);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 1);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK &&
        RUN_TESTS_WITH(
            "ranks", 0, make_folder, remove_folder, test_rows_are_shared, test_shared_rows_are_held_once,
            test_rows_are_held_once_while_they_are_opened, test_tokens_are_shared, test_bytes_that_are_kept,
            test_components_that_overlap_are_shared, test_rows_in_a_file_of_each_rank, test_one_host_fails,
            test_hosts_with_other_data, test_ranks_ask_for_other_data, test_ranks_with_other_data,
            test_ranks_see_one_order, test_cache_file, test_shared_rows_keep_their_identity,
            test_cache_file_of_each_host, test_cache_file_fails_somewhere))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
