/* Files of weights as Keras and h5py make them: what they hold, whole and in parts, in every type; and all
 * that is refused, on all ranks alike. One rank reads all of them, several a share. Ranks: 1, 3   More: 5 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/session/session.h"
#include "tests/support/dice.h"
#include "tests/support/once.h"
#include "tests/support/oracle.h"
#include "tests/support/run_tests.h"

enum { MOST = 4096 };

static iso_context *ctx;
static oracle *known;

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "tests/keras/weights/%s.weights.h5", name);
    return path;
}

/* Line `number` of a text of lines; NULL behind the last. */
static const char *line_of(const char *text, int number)
{
    static char line[1024];
    for (; number > 0 && text; number--)
        text = strchr(text, '\n') ? strchr(text, '\n') + 1 : NULL;
    if (!text || !*text)
        return NULL;
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    return line;
}

/* An integer that a double holds is in range, or else the reading has to fail. */
static bool fits(double value, iso_dtype dtype)
{
    bool whole = value == (double)(int64_t)value;
    switch (dtype) {
    case ISO_I32:
        return whole && value >= INT32_MIN && value <= INT32_MAX;
    case ISO_I64:
        return whole;
    case ISO_U8:
        return whole && value >= 0 && value <= 255;
    case ISO_BOOL:
        return value == 0 || value == 1;
    default:
        return true;
    }
}

/* One box in one type against the whole tensor's numbers. */
static void check_box(iso_saved_file *file, int tensor, const double *values, const iso_box *box,
                      iso_dtype dtype)
{
    static _Alignas(64) char out[MOST * 8];
    const iso_saved_tensor *t = iso_saved_file_tensor(file, tensor);
    int64_t count = iso_box_count(box);
    bool good = true;
    ck_assert_int_le(count, MOST);
    for (int64_t i = 0; i < count; i++)
        good = good && fits(values[iso_box_global_index(box, &t->shape, i)], dtype);
    iso_status status = iso_saved_file_read(file, tensor, box, dtype, out);
    if (!good) {
        check_refused(status, t->h5_path);
        return;
    }
    check_ok(status);
    for (int64_t i = 0; i < count; i++) {
        double expected = values[iso_box_global_index(box, &t->shape, i)];
        double got = iso_element_get(out, dtype, i);
        ck_assert_msg(got == (dtype == ISO_F32 ? (double)(float)expected : expected),
                      "%s %s as %s: element %" PRId64 " is %.17g, not %.17g", iso_saved_file_path(file),
                      t->h5_path, iso_dtype_name(dtype), i, got, expected);
    }
}

static iso_box throw_box(dice *d, const iso_shape *shape)
{
    iso_box box = {.rank = shape->rank};
    for (int i = 0; i < shape->rank; i++) {
        box.offset[i] = throw_dice(d, (int)shape->dim[i] + 1);
        box.extent[i] = throw_dice(d, (int)(shape->dim[i] - box.offset[i]) + 1);
    }
    return box;
}

/* A part of a box's elements, as shards have them. */
static void check_shard(iso_saved_file *file, int tensor, const double *values, dice *d)
{
    double out[MOST];
    const iso_saved_tensor *t = iso_saved_file_tensor(file, tensor);
    iso_box box = throw_box(d, &t->shape);
    int64_t all = iso_box_count(&box), begin = throw_dice(d, (int)all + 1);
    iso_state_shard shard = {
        .path = "x", .dtype = ISO_F64, .shape = t->shape, .box = box, .begin = begin, .data = out};
    shard.count = throw_dice(d, (int)(all - begin) + 1);
    check_ok(iso_saved_file_read_shard(file, tensor, &shard));
    for (int64_t i = 0; i < shard.count; i++)
        ck_assert(out[i] == values[iso_box_global_index(&box, &t->shape, begin + i)]);
    shard.shape.dim[shard.shape.rank++ % ISO_MAX_RANK] = 1;
    check_refused(iso_saved_file_read_shard(file, tensor, &shard), t->h5_path);
}

static void check_tensor(iso_saved_file *file, int tensor, const double *values, int parts)
{
    static const iso_dtype dtypes[] = {ISO_F64, ISO_F32, ISO_I32, ISO_I64, ISO_U8, ISO_BOOL};
    const iso_saved_tensor *t = iso_saved_file_tensor(file, tensor);
    iso_box whole = iso_box_whole(&t->shape);
    dice d = dice_for(100 * tensor + iso_rank(ctx));
    for (int i = 0; i < 6; i++)
        check_box(file, tensor, values, &whole, dtypes[i]);
    for (int i = 0; i < parts; i++) {
        iso_box box = throw_box(&d, &t->shape);
        check_box(file, tensor, values, &box, dtypes[throw_dice(&d, 6)]);
        check_shard(file, tensor, values, &d);
    }
}

static void check_names(iso_saved_file *file, const char *name)
{
    const char *groups = oracle_text(known, name, "groups"), *names = oracle_text(known, name, "names");
    char h5_path[1024];
    int count = 0, named = 0;
    for (; line_of(groups, count); count++) {
        snprintf(h5_path, sizeof h5_path, "%s", line_of(groups, count));
        const char *got = iso_saved_file_name(file, h5_path);
        ck_assert_msg(got && !strcmp(got, line_of(names, count)), "%s: %s is named %s", name, h5_path, got);
    }
    for (int i = 0; i < iso_saved_file_groups(file); i++)
        named += iso_saved_file_group(file, i)->name != NULL;
    ck_assert_int_eq(named, count);
}

/* HDF5 alone reads some of the files: a process for each reading. */
static int parts_for(const char *name)
{
    return !strcmp(name, "storage") || !strcmp(name, "version_110") ? 1 : 10;
}

