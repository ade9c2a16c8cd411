/* .safetensors files: what all ranks write together is read as it was, in parts and converted; files whose header is
 * damaged or hostile are refused with a message that names the file and the tensor.
 * Ranks: 1, 3
 * Sanitize: 1, 3 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/control/control.h"
#include "runtime/checkpoint/safetensors.h"
#include "runtime/session/session.h"
#include "tests/support/folder.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static char folder[64];

static const char *write_bytes(const char *name, const void *bytes, size_t count)
{
    const char *path = in_folder(folder, name);
    FILE *out = iso_is_chief(ctx) ? fopen(path, "wb") : NULL;
    if (out) {
        ck_assert_int_eq((int)fwrite(bytes, 1, count, out), (int)count);
        fclose(out);
    }
    check_ok(iso_agree(ctx, ISO_OK));
    return path;
}

/* A file of this header and `data` bytes of 0, 1, 2, ... behind it. */
static const char *write_file(const char *name, const char *header, size_t data)
{
    uint8_t bytes[1000] = {(uint8_t)strlen(header), (uint8_t)(strlen(header) >> 8)};
    size_t at = 8 + strlen(header);
    ck_assert_int_le((int)(at + data), (int)sizeof bytes);
    memcpy(bytes + 8, header, strlen(header));
    for (size_t i = 0; i < data; i++)
        bytes[at + i] = (uint8_t)i;
    return write_bytes(name, bytes, at + data);
}

#define ENTRY(name, type, shape, begin, end)                                                                 \
    "\"" name "\": {\"dtype\": \"" type "\", \"shape\": " shape ", \"data_offsets\": [" begin ", " end "]}"

static iso_saved_file *open_file(const char *path)
{
    iso_saved_file *file = NULL;
    check_ok(iso_saved_file_open(ctx, path, &file));
    return file;
}

/* ---- reading ---- */

static void check_values(iso_saved_file *file, const char *name, iso_box box, int count,
                         const float *expected)
{
    float values[16];
    int tensor = iso_saved_file_at(file, name);
    ck_assert_int_ge(tensor, 0);
    check_ok(iso_saved_file_read(file, tensor, &box, ISO_F32, values));
    for (int i = 0; i < count; i++)
        ck_assert_msg(values[i] == expected[i], "%s, element %d: %g, not %g", name, i, (double)values[i],
                      (double)expected[i]);
}

/* 1.5, -2, 65504 in float16; 1, -2.5 in bfloat16; at an odd offset, and not in the order of the bytes. */
START_TEST(types_are_converted)
{
    static const char header[] =
        "{\"__metadata__\": {\"format\": \"pt\"}, " ENTRY("wide", "BF16", "[1, 2]", "7", "11") ", " ENTRY(
            "half", "F16", "[3]", "1",
            "7") ", " ENTRY("byte", "U8", "[]", "0", "1") ", " ENTRY("none", "F32", "[0, 5]", "11", "11") "}";
    static const uint8_t data[] = {200, 0x00, 0x3e, 0x00, 0xc0, 0xff, 0x7b, 0x80, 0x3f, 0x20, 0xc0};
    uint8_t bytes[400] = {(uint8_t)(sizeof header - 1), (uint8_t)((sizeof header - 1) >> 8)};
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + 8 + sizeof header - 1, data, sizeof data);
    iso_saved_file *file =
        open_file(write_bytes("types.safetensors", bytes, 8 + sizeof header - 1 + sizeof data));
    ck_assert_int_eq(iso_saved_file_tensors(file), 4);
    ck_assert(!iso_saved_file_committed(file, NULL));
    check_values(file, "/half", (iso_box){1, {0}, {3}}, 3, (const float[]){1.5F, -2, 65504});
    check_values(file, "/half", (iso_box){1, {1}, {1}}, 1, (const float[]){-2});
    check_values(file, "/wide", (iso_box){2, {0, 0}, {1, 2}}, 2, (const float[]){1, -2.5F});
    check_values(file, "/byte", (iso_box){0, {0}, {0}}, 1, (const float[]){200});
    ck_assert_str_eq(iso_saved_file_stored(file, iso_saved_file_at(file, "/wide"), NULL), "bfloat16");
    iso_saved_file_close(file);
}
END_TEST

