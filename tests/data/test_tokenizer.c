/* Tokenizers of tests/tokenizers: ids and decoded texts are those of the library `tokenizers`, which make.py wrote
 * down, and of other texts if a Python has that library; files of tokens are the same for any number of ranks and any
 * cuts; several threads use one tokenizer; what is refused.
 * Ranks: 1, 3   More: 2
 * Sanitize: 1, 3 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zlib.h>

#include "collectives/control/control.h"
#include "runtime/base/file.h"
#include "runtime/base/memory.h"
#include "runtime/data/data.h"
#include "runtime/data/tokenizer/documents_impl.h"
#include "runtime/data/tokenizer/text_records_impl.h"
#include "runtime/session/session.h"
#include "tests/data/data_test.h"
#include "tests/support/folder.h"
#include "tests/support/run_tests.h"

static const char *const folders[] = {"gpt2",    "roberta", "llama-3", "qwen2",      "o200k",
                                      "llama-2", "mistral", "gemma",   "bert-cased", "falcon",
                                      "clip",    "words",   "meta",    "bert"};
enum { FOLDERS = sizeof folders / sizeof *folders, THREADS = 3 };

static iso_context *ctx;
static char folder[64];

static void make_folder(void)
{
    OK(make_test_folder(ctx, folder));
}

static void remove_folder(void)
{
    OK(remove_test_folder(ctx, folder));
}

static iso_tokenizer *open_tokenizer(const char *name)
{
    char path[128];
    iso_tokenizer *t = NULL;
    snprintf(path, sizeof path, "tests/tokenizers/%s", name);
    iso_status status = iso_tokenizer_open(path, &t);
    ck_assert_msg(status == ISO_OK, "%s", iso_error_message());
    return t;
}

static char *read_file(const char *path, size_t *size)
{
    char *text = NULL;
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file && iso_file_read_all(file, 1 << 28, &text, size), "%s", path);
    fclose(file);
    return text;
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    OK(iso_agree(ctx, ISO_OK));
    if (iso_rank(ctx) == 0) {
        FILE *file = fopen(path, "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
        ck_assert_int_eq(fclose(file), 0);
    }
    OK(iso_agree(ctx, ISO_OK));
}

/* ---- texts and what the library makes of them ---- */

