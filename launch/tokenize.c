/* isogrid tokenize: writes the tokens of texts, or rows of tokens and labels, to a file for --data. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "collectives/control/control.h"
#include "launch/command.h"
#include "launch/train_impl.h"
#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/data/tokenizer/tokenizer.h"

typedef struct tokenize_options {
    const char *tokenizer, *out, *separator, *format;
    const char *text, *label;
    int64_t length; /* of a row; 0: a file of tokens */
    bool lines, special;
    const char **texts;
    int count;
} tokenize_options;

#define OWN(kind, member, name, value, help, choices)                                                        \
    {                                                                                                        \
        name, ISO_ARGUMENT_##kind, offsetof(tokenize_options, member), value, help, 0, 0, choices            \
    }
static const char *const formats[] = {"nanogpt", "llm.c", NULL};
static const iso_argument rows[] = {
    OWN(TEXT, tokenizer, "tokenizer", "FILE or DIR",
        "a tokenizer.json of Hugging Face, or the folder of a pretrained model that has one", NULL),
    OWN(TEXT, out, "out", "FILE",
        "the file of tokens to write, in a folder that all ranks see: 16 bits for each token, or 32 if the "
        "vocabulary is above 65536; named .bin, --data takes it",
        NULL),
    OWN(FLAG, lines, "lines", NULL, "each line that is not empty is a document; default: each file", NULL),
    OWN(TEXT, separator, "separator", "TOKEN or none",
        "the token between two documents; default: the eos_token that the folder names", NULL),
    OWN(FLAG, special, "special-tokens", NULL,
        "each document has the tokens that the tokenizer adds to a text, as transformers does by default",
        NULL),
    OWN(CHOICE, format, "format", "FORM",
        "nanogpt (the default): tokens alone; llm.c: behind its header of 1024 bytes", formats),
    {"length", ISO_ARGUMENT_COUNT, offsetof(tokenize_options, length), "N",
     "for models that classify texts: the texts are records (.csv, .tsv, .jsonl), and the file is HDF5 with "
     "a row of N "
     "tokens for each, shortened or filled up, and its label",
     1, 1 << 20, NULL},
    OWN(TEXT, text, "text", "NAME or NAME,NAME",
        "with --length: the column of the text, or of two texts that make a row together; default text",
        NULL),
    OWN(TEXT, label, "label", "NAME or none",
        "with --length: the column of the label, a whole number from 0 on; default label", NULL),
};
#undef OWN
enum { ROWS = sizeof rows / sizeof *rows };

static void tokenize_help(iso_text *text)
{
    iso_arguments_help(rows, ROWS, text);
}

static bool is_flag(const char *word)
{
    return !strcmp(word, "--lines") || !strcmp(word, "--special-tokens");
}

/* The texts may come before, between and after the options. other [argc + 1]: gets the rest. */
static iso_status sort_words(int argc, char *const *argv, tokenize_options *options, char **other, int *words)
{
    iso_status status = ISO_OK;
    other[(*words)++] = argv[0];
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            ISO_TRY(iso_list_add(options->texts, options->count, *(const char *const *)&argv[i], "texts"));
            continue;
        }
        other[(*words)++] = argv[i];
        if (!is_flag(argv[i]) && !strchr(argv[i], '=') && i + 1 < argc)
            other[(*words)++] = argv[++i];
    }
done:
    return status;
}

/* Whether the tokenizer's files are kept. */
static iso_status check_tokenizer_kept(const tokenize_options *options)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                                        "config.json"};
    iso_status status = iso_overwrite_check_file("--out", options->out, "--tokenizer", options->tokenizer);
    for (size_t i = 0; i < sizeof names / sizeof *names && status == ISO_OK; i++) {
        char *file = iso_file_join(options->tokenizer, names[i]);
        status = file ? iso_overwrite_check_file("--out", options->out, "--tokenizer", file)
                      : iso_no_memory("the name '%s'", names[i]);
        iso_free(file);
    }
    return status;
}

