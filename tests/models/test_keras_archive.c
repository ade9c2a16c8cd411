/* The zip container of .keras files: what is in it is read whole or refused with the reason; nothing is left
 * in TMPDIR. Files that Python's zipfile made (tests/fuzz/corpus/keras_archive), and damaged ones.
 * Ranks: 1, 3
 * Sanitize: 1 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>

#include "collectives/control/control.h"
#include "models/keras/archive.h"
#include "runtime/base/memory.h"
#include "runtime/isogrid.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;

/* A file's bytes in room of its own. */
static char *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    char *data = malloc(1 << 17);
    *bytes = fread(data, 1, 1 << 17, file);
    ck_assert(*bytes < 1 << 17);
    fclose(file);
    return data;
}

static char *read_corpus(const char *name, size_t *bytes)
{
    char path[200];
    snprintf(path, sizeof path, "tests/fuzz/corpus/keras_archive/%s", name);
    return read_file(path, bytes);
}

static iso_status read_config(const char *data, size_t bytes, char **text)
{
    iso_keras_archive *archive;
    size_t length;
    iso_status status = iso_keras_archive_open_memory("net.keras", data, bytes, &archive);
    if (status != ISO_OK)
        return status;
    status = iso_keras_archive_read(archive, ISO_KERAS_CONFIG, text, &length);
    if (status == ISO_OK)
        ck_assert_uint_eq(length, strlen(*text));
    iso_keras_archive_close(archive);
    return status;
}

START_TEST(good_ones)
{
    static const char *const names[] = {"good", "deflated"};
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char *data = read_corpus(names[i], &bytes), *text = NULL;
        check_ok(read_config(data, bytes, &text));
        ck_assert_str_eq(text, "{\"class_name\": \"Sequential\"}");
        iso_free(text);
        free(data);
    }
}
END_TEST