static uint32_t number_at(const char *bytes)
{
    const uint8_t *b = (const uint8_t *)bytes;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static uint32_t crc_of(const void *bytes, size_t size)
{
    return (uint32_t)crc32(crc32(0, NULL, 0), bytes, (uInt)size);
}

/* The checksums of a text's ids without and with special tokens, and of the text that the first give. */
static void checksums(const iso_tokenizer *t, const char *text, size_t size, uint32_t sum[3])
{
    int32_t *ids;
    size_t count, bytes;
    char *back;
    for (int special = 1; special >= 0; special--) {
        iso_status status = iso_tokenizer_encode(t, text, size, special, &ids, &count);
        ck_assert_msg(status == ISO_OK, "%s", iso_error_message());
        sum[special] = crc_of(ids, count * sizeof *ids);
        if (special)
            iso_free(ids);
    }
    OK(iso_tokenizer_decode(t, ids, count, false, &back, &bytes));
    ck_assert_int_eq(back[bytes], 0);
    sum[2] = crc_of(back, bytes);
    iso_free(back);
    iso_free(ids);
}

/* Compares with one folder's lines of expected.txt, which `lines` moves behind. */
static void compare_folder(const char *name, const char *texts, size_t size, const char **lines)
{
    iso_tokenizer *t = open_tokenizer(name);
    int read, number = 0;
    for (size_t at = 0; at < size; number++) {
        uint32_t want[3], got[3];
        const size_t length = number_at(texts + at);
        ck_assert_int_eq(sscanf(*lines, "%x %x %x %n", &want[0], &want[1], &want[2], &read), 3);
        *lines += read;
        checksums(t, texts + at + 4, length, got);
        for (int i = 0; i < 3; i++)
            ck_assert_msg(got[i] == want[i], "%s: text %d '%.*s': %s differ", name, number, (int)length,
                          texts + at + 4,
                          i == 2 ? "decoded texts"
                          : i    ? "ids with special tokens"
                                 : "ids");
        at += 4 + length;
    }
    iso_tokenizer_close(t);
}

static void compare_all(const char *path)
{
    char name[64];
    size_t size, ignored;
    char *texts = read_file(in_folder(path, "texts.bin"), &size);
    char *expected = read_file(in_folder(path, "expected.txt"), &ignored);
    const char *lines = expected;
    int read, seen = 0;
    for (; sscanf(lines, "%63s %n", name, &read) == 1; seen++) {
        lines += read;
        compare_folder(name, texts, size, &lines);
    }
    ck_assert_int_eq(seen, FOLDERS);
    iso_free(expected);
    iso_free(texts);
}

START_TEST(test_library)
{
    if (iso_rank(ctx) == 0)
        compare_all("tests/tokenizers");
}
END_TEST

START_TEST(test_other_texts)
{
    char command[256];
    const char *python = getenv("ISOGRID_HUGGINGFACE_PYTHON");
    if (iso_rank(ctx) != 0)
        return;
    if (!python || !*python) {
        report_skipped("other texts", "ISOGRID_HUGGINGFACE_PYTHON names no Python with tokenizers");
        return;
    }
    snprintf(command, sizeof command, "'%s' tests/tokenizers/make.py '%s' 2 400", python, folder);
    ck_assert_int_eq(system(command), 0);
    compare_all(folder);
}
END_TEST

/* ---- pairs, and names of tokens ---- */

static void compare_pair(const char *name, const int32_t *around, size_t count)
{
    iso_tokenizer *t = open_tokenizer(name);
    int32_t *one, *two, *ids, *types;
    size_t ones, twos, all, at = 0;
    OK(iso_tokenizer_encode(t, "don't", 5, false, &one, &ones));
    OK(iso_tokenizer_encode(t, "reading it", 10, false, &two, &twos));
    OK(iso_tokenizer_encode_pair(t, "don't", 5, "reading it", 10, &ids, &types, &all));
    for (size_t i = 0; i < count; i += 2) { /* -1 and -2: the texts; behind each item its type */
        const size_t length = around[i] == -1 ? ones : around[i] == -2 ? twos : 1;
        const int32_t *from = around[i] == -1 ? one : around[i] == -2 ? two : &around[i];
        for (size_t k = 0; k < length; k++, at++) {
            ck_assert_uint_lt(at, all);
            ck_assert_int_eq(ids[at], from[k]);
            ck_assert_int_eq(types[at], around[i + 1]);
        }
    }
    ck_assert_uint_eq(at, all);
    iso_free(one);
    iso_free(two);
    iso_free(ids);
    iso_free(types);
    iso_tokenizer_close(t);
}

START_TEST(test_pairs)
{
    compare_pair("bert", (const int32_t[]){2, 0, -1, 0, 3, 0, -2, 1, 3, 1}, 10);
    compare_pair("roberta", (const int32_t[]){0, 0, -1, 0, 2, 0, 2, 0, -2, 0, 2, 0}, 12);
    compare_pair("gpt2", (const int32_t[]){-1, 0, -2, 1}, 4);
}
END_TEST

START_TEST(test_names)
{
    size_t size;
    iso_tokenizer *t = open_tokenizer("gpt2");
    const int32_t end = iso_tokenizer_end(t);
    ck_assert_int_eq(end, iso_tokenizer_id(t, "<|endoftext|>"));
    ck_assert_int_eq(iso_tokenizer_vocabulary(t), (int64_t)end + 1);
    ck_assert_int_eq(iso_tokenizer_id(t, "no token"), -1);
    ck_assert_str_eq(iso_tokenizer_token(t, end, &size), "<|endoftext|>");
    ck_assert_uint_eq(size, 13);
    ck_assert_ptr_null(iso_tokenizer_token(t, end + 1, &size));
    ck_assert_ptr_null(iso_tokenizer_token(t, -1, &size));
    ck_assert_int_eq(iso_tokenizer_mask(t), -1);
    iso_tokenizer_close(t);

    t = open_tokenizer("bert");
    ck_assert_int_eq(iso_tokenizer_mask(t), iso_tokenizer_id(t, "[MASK]"));
    for (int32_t id = -1; id < 9; id++) /* [PAD], [UNK], [CLS], [SEP], [MASK] */
        ck_assert(iso_tokenizer_is_special(t, id) == (id >= 0 && id < 5));
    iso_tokenizer_close(t);
}
END_TEST

/* ---- threads ---- */

typedef struct reader {
    const iso_tokenizer *t;
    uint32_t sum[3];
} reader;

static const char said[] = "Добрый день, tokenizer: 12345 don't  \n reading 世界!";

static void *encode_often(void *argument)
{
    reader *r = argument;
    for (int i = 0; i < 50; i++)
        checksums(r->t, said, sizeof said - 1, r->sum);
    return NULL;
}

START_TEST(test_threads)
{
    pthread_t thread[THREADS];
    reader of[THREADS];
    uint32_t sum[3];
    iso_tokenizer *t = open_tokenizer("llama-3");
    for (int i = 0; i < THREADS; i++) {
        of[i].t = t;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, encode_often, &of[i]), 0);
    }
    checksums(t, said, sizeof said - 1, sum);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        ck_assert_int_eq(memcmp(of[i].sum, sum, sizeof sum), 0);
    }
    iso_tokenizer_close(t);
}
END_TEST