static void check_file(const char *name)
{
    iso_saved_file *file = NULL;
    const char *places = oracle_text(known, name, "places");
    int count = 0;
    uint64_t number;
    check_ok(iso_saved_file_open(ctx, path_of(name), &file));
    ck_assert(!iso_saved_file_committed(file, &number));
    ck_assert_ptr_null(iso_saved_file_state(file));
    for (; line_of(places, count); count++) {
        char set[16];
        iso_shape shape;
        int tensor = iso_saved_file_at(file, line_of(places, count));
        snprintf(set, sizeof set, "t%d", count);
        double *values = oracle_data(known, name, set, &shape);
        ck_assert_msg(tensor >= 0 && iso_shape_equal(&shape, &iso_saved_file_tensor(file, tensor)->shape),
                      "%s: %s", name, line_of(places, count));
        check_tensor(file, tensor, values, parts_for(name));
    }
    ck_assert_int_eq(iso_saved_file_tensors(file), count);
    ck_assert_int_eq(iso_saved_file_at(file, "/layers/none"), -1);
    ck_assert_int_eq(iso_saved_file_of(file, "none/kernel"), -1);
    check_names(file, name);
    check_ok(iso_saved_file_verify(file));
    iso_saved_file_close(file);
}

START_TEST(test_read)
{
    for (int i = 0; i < oracle_cases(known); i++)
        if (!oracle_text(known, oracle_case(known, i), "refused") && takes_case(iso_ranks(ctx), i))
            check_file(oracle_case(known, i));
}
END_TEST

/* The message names the file; all ranks return the same. */
static void expect_refused(const char *path, iso_status expected, const char *reason)
{
    iso_saved_file *file = NULL;
    iso_status status = iso_saved_file_open(ctx, path, &file);
    ck_assert_msg(status == expected, "%s: %d, '%s'", path, (int)status, status ? iso_error_message() : "");
    ck_assert_msg(strstr(iso_error_message(), path) && strstr(iso_error_message(), reason),
                  "%s: %s is not in %s", path, reason, iso_error_message());
    ck_assert_ptr_null(file);
}

START_TEST(test_refuse)
{
    int count = 0;
    for (int i = 0; i < oracle_cases(known); i++) {
        const char *reason = oracle_text(known, oracle_case(known, i), "refused");
        if (reason)
            expect_refused(path_of(oracle_case(known, i)), ISO_INVALID, reason);
        count += reason != NULL;
    }
    ck_assert_int_gt(count, 25);
}
END_TEST

START_TEST(test_no_file)
{
    expect_refused("tests/keras/none.weights.h5", ISO_INVALID, "No such file");
    expect_refused("tests/keras", ISO_INVALID, "is not a regular file");
    expect_refused("/dev/null", ISO_INVALID, "is not a regular file");
    expect_refused("tests/keras/README.md", ISO_INVALID, "is not an HDF5 file");
}
END_TEST

/* Parts that are not within the tensor, and types that are none. */
START_TEST(test_wrong_parts)
{
    iso_saved_file *file = NULL;
    double out[64];
    check_ok(iso_saved_file_open(ctx, path_of("types"), &file));
    int tensor = iso_saved_file_at(file, "/little/f4");
    iso_box box = iso_box_whole(&ISO_SHAPE(2, 3, 4)), flat = iso_box_range(0, 24);
    check_refused(iso_saved_file_read(file, tensor, &flat, ISO_F64, out), "not within '/little/f4'");
    for (int i = 0; i < 3; i++) {
        iso_box wrong = box;
        wrong.extent[i]++;
        check_refused(iso_saved_file_read(file, tensor, &wrong, ISO_F64, out), "not within '/little/f4'");
        wrong.offset[i] = -1;
        check_refused(iso_saved_file_read(file, tensor, &wrong, ISO_F64, out), "not within '/little/f4'");
        wrong.offset[i] = INT64_MAX;
        check_refused(iso_saved_file_read(file, tensor, &wrong, ISO_F64, out), "not within '/little/f4'");
        wrong.offset[i] = 0;
        wrong.extent[i] = -1;
        check_refused(iso_saved_file_read(file, tensor, &wrong, ISO_F64, out), "not within '/little/f4'");
    }
    check_refused(iso_saved_file_read(file, tensor, &box, ISO_DTYPE_NONE, out), "as none");
    check_refused(iso_saved_file_read(file, -1, &box, ISO_F64, out), "has no tensor -1");
    check_refused(iso_saved_file_read(file, 1000, &box, ISO_F64, out), "has no tensor 1000");
    iso_state_shard shard = {.path = "x",
                             .dtype = ISO_F64,
                             .shape = ISO_SHAPE(2, 3, 4),
                             .box = box,
                             .begin = 20,
                             .count = 5,
                             .data = out};
    check_refused(iso_saved_file_read_shard(file, tensor, &shard), "[20, 25)");
    iso_saved_file_close(file);
}
END_TEST

int main(int argc, char **argv)
{
    int code = 1;
    if (iso_init(&argc, &argv, &ctx) == ISO_OK) {
        size_t held = iso_memory_held();
        known = oracle_open("weights.h5");
        code = RUN_TESTS("files of weights", 300, test_read, test_refuse, test_no_file, test_wrong_parts);
        oracle_close(known);
        if (iso_memory_held() != held && code == 0)
            code = printf("%zu bytes are left\n", iso_memory_held() - held) > 0;
    }
    return iso_finish(ctx, code == 0 ? ISO_OK : iso_error(ISO_FAILED, "tests failed"));
}