START_TEST(others)
{
    static const struct {
        const char *name, *part;
    } cases[] = {
        {"stranger",
         "net.keras: holds '../etc/passwd'; a model of Keras 3 holds metadata.json, config.json and"},
        {"twice", "net.keras: holds one name twice"},
        {"no_config", "net.keras: holds no config.json"},
        {"bzip", "is compressed by method 12; deflate and none are supported"},
        {"encrypted", "is encrypted"},
        {"truncated", "net.keras: is not a zip file, which models of Keras are"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t bytes;
        char *data = read_corpus(cases[i].name, &bytes), *text;
        check_refused(read_config(data, bytes, &text), cases[i].part);
        free(data);
    }
    char *text;
    check_refused(read_config("", 0, &text), "holds no config.json");
    check_refused(read_config("{\"class_name\": 3}", 17, &text), "is not a zip file");
}
END_TEST

/* Every byte in turn is another: the text comes as it was, or there is an error. */
START_TEST(flipped_bytes)
{
    static const char *const names[] = {"good", "deflated"};
    int refused = 0;
    for (int i = 0; i < 2; i++) {
        size_t bytes;
        char *data = read_corpus(names[i], &bytes);
        for (size_t at = 0; at < bytes; at++) {
            char *text = NULL;
            data[at] ^= 0x41;
            if (read_config(data, bytes, &text) == ISO_OK)
                ck_assert_str_eq(text, "{\"class_name\": \"Sequential\"}");
            else
                refused++;
            iso_free(text);
            data[at] ^= 0x41;
        }
        free(data);
    }
    ck_assert_int_gt(refused, 300);
}
END_TEST

/* The central directory says that the deflated config.json has 4 GB. */
START_TEST(absurd_sizes)
{
    size_t bytes;
    char *data = read_corpus("deflated", &bytes), *text;
    for (size_t at = 0; at + 46 < bytes; at++) {
        bool central = memcmp(data + at, "PK\1\2", 4) == 0, local = memcmp(data + at, "PK\3\4", 4) == 0;
        if ((central && memcmp(data + at + 46, "config.json", 11) == 0) ||
            (local && memcmp(data + at + 30, "config.json", 11) == 0))
            memset(data + at + (central ? 24 : 22), 0x7f, 4);
    }
    check_refused(read_config(data, bytes, &text), "at most 67108864 are possible");
    free(data);
}
END_TEST

/* A size that is possible, but not of so few compressed bytes: deflate makes at most 1032 of one. */
START_TEST(sizes_that_deflate_cannot_make)
{
    size_t bytes;
    char *data = read_corpus("deflated", &bytes), *text;
    for (size_t at = 0; at + 46 < bytes; at++) {
        bool central = memcmp(data + at, "PK\1\2", 4) == 0, local = memcmp(data + at, "PK\3\4", 4) == 0;
        if ((central && memcmp(data + at + 46, "config.json", 11) == 0) ||
            (local && memcmp(data + at + 30, "config.json", 11) == 0))
            memcpy(data + at + (central ? 24 : 22), "\0\0\0\1", 4); /* 16 MiB */
    }
    check_refused(read_config(data, bytes, &text), "the archive says that config.json has 16777216 bytes");
    free(data);
}
END_TEST

/* ---- weights ---- */

/* The file system seems to have this room, in blocks of 512 bytes. */
static unsigned long blocks_free = 1UL << 40;

int fstatvfs(int file, struct statvfs *about)
{
    (void)file;
    *about = (struct statvfs){.f_frsize = 512, .f_bavail = blocks_free};
    return 0;
}

static int files_in(const char *folder)
{
    int count = 0;
    check_ok(iso_agree(ctx, ISO_OK)); /* everyone has removed its own */
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    check_ok(iso_agree(ctx, ISO_OK)); /* and has counted before anyone makes another */
    return count;
}

/* The first bytes of the HDF5 file within, and a place in the weights. */
static void damage(const char *from, const char *to, bool head)
{
    size_t bytes;
    char *data = read_file(from, &bytes), *hdf5 = memmem(data, bytes, "\x89HDF", 4);
    ck_assert_ptr_nonnull(hdf5);
    hdf5[head ? 1 : 4000] ^= 1;
    FILE *file = fopen(to, "wb");
    ck_assert(file && fwrite(data, 1, bytes, file) == bytes && fclose(file) == 0);
    free(data);
}

static iso_status load(const char *model_path, const char *weights)
{
    iso_model *model = NULL;
    iso_compile_options options;
    iso_status status = iso_keras_load(ctx, model_path, &model, .compile = &options);
    if (status == ISO_OK)
        status = iso_compile_with(model, &options, sizeof options);
    if (status == ISO_OK)
        status = iso_keras_load_weights(model, weights);
    iso_model_destroy(model);
    return status;
}

START_TEST(weights)
{
    static const char words[] = "tests/keras/models/words.keras",
                      convnet[] = "tests/keras/models/convnet.keras";
    char folder[64], broken[120];
    FILE *left = NULL;
    check_ok(make_test_folder(ctx, folder));
    setenv("TMPDIR", folder, 1);
    if (iso_is_chief(ctx)) { /* it holds it, and then is killed */
        snprintf(broken, sizeof broken, "%s/.isogrid-unpacked-left-words.weights.h5", folder);
        left = fopen(broken, "wb");
        ck_assert(left && flock(fileno(left), LOCK_EX) == 0);
    }
    check_ok(load(words, words));
    ck_assert_int_eq(files_in(folder), 1);
    if (iso_is_chief(ctx))
        fclose(left);
    blocks_free = 20;
    ck_assert_int_eq(load(words, words), ISO_IO);
    ck_assert_ptr_nonnull(strstr(iso_error_message(), "and there is room for 10240 to unpack it to '"));
    blocks_free = 1UL << 40;
    check_refused(load(words, convnet), "tests/keras/models/convnet.keras: model.weights.h5 has no /layers/");
    check_refused(load(words, "tests/keras/models/missing.keras"), "No such file or directory");
    check_refused(load("tests/keras/README.md", words), "README.md: is not a zip file");
    ck_assert_int_eq(files_in(folder), 0);
    snprintf(broken, sizeof broken, "%s/broken.keras", folder);
    for (int head = 0; head < 2; head++) {
        if (iso_is_chief(ctx))
            damage(words, broken, head);
        check_refused(load(words, broken), "broken.keras: model.weights.h5 is damaged: CRC error");
    }
    ck_assert_int_eq(files_in(folder), 1);
    setenv("TMPDIR", "/nowhere", 1);
    ck_assert_int_eq(load(words, words), ISO_IO);
    ck_assert_ptr_nonnull(
        strstr(iso_error_message(), "cannot make a file in '/nowhere' (TMPDIR names another"));
    unsetenv("TMPDIR");
    check_ok(remove_test_folder(ctx, folder));
}
END_TEST

int main(void)
{
    iso_status status = iso_init(NULL, NULL, &ctx);
    if (status != ISO_OK)
        return iso_finish(ctx, status);
    int failed = RUN_TESTS("the container of Keras's files", 0, good_ones, others, flipped_bytes,
                           absurd_sizes, sizes_that_deflate_cannot_make, weights);
    return iso_finish(ctx, ISO_OK) || failed;
}