/* ---- blocks ---- */

/* The texts of tests/tokenizers, joined: each `apart` from the next. */
static char *joined(const char *apart, size_t *size)
{
    size_t bytes, made = 0;
    char *texts = read_file("tests/tokenizers/texts.bin", &bytes);
    char *all = iso_new(2 * bytes);
    for (size_t at = 0; at < bytes; at += 4 + number_at(texts + at)) {
        memcpy(all + made, texts + at + 4, number_at(texts + at));
        made += number_at(texts + at);
        memcpy(all + made, apart, strlen(apart));
        made += strlen(apart);
    }
    iso_free(texts);
    *size = made;
    return all;
}

/* The tokens of a file that is cut into blocks of about this size; *count: of the blocks. */
static iso_ids in_blocks(const iso_tokenizer *t, const char *path, size_t size, int *count)
{
    iso_ids ids = {0};
    iso_text_blocks *blocks;
    iso_text_block block;
    int64_t documents = 0;
    iso_documents how = {.tokenizer = t, .scratch = iso_tokenizer_scratch_get(t), .separator = -1};
    OK(iso_text_blocks_open(t, &path, 1, false, size, &blocks));
    for (*count = 0;; ++*count) {
        OK(iso_text_blocks_next(blocks, &block));
        if (!block.data)
            break;
        OK(iso_documents_append(&how, &block, &ids, &documents));
    }
    ck_assert_int_eq(documents, 1);
    iso_text_blocks_close(blocks);
    iso_tokenizer_scratch_put(t, how.scratch);
    return ids;
}

START_TEST(test_blocks)
{
    size_t size, count;
    int32_t *ids;
    int blocks;
    char *text = joined(" and so on\n", &size);
    const char *path = in_folder(folder, "long.txt");
    write_file(path, text, size);
    for (int i = 0; i < FOLDERS && iso_rank(ctx) == 0; i++) {
        iso_tokenizer *t = open_tokenizer(folders[i]);
        OK(iso_tokenizer_encode(t, text, size, false, &ids, &count));
        for (size_t block = 700; block < 2000; block += 611) {
            iso_ids cut = in_blocks(t, path, block, &blocks);
            ck_assert_int_gt(blocks, 5);
            ck_assert_msg(cut.count == count && memcmp(cut.id, ids, count * sizeof *ids) == 0,
                          "%s: other tokens in blocks of %zu bytes", folders[i], block);
            iso_ids_free(&cut);
        }
        iso_free(ids);
        iso_tokenizer_close(t);
    }
    iso_free(text);
}
END_TEST

/* A text is not cut within a token that has a space. */
START_TEST(test_no_cut)
{
    static const char json[] = "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":\"a\"},"
                               "\"added_tokens\":[{\"id\":1,\"content\":\"a b\"}]}";
    enum { TOKENS = 1000, LENGTH = 3 };
    char text[LENGTH * TOKENS + 1] = "";
    int blocks;
    iso_tokenizer *t = NULL;
    char *path = iso_strdup(in_folder(folder, "spaces.txt"));
    for (int i = 0; i < TOKENS; i++)
        memcpy(text + i * LENGTH, "a b", LENGTH);
    write_file(path, text, LENGTH * TOKENS);
    write_file(in_folder(folder, "tokenizer.json"), json, sizeof json - 1);
    OK(iso_tokenizer_open(folder, &t));
    iso_ids ids = in_blocks(t, path, 500, &blocks);
    ck_assert_int_eq(blocks, 1);
    ck_assert_uint_eq(ids.count, TOKENS);
    for (int i = 0; i < TOKENS; i++)
        ck_assert_int_eq(ids.id[i], 1);
    iso_ids_free(&ids);
    iso_tokenizer_close(t);
    iso_free(path);
}
END_TEST

