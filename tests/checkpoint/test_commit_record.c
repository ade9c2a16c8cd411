/* Checksums of parts, and the commit record: written, read, damaged in every byte, and made up. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/checkpoint/commit_record.h"
#include "runtime/checkpoint/crc.h"
#include "runtime/checkpoint/file_io_impl.h"
#include "runtime/checkpoint/file_names.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

enum { HDF5_BYTES = 1000, TENSORS = 4 };

/* ---- checksums ---- */

START_TEST(test_crc_is_zlibs)
{
    ck_assert_uint_eq(iso_crc(0, "123456789", 9), 0xCBF43926);
    ck_assert_uint_eq(iso_crc(iso_crc(0, "1234", 4), "56789", 5), 0xCBF43926);
    ck_assert_uint_eq(iso_crc(7, "", 0), 7);
    ck_assert_uint_eq(iso_crc_shift(iso_crc(0, "1234", 4), 5) ^ iso_crc(0, "56789", 5), 0xCBF43926);
}
END_TEST

/* Ranks that each have some of the parts, of any size, in any order among them. */
START_TEST(test_crc_of_parts)
{
    unsigned char bytes[5000];
    dice d = dice_for(_i);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)throw_dice(&d, 256);
    int ranks = 1 + throw_dice(&d, 5), total = throw_dice(&d, sizeof bytes + 1),
        most = 1 + throw_dice(&d, 300);
    iso_crc_sum sum[5] = {{0}};
    for (int at = 0; at < total;) {
        int part = throw_dice(&d, most + 1);
        part = part < total - at ? part : total - at;
        iso_crc_sum_add(&sum[throw_dice(&d, ranks)], (uint64_t)at, bytes + at, (size_t)part);
        at += part;
    }
    uint32_t joined = 0;
    for (int r = 0; r < ranks; r++)
        joined ^= iso_crc_sum_get(&sum[r], (uint64_t)total);
    ck_assert_uint_eq(joined, crc32(0, bytes, (uInt)total));
}
END_TEST

/* A column-sharded matrix: rows that are evenly spaced. */
START_TEST(test_crc_of_columns)
{
    unsigned char bytes[30 * 70];
    uint32_t joined = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * i / 7);
    for (int begin = 0; begin < 70; begin += 20) {
        iso_crc_sum sum = {0};
        for (int row = 0; row < 30; row++)
            iso_crc_sum_add(&sum, (uint64_t)(row * 70 + begin), bytes + row * 70 + begin,
                            begin < 60 ? 20 : 10);
        joined ^= iso_crc_sum_get(&sum, sizeof bytes);
    }
    ck_assert_uint_eq(joined, crc32(0, bytes, sizeof bytes));
}
END_TEST

/* ---- the record ---- */

static unsigned char hdf5[HDF5_BYTES];
static iso_commit_tensor tensor[TENSORS] = {{500, 100, 1}, {100, 40, 2}, {0, 0, 0}, {140, 60, 4}};

static int make_file(iso_commit_record *record)
{
    int file = memfd_create("record", 0);
    ck_assert_int_ge(file, 0);
    for (int i = 0; i < HDF5_BYTES; i++)
        hdf5[i] = (unsigned char)(i * 31);
    uint32_t others = iso_crc(0, hdf5, 100);
    others = iso_crc(others, hdf5 + 200, 300);
    others = iso_crc(others, hdf5 + 600, 400);
    *record = (iso_commit_record){12345678901234, HDF5_BYTES, others, TENSORS, tensor};
    check_ok(iso_file_write_at(file, "file", hdf5, HDF5_BYTES, 0));
    check_ok(
        iso_file_write_at(file, "file", "what was longer before .............................", 50, 1100));
    check_ok(iso_commit_record_write(file, "file", record));
    return file;
}

