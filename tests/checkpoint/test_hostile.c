/* Files made to break HDF5. None ends the job: each is refused with a message that names it, on all ranks
 * alike, or reads to its end. tests/checkpoint/hostile are small ones of our own (make_hostile.py); where
 * ISOGRID_HDF5_ATTACKS names a folder, such as that of HDF5's own collection (github.com/HDFGroup/cve_hdf5),
 * its files too. Ranks: 1, 3 */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/session/session.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static struct {
    int files, opened, refused, crashed, endless;
} tally;

/* Reads all tensors as they are; the first that cannot be read is a refusal too. */
static iso_status read_all(iso_saved_file *file)
{
    iso_status status = ISO_OK;
    for (int i = 0; i < iso_saved_file_tensors(file) && status == ISO_OK; i++) {
        const iso_saved_tensor *t = iso_saved_file_tensor(file, i);
        iso_box whole = iso_box_whole(&t->shape);
        void *out = NULL;
        status = iso_alloc((size_t)iso_box_count(&whole) * iso_dtype_size(t->dtype), t->h5_path, &out);
        if (status == ISO_OK)
            status = iso_saved_file_read(file, i, &whole, t->dtype, out);
        iso_free(out);
    }
    return status;
}

static void try_file(const char *path)
{
    iso_saved_file *file = NULL;
    iso_status status = iso_saved_file_open(ctx, path, &file);
    uint8_t all[64] = {(uint8_t)status};
    iso_gather_all(ctx, &(uint8_t){(uint8_t)status}, 1, all);
    for (int i = 0; i < iso_ranks(ctx); i++)
        ck_assert_int_eq(all[i], (int)status);
    tally.files++;
    tally.opened += status == ISO_OK;
    if (status == ISO_OK)
        status = read_all(file);
    iso_saved_file_close(file);
    if (status == ISO_OK)
        return;
    const char *message = iso_error_message();
    ck_assert_msg(status == ISO_INVALID && strstr(message, path), "%s: %d, %s", path, (int)status, message);
    tally.refused++;
    tally.crashed += strstr(message, "HDF5 itself failed on it: signal") != NULL;
    tally.endless += strstr(message, "did not finish") != NULL;
    if (iso_is_chief(ctx) && getenv("ISOGRID_HDF5_ATTACKS"))
        printf("  %s\n", message);
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void try_folder(const char *folder)
{
    static char paths[4096][512];
    int count = 0;
    DIR *open = opendir(folder);
    ck_assert_msg(open, "%s", folder);
    for (struct dirent *entry; (entry = readdir(open)) && count < 4096;)
        if (entry->d_name[0] != '.')
            snprintf(paths[count++], sizeof paths[0], "%s/%s", folder, entry->d_name);
    closedir(open);
    qsort(paths, (size_t)count, sizeof paths[0], compare);
    memset(&tally, 0, sizeof tally);
    for (int i = 0; i < count; i++)
        try_file(paths[i]);
    if (iso_is_chief(ctx))
        printf("%s: %d files, %d opened, %d refused; HDF5 crashed on %d and did not end on %d\n", folder,
               tally.files, tally.opened, tally.refused, tally.crashed, tally.endless);
}

START_TEST(test_ours)
{
    try_folder("tests/checkpoint/hostile");
    ck_assert_int_eq(tally.refused, tally.files);
    ck_assert_int_gt(tally.crashed + tally.endless, 0); /* else they prove nothing */
}
END_TEST

START_TEST(test_collection)
{
    if (getenv("ISOGRID_HDF5_ATTACKS"))
        try_folder(getenv("ISOGRID_HDF5_ATTACKS"));
    else if (iso_is_chief(ctx))
        report_skipped("files of others", "ISOGRID_HDF5_ATTACKS names no folder of files");
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("hostile files", 600, test_ours, test_collection))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