#define ONE_WORD "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":\"a\"}"
#define TEN "one two th"
#define LONG TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
/* Texts whose tokens at a place depend on what is far from it. */
static const struct far_reaching {
    const char *json, *begin, *unit;
    int least, most; /* blocks */
} far_reaching[] = {
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"-\":0,\"--\":1,\"----\":2,\"--------\":3},\"merges\":[\"- "
     "-\",\"-- --\","
     "\"---- ----\"]}}",
     "", "-", 1, 1},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"0\":0,\",\":1,\"\\n\":2,\"0,\":3,\"0,\\n\":4,\"\\n0\":5,\"0,"
     "\\n0,\\n\":6},"
     "\"merges\":[\"0 ,\",\"0, \\n\",\"0,\\n 0,\\n\"]}}",
     "0", "0,\n", 2, 99},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"'[^']*'|[a-z]+|[^a-z]\"},\"behavior\":"
     "\"Isolated\","
     "\"invert\":false}," ONE_WORD "}",
     "'", LONG "'", 1, 1},
    {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"added_tokens\":[{\"id\":1,\"content\":\"" LONG
     "\"}]," ONE_WORD "}",
     "x", LONG "some other words", 2, 99},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\" \"},\"behavior\":\"Isolated\","
     "\"invert\":false},\"added_tokens\":[{\"id\":1,\"content\":\"s\",\"rstrip\":true}]," ONE_WORD "}",
     "x", "words word of ", 2, 99},
};

START_TEST(test_cuts)
{
    enum { MOST = 4001 };
    int32_t *ids;
    size_t count;
    int blocks;
    char *path = iso_strdup(in_folder(folder, "far.txt")), *text = iso_new(MOST + 1);
    for (size_t i = 0; i < sizeof far_reaching / sizeof *far_reaching; i++) {
        const struct far_reaching *f = &far_reaching[i];
        iso_tokenizer *t = NULL;
        size_t size = (size_t)snprintf(text, MOST + 1, "%s", f->begin);
        while (size < MOST)
            size += (size_t)snprintf(text + size, MOST + 1 - size, "%s", f->unit);
        write_file(path, text, MOST);
        OK(iso_tokenizer_parse("far", f->json, strlen(f->json), &t));
        OK(iso_tokenizer_encode(t, text, MOST, false, &ids, &count));
        iso_ids cut = in_blocks(t, path, 501, &blocks);
        ck_assert_msg(blocks >= f->least && blocks <= f->most, "case %zu: %d blocks", i, blocks);
        ck_assert_msg(cut.count == count && memcmp(cut.id, ids, count * sizeof *ids) == 0,
                      "case %zu: other tokens in blocks", i);
        iso_ids_free(&cut);
        iso_free(ids);
        iso_tokenizer_close(t);
    }
    iso_free(text);
    iso_free(path);
}
END_TEST

/* ---- expressions ---- */

/* Where tokenizers 0.23.3, whose expressions are Oniguruma's, splits a text into isolated matches. */
static const struct expression {
    const char *expression, *text;
    size_t end[4]; /* of the words; 0: no more */
} expressions[] = {
    {"^ab", "ab\nab", {2, 3, 5}},
    {"a$", "a\na", {1, 2, 3}},
    {"\\\\b", "\xe0\xa4\xa6\xe0\xa4\xbf a_b", {6, 7, 10}},
    {"\\\\w+", "\xe0\xa4\xa6\xe0\xa4\xbf\xc2\xb2+a", {8, 9, 10}},
    {"[\\\\p{N}]{,3}", "1234567", {3, 6, 7}},
    {"(?m:a.b)", "a\nba", {3, 4}},
    {"\\\\p{Han}+", "\xe6\xbc\xa2\xe3\x80\x82\xe5\xad\x97", {3, 6, 9}},
    {"\\\\v+", "a\n\013", {2, 3}},
};

START_TEST(test_expressions)
{
    for (size_t i = 0; i < sizeof expressions / sizeof *expressions; i++) {
        const struct expression *e = &expressions[i];
        char json[512];
        iso_tokenizer *t = NULL;
        int32_t *ids;
        size_t count, words = 0;
        snprintf(
            json, sizeof json,
            "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\","
            "\"invert\":false}," ONE_WORD "}",
            e->expression);
        OK(iso_tokenizer_parse("expression", json, strlen(json), &t));
        iso_token_scratch *scratch = iso_tokenizer_scratch_get(t);
        iso_bytes text = {0};
        iso_bytes_add(&text, e->text, strlen(e->text));
        OK(iso_splitters_run(&t->splitters, scratch, (iso_part_ends){true, true, true}, &text));
        for (; words < 4 && e->end[words]; words++)
            ck_assert_msg(words < scratch->spans[0].count &&
                              scratch->spans[0].span[words].end == e->end[words],
                          "'%s': word %zu", e->expression, words);
        ck_assert_uint_eq(scratch->spans[0].count, words);
        OK(iso_tokenizer_encode(t, e->text, strlen(e->text), false, &ids, &count));
        ck_assert_uint_eq(count, words);
        iso_free(ids);
        iso_bytes_free(&text);
        iso_tokenizer_scratch_put(t, scratch);
        iso_tokenizer_close(t);
    }
}
END_TEST