static iso_status tokenize_check(const tokenize_options *options)
{
    if (!options->tokenizer)
        return iso_error(ISO_INVALID, "--tokenizer is missing: a tokenizer.json, or a folder that has one");
    if (!options->out)
        return iso_error(ISO_INVALID, "--out is missing: the file of tokens to write");
    if (options->count == 0)
        return iso_error(ISO_INVALID,
                         "needs a text: isogrid tokenize TEXT... --tokenizer DIR --out FILE.bin");
    if (options->length && (options->lines || options->special || options->separator || options->format))
        return iso_error(ISO_INVALID,
                         "--length is for rows of labels; --lines, --special-tokens, --separator "
                         "and --format are for files of tokens");
    if (!options->length && (options->text || options->label))
        return iso_error(ISO_INVALID, "--text and --label need --length, the number of tokens of a row");
    if (options->length && !iso_file_name_ends(options->out, ".h5"))
        return iso_error(ISO_INVALID, "--out '%s': with --length the file is HDF5; its name must end in .h5",
                         options->out);
    if (!options->length && !options->format && !iso_file_name_ends(options->out, ".bin"))
        return iso_error(
            ISO_INVALID,
            "--out '%s': the name must end in .bin, by which --data knows a file of tokens; with "
            "--format llm.c it may be any",
            options->out);
    for (int i = 0; i < options->count; i++) {
        iso_status status = iso_overwrite_check_file("--out", options->out, "a text", options->texts[i]);
        if (status != ISO_OK)
            return status;
    }
    return check_tokenizer_kept(options);
}

static iso_status tokenize_read_options(int argc, char *const *argv, tokenize_options *options)
{
    int words = 0;
    char **other = iso_new(((size_t)argc + 1) * sizeof *other);
    iso_status status = other ? ISO_OK : iso_no_memory("%d arguments", argc);
    ISO_TRY(status);
    ISO_TRY(sort_words(argc, argv, options, other, &words));
    ISO_TRY(iso_arguments_parse(rows, ROWS, words, other, options));
    ISO_TRY(tokenize_check(options));
done:
    iso_free(other);
    return status;
}

static iso_status tokenize_records(iso_context *ctx, const tokenize_options *options,
                                   const iso_tokenizer *tokenizer)
{
    const char *label = options->label ? options->label : "label";
    char *first = iso_strdup(options->text ? options->text : "text"),
         *second = first ? strchr(first, ',') : NULL;
    int64_t count = 0;
    const bool labels = strcmp(label, "none") != 0;
    iso_status status = iso_agree(ctx, first ? ISO_OK : iso_no_memory("the names of columns"));
    if (second)
        *second++ = 0;
    if (status == ISO_OK)
        status = iso_tokenize_rows(ctx, tokenizer, options->out, .files = options->texts,
                                   .count = options->count, .first = first, .second = second,
                                   .label = labels ? label : NULL, .length = options->length, .rows = &count);
    if (status == ISO_OK && iso_is_chief(ctx))
        printf("%s: x int32 [%" PRId64 ", %" PRId64 "]%s\n", options->out, count, options->length,
               labels ? ", y int32" : "");
    iso_free(first);
    return status;
}

static iso_status tokenize(iso_context *ctx, const tokenize_options *options, const iso_tokenizer *tokenizer)
{
    const bool none = options->separator && !strcmp(options->separator, "none");
    int64_t tokens = 0, documents = 0;
    int width = 0;
    iso_status status = iso_tokenize_files(
        ctx, tokenizer, options->out, .files = options->texts, .count = options->count,
        .lines = options->lines, .special = options->special, .no_separator = none,
        .separator = none ? NULL : options->separator,
        .form = options->format && !strcmp(options->format, "llm.c") ? ISO_TOKENS_LLMC : ISO_TOKENS_PLAIN,
        .tokens = &tokens, .documents = &documents, .width = &width);
    if (status == ISO_OK && iso_is_chief(ctx))
        printf("%s: %" PRId64 " token%s of %d bits, %" PRId64 " document%s\n", options->out, tokens,
               tokens == 1 ? "" : "s", 8 * width, documents, documents == 1 ? "" : "s");
    return status;
}

static iso_status tokenize_run(iso_context *ctx, int argc, char *const *argv)
{
    tokenize_options options = {0};
    iso_tokenizer *tokenizer = NULL;
    iso_status status;
    ISO_TRY(iso_agree(ctx, tokenize_read_options(argc, argv, &options)));
    ISO_TRY(iso_agree(
        ctx, iso_is_chief(ctx) ? iso_output_path_check("--out ", options.out, ISO_TARGET_RENAMED) : ISO_OK));
    ISO_TRY(iso_stop_on_signals(ctx));
    ISO_TRY(iso_agree(ctx, iso_tokenizer_open(options.tokenizer, &tokenizer)));
    ISO_TRY(options.length ? tokenize_records(ctx, &options, tokenizer) : tokenize(ctx, &options, tokenizer));
done:
    iso_tokenizer_close(tokenizer);
    iso_free(options.texts);
    return status;
}

const iso_command iso_command_tokenize = {
    "tokenize", "TEXT... --tokenizer FILE or DIR --out FILE [OPTION...]",
    "writes the tokens of texts to a file that --data takes", .run = tokenize_run, .help = tokenize_help};