static void expect_mark(int file, const iso_commit_record *expected)
{
    iso_commit_record record;
    bool found = false;
    check_ok(iso_commit_record_read(file, "file", &found, &record));
    ck_assert(found);
    ck_assert_uint_eq(record.number, expected->number);
    ck_assert_uint_eq(record.hdf5_bytes, expected->hdf5_bytes);
    ck_assert_int_eq(record.n_tensors, expected->n_tensors);
    for (int t = 0; t < record.n_tensors; t++)
        ck_assert(record.tensors[t].offset == expected->tensors[t].offset &&
                  record.tensors[t].bytes == expected->tensors[t].bytes &&
                  record.tensors[t].crc == expected->tensors[t].crc);
    check_ok(iso_commit_record_check_others(file, "file", &record));
    iso_commit_record_free(&record);
}

START_TEST(test_mark_is_read)
{
    iso_commit_record record, none = {.hdf5_bytes = 0};
    int file = make_file(&record);
    ck_assert_int_eq(lseek(file, 0, SEEK_END), HDF5_BYTES + TENSORS * 20 + 40);
    expect_mark(file, &record);
    check_ok(iso_commit_record_write(file, "file", &none));
    expect_mark(file, &none);
    close(file);
}
END_TEST

static void flip(int file, off_t at, unsigned char bits)
{
    unsigned char byte;
    ck_assert_int_eq(pread(file, &byte, 1, at), 1);
    byte ^= bits;
    ck_assert_int_eq(pwrite(file, &byte, 1, at), 1);
}

/* Every bit of all but the tensors. */
START_TEST(test_flipped_bits)
{
    iso_commit_record record, read;
    int file = make_file(&record);
    for (off_t at = 0; at < HDF5_BYTES + TENSORS * 20 + 40; at++) {
        bool found, in_tensor = (at >= 100 && at < 200) || (at >= 500 && at < 600);
        for (int bit = 0; bit < 8; bit++) {
            flip(file, at, (unsigned char)(1 << bit));
            iso_status status = iso_commit_record_read(file, "file", &found, &read);
            if (status == ISO_OK && found) {
                status = iso_commit_record_check_others(file, "file", &read);
                iso_commit_record_free(&read);
            }
            ck_assert_msg((status == ISO_OK && found) == in_tensor, "bit %d of byte %d: %d", bit, (int)at,
                          status);
            flip(file, at, (unsigned char)(1 << bit));
        }
    }
    expect_mark(file, &record);
    close(file);
}
END_TEST

/* Wherever the file is cut there is no record. */
START_TEST(test_cut_files)
{
    iso_commit_record record, read;
    int file = make_file(&record);
    for (off_t size = HDF5_BYTES + TENSORS * 20 + 39; size >= 0; size -= 1 + size / 100) {
        bool found = true;
        ck_assert_int_eq(ftruncate(file, size), 0);
        check_ok(iso_commit_record_read(file, "file", &found, &read));
        ck_assert(!found);
    }
    close(file);
}
END_TEST

/* Marks that somebody made up, whose checksums are right. */
static void expect_refused(const iso_commit_record *record, const char *part)
{
    iso_commit_record read;
    bool found;
    int file = memfd_create("record", 0);
    check_ok(iso_commit_record_write(file, "file", record));
    check_refused(iso_commit_record_read(file, "file", &found, &read), part);
    close(file);
}

START_TEST(test_made_up_marks)
{
    iso_commit_tensor t[2] = {{10, 20, 0}, {30, 71, 0}};
    iso_commit_record record = {.hdf5_bytes = 100, .n_tensors = 2, .tensors = t};
    expect_refused(&record, "outside of the file");
    t[1] = (iso_commit_tensor){UINT64_MAX - 10, 100, 0};
    expect_refused(&record, "outside of the file");
    t[1] = (iso_commit_tensor){30, UINT64_MAX - 10, 0};
    expect_refused(&record, "outside of the file");
    t[1] = (iso_commit_tensor){29, 5, 0};
    expect_refused(&record, "overlap");
    t[1] = t[0];
    expect_refused(&record, "overlap");
}
END_TEST