/* What is first for Metaspace is so in the text as it was given; a letter in a square is a part of a word. */
START_TEST(test_first)
{
    static const char first[] =
        "{\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},"
        "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":"
        "\"first\",\"split\":true},\"model\":{\"type\":\"BPE\",\"vocab\":{\"_\":0,\"a\":1},"
        "\"merges\":[]}}",
                      square[] = "{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," ONE_WORD "}";
    static const struct {
        const char *json, *text;
        size_t count;
    } cases[] = {{first, "a", 2}, {first, " a", 1}, {square, "a\xf0\x9f\x85\xb0", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_tokenizer *t = NULL;
        int32_t *ids;
        size_t count;
        OK(iso_tokenizer_parse("first", cases[i].json, strlen(cases[i].json), &t));
        OK(iso_tokenizer_encode(t, cases[i].text, strlen(cases[i].text), false, &ids, &count));
        ck_assert_msg(count == cases[i].count, "case %zu: %zu tokens", i, count);
        iso_free(ids);
        iso_tokenizer_close(t);
    }
}
END_TEST

/* ---- files of tokens ---- */

/* Whether a file of 16-bit tokens has those of the texts, with the separator between them. */
static void compare_file(const char *path, size_t header, const iso_tokenizer *t, const char *const *texts,
                         int count, int32_t separator)
{
    size_t size, at = header, n;
    char *bytes = read_file(path, &size);
    int32_t *ids;
    for (int i = 0; i < count; i++) {
        OK(iso_tokenizer_encode(t, texts[i], strlen(texts[i]), false, &ids, &n));
        for (size_t k = 0; k < n + (i + 1 < count && separator >= 0); k++, at += 2) {
            ck_assert_uint_le(at + 2, size);
            ck_assert_int_eq(number_at((char[]){bytes[at], bytes[at + 1], 0, 0}), k < n ? ids[k] : separator);
        }
        iso_free(ids);
    }
    ck_assert_uint_eq(at, size);
    iso_free(bytes);
}

START_TEST(test_files)
{
    const char *const texts[] = {"first tokens\n", "the second, 世界"}, *const lines[] = {"a b", " c", "d"};
    int64_t tokens, documents;
    int width;
    iso_tokenizer *t = open_tokenizer("gpt2");
    const char *files[4] = {iso_strdup(in_folder(folder, "a")), iso_strdup(in_folder(folder, "empty")),
                            iso_strdup(in_folder(folder, "b")), iso_strdup(in_folder(folder, "lines"))};
    char *out = iso_strdup(in_folder(folder, "t.bin"));
    write_file(files[0], texts[0], strlen(texts[0]));
    write_file(files[1], "", 0);
    write_file(files[2], texts[1], strlen(texts[1]));
    write_file(files[3], "\na b\r\n c\n\n\nd", 12);
    OK(iso_tokenize_files(ctx, t, out, .files = files, .count = 3, .tokens = &tokens, .documents = &documents,
                          .width = &width));
    ck_assert_int_eq(documents, 2);
    ck_assert_int_eq(width, 2);
    compare_file(out, 0, t, texts, 2, iso_tokenizer_end(t));
    OK(iso_tokenize_files(ctx, t, out, .files = files + 3, .count = 1, .lines = true, .separator = "!",
                          .form = ISO_TOKENS_LLMC, .tokens = &tokens, .documents = &documents));
    ck_assert_int_eq(documents, 3);
    compare_file(out, 1024, t, lines, 3, iso_tokenizer_id(t, "!"));
    iso_dataset *data = NULL;
    OK(iso_dataset_open(ctx, out, ISO_TRAIN, &data, .context = tokens - 1, .vocabulary = 400));
    ck_assert_int_eq(iso_dataset_rows(data), 1);
    iso_dataset_destroy(data);
    OK(iso_tokenize_files(ctx, t, out, .files = files + 3, .count = 1, .lines = true, .no_separator = true));
    compare_file(out, 0, t, lines, 3, -1);
    for (int i = 0; i < 4; i++)
        iso_free((void *)(uintptr_t)files[i]);
    iso_free(out);
    iso_tokenizer_close(t);
}
END_TEST

/* A text of several blocks: its file is that of its tokens at any number of ranks, and a data set has them too. */
START_TEST(test_many_blocks)
{
    enum { TIMES = 150 };
    size_t size, bytes;
    char *once = joined(" so\n", &size), *text = iso_new(TIMES * size + 1);
    iso_tokenizer *t = open_tokenizer("qwen2");
    char *path = iso_strdup(in_folder(folder, "many.txt")), *out = iso_strdup(in_folder(folder, "many.bin"));
    int32_t *ids = NULL, row[8];
    size_t count = 0;
    for (int i = 0; i < TIMES; i++)
        memcpy(text + (size_t)i * size, once, size);
    write_file(path, text, TIMES * size);
    OK(iso_tokenize_files(ctx, t, out, .files = (const char *[]){path}, .count = 1));
    OK(iso_tokenizer_encode(t, text, TIMES * size, false, &ids, &count));
    char *file = read_file(out, &bytes);
    ck_assert_uint_eq(bytes, 2 * count);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(number_at((char[]){file[2 * i], file[2 * i + 1], 0, 0}), ids[i]);
    iso_dataset *data = NULL;
    const iso_batch *batch;
    OK(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = 8, .vocabulary = 400,
                        .tokenizer = "tests/tokenizers/qwen2"));
    ck_assert_int_eq(iso_dataset_rows(data), (int64_t)(count - 1) / 8);
    OK(iso_dataset_seek(data, iso_dataset_rows(data) - 1));
    OK(iso_dataset_next(data, &batch));
    OK(batch->read(batch, 0, 0, 1, ISO_I32, row));
    ck_assert_int_eq(memcmp(row, ids + (count - 1) / 8 * 8 - 8, sizeof row), 0);
    iso_dataset_destroy(data);
    iso_free(file);
    iso_free(ids);
    iso_free(text);
    iso_free(once);
    iso_free(path);
    iso_free(out);
    iso_tokenizer_close(t);
}
END_TEST