/* ---- writing ---- */

/* Rows of a matrix that the ranks write in turn, and a vector of another type. */
START_TEST(all_ranks_write_a_file)
{
    enum { MATRIX_ROWS = 7, COLUMNS = 5 };
    const iso_saved_tensor tensors[] = {
        {.h5_path = "/a.weight", .dtype = ISO_F32, .shape = ISO_SHAPE(MATRIX_ROWS, COLUMNS)},
        {.h5_path = "/b", .dtype = ISO_F64, .shape = ISO_SHAPE(3)},
        {.h5_path = "/scalar", .dtype = ISO_I64, .shape = {0}}};
    const char *path = in_folder(folder, "written.safetensors");
    iso_safetensors *out = NULL;
    check_ok(iso_safetensors_create(ctx, path, tensors, 3, ISO_STORAGE_TYPES, &out));
    for (int row = iso_rank(ctx); row < MATRIX_ROWS; row += iso_ranks(ctx)) {
        float values[COLUMNS];
        for (int i = 0; i < COLUMNS; i++)
            values[i] = (float)(10 * row + i);
        check_ok(iso_safetensors_write(out, 0, (int64_t)row * COLUMNS, COLUMNS, values));
    }
    if (iso_is_chief(ctx)) {
        check_ok(iso_safetensors_write(out, 1, 1, 2, (const double[]){0.5, -3}));
        check_ok(iso_safetensors_write(out, 2, 0, 1, (const int64_t[]){42}));
    }
    ck_assert_ptr_null(strstr(names_in(folder), " written.safetensors"));
    check_ok(iso_safetensors_finish(out, ISO_OK));
    iso_saved_file *file = open_file(path);
    check_values(file, "/a.weight", (iso_box){2, {2, 1}, {3, 2}}, 6, (const float[]){21, 22, 31, 32, 41, 42});
    check_values(file, "/b", (iso_box){1, {0}, {3}}, 3, (const float[]){0, 0.5F, -3});
    check_values(file, "/scalar", (iso_box){0, {0}, {0}}, 1, (const float[]){42});
    iso_saved_file_close(file);
}
END_TEST

/* Floats of 16 bits: each is stored as it was read, a number in the middle of two as the even one, and a number
 * beside the middle as the nearer one. last: the largest that is finite. */
static void check_halves(iso_storage_type type, uint16_t last)
{
    for (uint16_t bits = 0; bits < last; bits++) {
        const uint16_t pair[] = {bits, (uint16_t)(bits + 1)}, even = pair[bits & 1];
        double value[2];
        uint16_t got[5];
        ck_assert_int_eq(iso_storage_type_convert(type, pair, 2, ISO_F64, value), -1);
        const double middle = (value[0] + value[1]) / 2, given[] = {value[0], -value[1], nextafter(middle, 0),
                                                                    middle, nextafter(middle, INFINITY)};
        ck_assert_int_eq(iso_storage_type_store(ISO_F64, given, 5, type, got), -1);
        ck_assert_msg(got[0] == bits && got[1] == (pair[1] | 0x8000) && got[2] == bits && got[3] == even &&
                          got[4] == pair[1],
                      "%s %x: %x %x %x %x %x", iso_storage_type_name(type), bits, got[0], got[1], got[2],
                      got[3], got[4]);
    }
}