/* A tail alone, in front of which there is nothing. */
START_TEST(test_made_up_tails)
{
    unsigned char tail[ISO_COMMIT_TAIL] = "ISOGRID\n\1";
    iso_commit_record read;
    bool found;
    int file = memfd_create("record", 0);
    tail[15] = 0x7F;
    check_ok(iso_file_write_at(file, "file", tail, sizeof tail, 0));
    check_refused(iso_commit_record_read(file, "file", &found, &read), "impossible number of tensors");
    tail[15] = 0, tail[13] = 1;
    check_ok(iso_file_write_at(file, "file", tail, sizeof tail, 0));
    check_refused(iso_commit_record_read(file, "file", &found, &read), "impossible number of tensors");
    tail[13] = 0, tail[31] = 0x80;
    check_ok(iso_file_write_at(file, "file", tail, sizeof tail, 0));
    check_refused(iso_commit_record_read(file, "file", &found, &read), "size");
    tail[8] = 2;
    check_ok(iso_file_write_at(file, "file", tail, sizeof tail, 0));
    check_refused(iso_commit_record_read(file, "file", &found, &read), "version 2");
    close(file);
}
END_TEST

START_TEST(test_names)
{
    static const struct {
        const char *name, *pattern;
        bool fits;
    } row[] = {{"3-0.25.weights.h5", "{epoch:02d}-{val_loss:.2f}.weights.h5", true},
               {"3.weights.h5", "{epoch:02d}-{val_loss:.2f}.weights.h5", false},
               {"a.weights.h5", "a.weights.h5", true},
               {"aa.weights.h5", "a.weights.h5", false},
               {"a.weights.h5.weights.h5", "{}.weights.h5", true},
               {"7.weights.h5", "{epoch}.weights.h5", true},
               {"  7.weights.h5", "{epoch:3d}.weights.h5", true},
               {"final.weights.h5", "{epoch}.weights.h5", false},
               {"nan.weights.h5", "{epoch}.weights.h5", false},
               {"7.5.weights.h5", "{batch}.weights.h5", false},
               {"7.5.weights.h5", "{batch:.1f}.weights.h5", true},
               {".weights.h5", "{x}.weights.h5", false},
               {"pretrained-1.weights.h5", "{epoch}-{batch}.weights.h5", false},
               {"12-345.weights.h5", "{epoch}{batch}-{epoch}{batch}.weights.h5", true},
               {"v-1.5e-05.weights.h5", "v{loss}.weights.h5", true},
               {"v1e+20.weights.h5", "v{loss}.weights.h5", true},
               {"v1e20.weights.h5", "v{loss}.weights.h5", false},
               {"v-nan.weights.h5", "v{loss:.2f}.weights.h5", true},
               {"vINF.weights.h5", "v{loss:G}.weights.h5", true},
               {"v2.weights.h5", "v{loss:.0f}.weights.h5", true},
               {"v2-mean.weights.h5", "v{loss:.0f}.weights.h5", false},
               {"{7}.weights.h5", "{{{epoch}}}.weights.h5", true},
               {"a.weights.h5x", "{}.weights.h5", false},
               {".a.weights.h5", "{}.weights.h5", false},
               {"x", "x{", false},
               {"x{", "x{", true},
               {"any.weights.h5", NULL, true},
               {"any.h5", NULL, false},
               {"abcabd", "{}abd", true},
               {"abab", "{}ab{}ab", true},
               {"ab", "{}ab{}ab", false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        ck_assert_msg(iso_file_name_fits(row[i].name, row[i].pattern) == row[i].fits, "%s", row[i].name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("record");
    TCase *all = tcase_create("record");
    tcase_add_test(all, test_crc_is_zlibs);
    tcase_add_loop_test(all, test_crc_of_parts, 0, 200);
    tcase_add_test(all, test_crc_of_columns);
    tcase_add_test(all, test_mark_is_read);
    tcase_add_test(all, test_flipped_bits);
    tcase_add_test(all, test_cut_files);
    tcase_add_test(all, test_made_up_marks);
    tcase_add_test(all, test_made_up_tails);
    tcase_add_test(all, test_names);
    suite_add_tcase(suite, all);
    return run_suite(suite);
}