/* ---- what is refused ---- */

static void refused(iso_status status, iso_status expected, const char *words)
{
    ck_assert_msg(status == expected && strstr(iso_error_message(), words), "'%s' should be said: %d %s",
                  words, status, iso_error_message());
}

/* ---- rows for classification ---- */

/* The checksum of the rows of a file; their labels are 0, 1, 2, 0, ... */
static uint32_t crc_of_rows(const char *path, int64_t rows, int64_t length)
{
    enum { MOST = 40 * 61 };
    int32_t ids[MOST], labels[40];
    iso_dataset *data = NULL;
    const iso_batch *batch;
    OK(iso_dataset_open(ctx, path, ISO_TRAIN, &data));
    ck_assert_int_eq(iso_dataset_rows(data), rows);
    OK(iso_dataset_batch(data, rows));
    OK(iso_dataset_next(data, &batch));
    OK(batch->read(batch, 0, 0, rows, ISO_I32, ids));
    OK(batch->read(batch, 1, 0, rows, ISO_I32, labels));
    for (int i = 0; i < rows; i++)
        ck_assert_int_eq(labels[i], i % 3);
    iso_dataset_destroy(data);
    return crc_of(ids, (size_t)(rows * length) * sizeof *ids);
}

START_TEST(test_rows)
{
    enum { ROWS = 40 };
    size_t size;
    char *expected = read_file("tests/tokenizers/rows.txt", &size), name[64];
    char *out = iso_strdup(in_folder(folder, "rows.h5"));
    const char *at = expected, *const files[] = {"tests/tokenizers/rows.tsv"};
    int length, read, seen = 0;
    uint32_t one, two;
    for (; sscanf(at, "%63s %d %x %x %n", name, &length, &one, &two, &read) == 4; at += read, seen++) {
        iso_tokenizer *t = open_tokenizer(name);
        int64_t rows = 0;
        OK(iso_tokenize_rows(ctx, t, out, .files = files, .count = 1, .first = "first", .label = "label",
                             .length = length, .rows = &rows));
        ck_assert_int_eq(rows, ROWS);
        ck_assert_msg(crc_of_rows(out, ROWS, length) == one, "%s, %d: other rows of texts", name, length);
        OK(iso_tokenize_rows(ctx, t, out, .files = files, .count = 1, .first = "first", .second = "second",
                             .label = "label", .length = length));
        ck_assert_msg(crc_of_rows(out, ROWS, length) == two, "%s, %d: other rows of pairs", name, length);
        iso_tokenizer_close(t);
    }
    ck_assert_int_eq(seen, 6);
    iso_free(expected);
    iso_free(out);
}
END_TEST