START_TEST(floats_are_rounded_to_16_bits)
{
    static const float wide[] = {1, 65519.996F, -65520, INFINITY, NAN};
    uint16_t got[5];
    check_halves(ISO_STORAGE_F16, 0x7BFF);
    check_halves(ISO_STORAGE_BF16, 0x7F7F);
    ck_assert_int_eq(iso_storage_type_store(ISO_F32, wide, 5, ISO_STORAGE_F16, got), 2);
    ck_assert_int_eq(got[1], 0x7BFF);
    ck_assert_int_eq(iso_storage_type_store(ISO_F32, wide + 3, 2, ISO_STORAGE_F16, got), -1);
    ck_assert(got[0] == 0x7C00 && (got[1] & 0x7FFF) > 0x7C00);
    ck_assert_int_eq(iso_storage_type_float("bfloat16"), ISO_STORAGE_BF16);
    ck_assert_int_eq(iso_storage_type_float("int32"), ISO_STORAGE_TYPES);
}
END_TEST

/* Elements of another type than that in memory. */
START_TEST(tensors_are_converted)
{
    const iso_saved_tensor tensors[] = {{.h5_path = "/w", .dtype = ISO_F64, .shape = ISO_SHAPE(3)},
                                        {.h5_path = "/n", .dtype = ISO_I32, .shape = ISO_SHAPE(1)}};
    const char *path = in_folder(folder, "converted.safetensors");
    const double values[] = {1, 1.0009765625, -3}, large[] = {1, 7e4};
    iso_safetensors *out = NULL;
    check_ok(iso_safetensors_create(ctx, path, tensors, 2, ISO_STORAGE_F16, &out));
    check_refused_naming(iso_safetensors_write(out, 0, 1, 2, large), path,
                         "tensor 'w', [3], has 70000 as its element 2; float16 cannot hold it");
    check_ok(iso_safetensors_write(out, 0, 0, 3, values));
    check_ok(iso_safetensors_write(out, 1, 0, 1, (const int32_t[]){70000}));
    check_ok(iso_safetensors_sync(out));
    check_ok(iso_safetensors_finish(out, ISO_OK));
    iso_saved_file *file = open_file(path);
    ck_assert_str_eq(iso_saved_file_stored(file, iso_saved_file_at(file, "/w"), NULL), "float16");
    ck_assert_str_eq(iso_saved_file_stored(file, iso_saved_file_at(file, "/n"), NULL), "int32");
    check_values(file, "/w", (iso_box){1, {0}, {3}}, 3, (const float[]){1, 1.0009765625F, -3});
    iso_saved_file_close(file);
}
END_TEST

/* If one rank fails, the file of before is there, and nothing else. */
START_TEST(a_failed_write_leaves_nothing)
{
    const iso_saved_tensor tensor = {.h5_path = "/x", .dtype = ISO_F32, .shape = ISO_SHAPE(4)};
    const char *path = write_file("kept.safetensors", "{}", 0);
    const int last = iso_ranks(ctx) - 1;
    iso_safetensors *out = NULL;
    check_ok(iso_safetensors_create(ctx, path, &tensor, 1, ISO_STORAGE_TYPES, &out));
    check_refused(
        iso_safetensors_finish(out, iso_rank(ctx) == last ? iso_error(ISO_INVALID, "no room") : ISO_OK),
        "no room");
    check_ok(iso_agree(ctx, ISO_OK)); /* the chief has removed it */
    ck_assert_ptr_null(strstr(names_in(folder), ".saving-"));
    iso_saved_file *file = open_file(path);
    ck_assert_int_eq(iso_saved_file_tensors(file), 0);
    iso_saved_file_close(file);
    check_ok(iso_agree(ctx, ISO_OK)); /* all have looked */
}
END_TEST

/* ---- hostile files ---- */