/* The same records in three forms, and what is refused. */
START_TEST(test_records)
{
    static const struct {
        const char *name, *text, *error;
    } cases[] = {
        {"a.tsv", "label\ttext\n1\tsay \"a\", b\r\n\n0\tc\n", NULL},
        {"a.csv", "text,label\r\n\"say \"\"a\"\", b\",1\nc,0", NULL},
        {"a.jsonl", "{\"text\": \"say \\\"a\\\", b\", \"label\": 1}\n \n{\"label\": 0, \"text\": \"c\"}\n",
         NULL},
        {"a.txt", "", "ends in .csv, .tsv or .jsonl"},
        {"b.tsv", "text\ta\n", "has no column 'label' in its first line"},
        {"b.tsv", "text\tlabel\na\t0\nb\n", "line 3: it has fewer fields"},
        {"c.csv", "\xef\xbb\xbftext,label\n\"say \"\"a\"\", b\",1\nc,0\n", NULL},
        {"b.csv", "label,text\n1,Hello, world\n",
         "line 2: it has more fields than the first line; a field with a comma"},
        {"b.csv", "text,label\n\"a\"b\"c\",1\n", "line 2: text follows a field in quotes"},
        {"b.csv", "text,label,text\na,1,b\n", "has two columns 'text'"},
        {"b.tsv", "text\tlabel\na\t-1\n", "line 2: the label '-1' (label) is no whole number"},
        {"b.tsv", "text\tlabel\n\xff\t1\n", "line 2: 'text' is not UTF-8: its byte 0 is 0xff"},
        {"b.tsv", "text\tlabel\n", "no records"},
        {"b.csv", "text,label\n\"a,1\n", "line 2: a field in quotes does not end"},
        {"b.jsonl", "{\"text\": \"a\", \"label\": 1}\n{\"text\": 1, \"label\": 1}\n",
         "line 2: 'text' is no text"},
        {"b.jsonl", "{\"text\": \"a\", \"label\": 1}\nx\n", "line 2, line 1"},
    };
    const iso_record_columns columns = {.first = "text", .label = "label"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_records records = {0};
        const char *path = in_folder(folder, cases[i].name);
        write_file(path, cases[i].text, strlen(cases[i].text));
        iso_status status = iso_records_read(path, &columns, &records);
        if (cases[i].error && status == ISO_OK && records.count == 0)
            ck_assert_str_eq(cases[i].error, "no records");
        else if (cases[i].error)
            refused(status, ISO_INVALID, cases[i].error);
        else {
            ck_assert_msg(status == ISO_OK, "%s", iso_error_message());
            ck_assert_int_eq(records.count, 2);
            ck_assert_int_eq(records.record[0].label, 1);
            ck_assert_uint_eq(records.texts.size, 11);
            ck_assert_mem_eq(records.texts.data, "say \"a\", bc", 11);
        }
        iso_records_free(&records);
    }
}
END_TEST

START_TEST(test_bad_texts)
{
    static const char *const kept = "keep";
    iso_tokenizer *t = open_tokenizer("gpt2"), *words = open_tokenizer("llama-2");
    char *path = iso_strdup(in_folder(folder, "bad.txt")), *out = iso_strdup(in_folder(folder, "bad.bin"));
    char *pipe = iso_strdup(in_folder(folder, "pipe.bin"));
    const char *files[] = {path}, *missing[] = {"no-such.txt"};
    int32_t *ids;
    size_t count;
    char *back;
    refused(iso_tokenizer_encode(t, "ab\xff", 3, false, &ids, &count), ISO_INVALID,
            "byte 2 (counted from 0) is 0xff");
    refused(iso_tokenizer_encode(t, "ab\xe2\x82", 4, false, &ids, &count), ISO_INVALID, "byte 2");
    refused(iso_tokenizer_encode(t, "\xed\xa0\x80", 3, false, &ids, &count), ISO_INVALID, "byte 0");
    refused(iso_tokenizer_decode(t, (int32_t[]){1, 5000}, 2, false, &back, &count), ISO_INVALID,
            "no token with id 5000");
    write_file(path, "good\n\xc0 bad", 10);
    write_file(out, kept, 4);
    ck_assert(iso_rank(ctx) != 0 || mkfifo(pipe, 0600) == 0);
    OK(iso_agree(ctx, ISO_OK));
    const char *names = names_in(folder);
    char *before = iso_strdup(names);
    refused(iso_tokenize_files(ctx, t, out, .files = files, .count = 1), ISO_INVALID,
            "bad.txt' is not UTF-8: byte 5");
    refused(iso_tokenize_files(ctx, t, out, .files = missing, .count = 1), ISO_INVALID, "no-such.txt");
    refused(iso_tokenize_files(ctx, t, out, .files = files, .count = 1, .separator = "<none>"), ISO_INVALID,
            "separator '<none>'");
    refused(iso_tokenize_files(ctx, t, out, .count = 1), ISO_INVALID, "the text is missing");
    refused(iso_tokenize_files(ctx, t, pipe, .files = files, .count = 1), ISO_INVALID, "not a regular file");
    write_file(path, "", 0);
    refused(iso_tokenize_files(ctx, t, out, .files = files, .count = 1), ISO_INVALID, "no tokens");
    ck_assert_str_eq(names_in(folder), before); /* nothing is left, and the old file is there */
    back = read_file(out, &count);
    ck_assert_mem_eq(back, kept, 4);
    iso_free(back);
    iso_free(before);
    iso_free(pipe);
    iso_free(path);
    iso_free(out);
    iso_tokenizer_close(t);
    iso_tokenizer_close(words);
}
END_TEST

#define WORDS "\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":null}"
static const struct bad {
    const char *json, *words;
} bad[] = {
    {"", "line 1"},
    {"[]", "is no object"},
    {"{}", "the model has no type"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "model: of type 'Unigram' is not supported"},
    {"{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":-1}}}", "the id of the token 'a'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}",
     "merge 0 (counted from 0) 'a' 'b'"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"ab\"]}}",
     "merge 0 (counted from 0) is no pair"},
    {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", "dropout: 0.1"},
    {"{\"normalizer\":{\"type\":\"Nmt\"}," WORDS "}", "normalizer: of type 'Nmt' is not supported"},
    {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}," WORDS "}",
     "the expression '('"},
    {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}," WORDS "}",
     "pre_tokenizer: of type 'UnicodeScripts'"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a{1,3}+\"},\"behavior\":\"Isolated\","
     "\"invert\":false}," WORDS "}",
     "'+' after an interval"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Kept\",\"invert\":"
     "false}," WORDS "}",
     "behavior: \"Kept\""},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\pL\"},\"behavior\":\"Isolated\"}"
     "," WORDS "}",
     "'\\pL': a property without"},
    {"{\"normalizer\":{\"type\":\"Strip\",\"strip_left\":\"true\"}," WORDS "}", "strip_left: \"true\""},
    {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Strip\",\"strip_left\":1}]}," WORDS
     "}",
     "strip_left: 1"},
    {"{\"added_tokens\":[{\"id\":1,\"content\":\"x\",\"rstrip\":0}]," WORDS "}", "rstrip: 0"},
    {"{\"added_tokens\":[{\"id\":1,\"content\":\"" LONG LONG "\"}]," WORDS "}",
     "the added token 'one two thone two thone two thone two th': it has 400 bytes"},
    {"{\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",99999]}," WORDS "}",
     "the post-processor adds the id 99999; ids end at 0"},
    {"{\"decoder\":{\"type\":\"CTC\"}," WORDS "}", "decoder: of type 'CTC'"},
    {"{\"post_processor\":{\"type\":\"Other\"}," WORDS "}", "post_processor: of type 'Other'"},
    {"{\"added_tokens\":[{\"id\":1}]," WORDS "}", "content: null is not supported"},
};

START_TEST(test_bad_tokenizers)
{
    iso_tokenizer *t = NULL;
    int32_t *ids;
    size_t count;
    const char *path = in_folder(folder, "tokenizer.json");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(path, bad[i].json, strlen(bad[i].json));
        refused(iso_tokenizer_open(path, &t), ISO_INVALID, bad[i].words);
        ck_assert_ptr_null(t);
    }
    write_file(path, "{" WORDS "}", strlen("{" WORDS "}"));
    OK(iso_tokenizer_open(folder, &t));
    refused(iso_tokenizer_encode(t, "b", 1, false, &ids, &count), ISO_INVALID,
            "U+0062 is not in the vocabulary");
    iso_tokenizer_close(t);
    refused(iso_tokenizer_open("tests", &t), ISO_INVALID, "has no tokenizer.json");
    refused(iso_tokenizer_open("no-such.json", &t), ISO_INVALID, "no-such.json");
}
END_TEST

int main(int argc, char **argv)
{
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK)
        status = RUN_TESTS_WITH("tokenizer", 120, make_folder, remove_folder, test_library, test_other_texts,
                                test_pairs, test_names, test_threads, test_blocks, test_no_cut, test_cuts,
                                test_expressions, test_first, test_files, test_many_blocks, test_rows,
                                test_records, test_bad_texts, test_bad_tokenizers)
                     ? ISO_FAILED
                     : ISO_OK;
    return iso_finish(ctx, status);
}