START_TEST(damaged_headers)
{
    static const struct {
        const char *header;
        size_t data;
        const char *message;
    } cases[] = {
        {"", 0, "its header"},
        {"{", 0, "its header, line 1"},
        {"[]", 0, "its header is no list"},
        {"{\"a\": 3}", 0, "tensor 'a' has no type and shape"},
        {"{" ENTRY("", "F32", "[1]", "0", "4") "}", 4, "the name of a tensor is empty"},
        {"{" ENTRY("a/b", "F32", "[1]", "0", "4") "}", 4, "has a character that names cannot have: 'a/b'"},
        {"{" ENTRY("a\\n", "F32", "[1]", "0", "4") "}", 4, "has a character that names cannot have"},
        {"{" ENTRY("a", "F8_E4M3", "[4]", "0", "4") "}", 4, "tensor 'a' has the type 'F8_E4M3'"},
        {"{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 4, "tensor 'a' has the type 'none'"},
        {"{" ENTRY("a", "F32", "[-1]", "0", "4") "}", 4, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "[1.0]", "0", "4") "}", 4, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "1", "0", "4") "}", 4, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "[4294967296, 4294967296]", "0", "4") "}", 4, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "[9223372036854775807, 0]", "0", "0") "}", 0, "the shape of tensor 'a'"},
        {"{" ENTRY("a", "F32", "[1]", "0", "8") "}", 4,
         "in bytes 0 to 8 behind the header, where the file has 4"},
        {"{" ENTRY("a", "F32", "[1]", "4", "0") "}", 4, "in bytes 4 to 0"},
        {"{" ENTRY("a", "F32", "[1]", "-4", "0") "}", 4, "tensor 'a' has no data_offsets"},
        {"{" ENTRY("a", "F32", "[2]", "0", "4") "}", 4,
         "tensor 'a' has 4 bytes, and its type and shape need 8"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "2", "6") "}", 6,
         "tensor 'b' begins at byte 2"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("b", "F32", "[1]", "6", "10") "}", 10,
         "tensor 'b' begins at byte 6"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "," ENTRY("a", "F32", "[1]", "4", "8") "}", 8, "duplicate"},
        {"{" ENTRY("a", "F32", "[1]", "0", "4") "}", 5,
         "its tensors have 4 bytes, and 5 bytes are behind the header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = write_file("hostile.safetensors", cases[i].header, cases[i].data);
        iso_saved_file *file = NULL;
        check_refused_naming(iso_saved_file_open(ctx, path, &file), "hostile.safetensors", cases[i].message);
        ck_assert_ptr_null(file);
    }
}
END_TEST

START_TEST(damaged_lengths)
{
    static const uint8_t longer[] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
                         huge[] = {255, 255, 255, 255, 255, 255, 255, 255, '{', '}'};
    iso_saved_file *file = NULL;
    check_refused(iso_saved_file_open(ctx, write_bytes("a.safetensors", "{}", 2), &file),
                  "has 2 bytes: it is cut off");
    check_refused(iso_saved_file_open(ctx, write_bytes("b.safetensors", longer, sizeof longer), &file),
                  "say that its header has 3 bytes, and the file has 10");
    check_refused(iso_saved_file_open(ctx, write_bytes("c.safetensors", huge, sizeof huge), &file),
                  "say that its header has 18446744073709551615 bytes");
    check_refused(iso_saved_file_open(ctx, in_folder(folder, "none.safetensors"), &file), "none.safetensors");
}
END_TEST

static void set_up(void)
{
    check_ok(make_test_folder(ctx, folder));
}

static void tear_down(void)
{
    check_ok(remove_test_folder(ctx, folder));
}

int main(int argc, char **argv)
{
    if (iso_init(&argc, &argv, &ctx) != ISO_OK)
        return iso_finish(ctx, ISO_INVALID);
    int code = RUN_TESTS_WITH("safetensors", 60, set_up, tear_down, types_are_converted,
                              all_ranks_write_a_file, floats_are_rounded_to_16_bits, tensors_are_converted,
                              a_failed_write_leaves_nothing, damaged_headers, damaged_lengths);
    int end = iso_finish(ctx, ISO_OK);
    return code ? code : end;
}
