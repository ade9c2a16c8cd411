#include "launch/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/session/options.h"

/* A limit as text, not rounded: 1099511627776, 1e-30. */
static const char *limit_text(double limit, char text[32])
{
    bool whole = limit == floor(limit) && fabs(limit) < 1e20;
    snprintf(text, 32, whole ? "%.0f" : "%g", limit);
    return text;
}

/* A range whose upper limit is huge is not printed: the message names only the limit that was exceeded. */
static iso_status out_of_range(const char *what, const char *text, bool above, double low, double high)
{
    char a[32], b[32];
    limit_text(low, a);
    limit_text(high, b);
    if (low == high)
        return iso_error(ISO_INVALID, "%s '%s': must be %s", what, text, a);
    if (high < 0x1p31 - 1)
        return iso_error(ISO_INVALID, "%s '%s': must be between %s and %s", what, text, a, b);
    return iso_error(ISO_INVALID, "%s '%s': must be at %s %s", what, text, above ? "most" : "least",
                     above ? b : a);
}

iso_status iso_argument_count(const char *what, const char *text, double low, double high, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end)
        return iso_error(ISO_INVALID, "%s '%s': not a whole number", what, text);
    if (errno == ERANGE || (double)number < low || (double)number > high)
        return out_of_range(what, text, number > 0 && (double)number >= low, low, high);
    *value = number;
    return ISO_OK;
}

iso_status iso_argument_real(const char *what, const char *text, double low, double high, double *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end || isnan(number))
        return iso_error(ISO_INVALID, "%s '%s': not a number", what, text);
    if (number < low || number > high) /* so are infinite ones */
        return out_of_range(what, text, number > high, low, high);
    *value = number;
    return ISO_OK;
}

bool iso_argument_size(const char *text, size_t length, double *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"B", 1},     {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                 {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
    char *end;
    const double number = strtod(text, &end);
    const size_t digits = (size_t)(end - text);
    for (size_t i = 0; digits > 0 && digits < length && i < sizeof units / sizeof units[0]; i++)
        if (strlen(units[i].name) == length - digits && !strncmp(units[i].name, end, length - digits)) {
            *bytes = number * units[i].bytes;
            return *bytes >= 1 && *bytes < 0x1p60;
        }
    return false;
}

iso_status iso_argument_shape(const char *what, const char *text, double low, int rank, iso_shape *out)
{
    char number[32];
    const char *at = text;
    iso_shape shape = {0};
    for (;;) {
        size_t length = strcspn(at, ",");
        if (shape.rank == rank || length >= sizeof number)
            return iso_error(ISO_INVALID, "%s '%s': must be up to %d sizes joined by ','", what, text, rank);
        snprintf(number, sizeof number, "%.*s", (int)length, at);
        iso_status status = iso_argument_count("size", number, low, 0x1p31 - 1, &shape.dim[shape.rank]);
        if (status != ISO_OK)
            return iso_error_prefix(status, "%s '%s': ", what, text);
        shape.rank++;
        if (!at[length])
            break;
        at += length + 1;
    }
    *out = shape;
    return ISO_OK;
}

enum { FEW_CHOICES = 4 }; /* all are named, not those that are near */

/* "it must be a, b or c" */
static void command_line_add_all(iso_text *text, const char *const *choices, int count)
{
    for (int i = 0; i < count; i++)
        iso_text_add(text, "%s%s", i == 0 ? "it must be " : i == count - 1 ? " or " : ", ", choices[i]);
}

static iso_status command_line_choose(const char *option, const iso_argument *row, const char *text,
                                      const char **value)
{
    int count = 0;
    for (; row->choices[count]; count++) {
        if (!strcmp(row->choices[count], text)) {
            *value = row->choices[count];
            return ISO_OK;
        }
    }
    iso_text words = {0};
    if (count <= FEW_CHOICES)
        command_line_add_all(&words, row->choices, count);
    else {
        iso_text_add(&words, "unknown");
        iso_text_add_nearest(&words, text, row->choices, count);
    }
    iso_status status = iso_error(ISO_INVALID, "%s '%s': %s", option, text, iso_text_get(&words));
    iso_text_free(&words);
    return status;
}

static iso_status command_line_append(const char *option, const char *text, iso_argument_list *list)
{
    if (list->count == ISO_MAX_LISTED)
        return iso_error(ISO_INVALID, "%s '%s': given %d times, at most %d are possible", option, text,
                         list->count + 1, ISO_MAX_LISTED);
    list->item[list->count++] = text;
    return ISO_OK;
}

static const iso_session_option *session_row(const iso_argument *row)
{
    return iso_session_option_find(row->name, strlen(row->name));
}

static bool is_flag(const iso_argument *row)
{
    return row->kind == ISO_ARGUMENT_FLAG || (row->kind == ISO_ARGUMENT_SESSION && session_row(row)->flag);
}

static iso_status store_session(const iso_argument *row, const char *text, void *member)
{
    const iso_session_option *option = session_row(row);
    uint64_t number;
    text = option->flag ? "1" : text;
    iso_status status = iso_session_option_check(option, text, &number);
    if (status != ISO_OK)
        return status;
    if (option->number)
        *(uint64_t *)member = number;
    else
        *(const char **)member = text;
    return ISO_OK;
}

static iso_status store(const iso_argument *row, const char *text, void *values)
{
    void *member = (char *)values + row->offset;
    char option[64];
    snprintf(option, sizeof option, "--%s", row->name);
    if (!is_flag(row) && !*text)
        return iso_error(ISO_INVALID, "%s: the value is empty", option);
    switch (row->kind) {
    case ISO_ARGUMENT_TEXT:
        *(const char **)member = text;
        return ISO_OK;
    case ISO_ARGUMENT_CHOICE:
        return command_line_choose(option, row, text, member);
    case ISO_ARGUMENT_SESSION:
        return store_session(row, text, member);
    case ISO_ARGUMENT_COUNT:
        return iso_argument_count(option, text, row->low, row->high, member);
    case ISO_ARGUMENT_REAL:
        return iso_argument_real(option, text, row->low, row->high, member);
    case ISO_ARGUMENT_LIST:
        return command_line_append(option, text, member);
    case ISO_ARGUMENT_FLAG:
        *(bool *)member = true;
        return ISO_OK;
    }
    return ISO_OK;
}

/* The option --help of every command; isogrid.c acts on it before a command reads its options. */
static const iso_argument help_row = {.name = "help", .kind = ISO_ARGUMENT_FLAG, .help = "prints this help"};

static iso_status command_line_unknown(const iso_argument *table, int rows, const char *word)
{
    char name[64];
    const char *names[ISO_MAX_ARGUMENTS + 1];
    for (int i = 0; i < rows; i++)
        names[i] = table[i].name;
    names[rows] = help_row.name;
    const char *bare = word + strspn(word, "-");
    snprintf(name, sizeof name, "%.*s", (int)strcspn(bare, "="), bare);
    iso_text near = {0};
    iso_text_add_nearest_options(&near, name, names, rows + 1);
    iso_status status = iso_error(ISO_INVALID, "unknown option '%s'%s", word, iso_text_get(&near));
    iso_text_free(&near);
    return status;
}

enum { FIRST_ROW = 256 }; /* what getopt_long returns for row 0: beyond all characters */

/* getopt_long accepts abbreviations, whose meaning would change with every new option. */
static bool spelt_out(const char *word, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(word, "--", 2) && !strncmp(word + 2, name, length) &&
           (word[2 + length] == '\0' || word[2 + length] == '=');
}

static iso_status parse_words(const iso_argument *table, int rows, const struct option *list, int argc,
                              char **words, void *values)
{
    optind = 0; /* glibc: start again, with another argv */
    opterr = 0;
    for (;;) {
        int at = optind ? optind : 1;
        int code = getopt_long(argc, words, "+:", list, NULL);
        if (code == -1)
            break;
        if (code == ':')
            return iso_error(ISO_INVALID, "option '%s' needs a value", words[at]);
        if (code == '?' && optopt >= FIRST_ROW)
            return iso_error(ISO_INVALID, "option '%s' takes no value", words[at]);
        if (code < FIRST_ROW || !spelt_out(words[at], table[code - FIRST_ROW].name))
            return command_line_unknown(table, rows, words[at]);
        iso_status status = store(&table[code - FIRST_ROW], optarg, values);
        if (status != ISO_OK)
            return status;
    }
    if (optind < argc)
        return iso_error(ISO_INVALID, "unexpected argument '%s' (options begin with --)", words[optind]);
    return ISO_OK;
}

iso_status iso_arguments_parse(const iso_argument *table, int rows, int argc, char *const *argv, void *values)
{
    struct option list[ISO_MAX_ARGUMENTS + 1] = {{0}};
    for (int i = 0; i < rows; i++) {
        list[i].name = table[i].name;
        list[i].has_arg = is_flag(&table[i]) ? no_argument : required_argument;
        list[i].val = FIRST_ROW + i;
    }
    char **words = iso_new(((size_t)argc + 1) * sizeof *words); /* getopt_long may move words */
    if (!words)
        return iso_no_memory("%d arguments", argc);
    for (int i = 0; i < argc; i++)
        words[i] = argv[i];
    iso_status status = parse_words(table, rows, list, argc, words, values);
    iso_free(words);
    return status;
}

enum { WIDTH = 70 };

/* The length of the next line of a text: it ends before a space, else after a comma, else at the margin. */
static size_t line_length(const char *words)
{
    static const char *const ends[] = {" ", ","};
    if (strlen(words) <= WIDTH)
        return strlen(words);
    for (int e = 0; e < 2; e++)
        for (size_t length = WIDTH; length > 0; length--)
            if (words[e ? length - 1 : length] == *ends[e])
                return length;
    return WIDTH;
}

/* Breaks a text into lines after a margin. */
static void add_wrapped(iso_text *text, const char *words)
{
    while (*words) {
        size_t length = line_length(words);
        iso_text_add(text, "        %.*s\n", (int)length, words);
        words += length;
        words += strspn(words, " ");
    }
}

/* The choices replace "%s" in the help, or come on lines of their own. */
static void add_choices(iso_text *words, const iso_argument *row)
{
    for (int c = 0; row->choices && row->choices[c]; c++)
        iso_text_add(words, "%s%s", c ? ", " : "", row->choices[c]);
}

static void add_help(iso_text *text, const iso_argument *row)
{
    const char *gap = strstr(row->help, "%s");
    iso_text words = {0};
    if (gap) {
        iso_text_add(&words, "%.*s", (int)(gap - row->help), row->help);
        add_choices(&words, row);
        iso_text_add(&words, "%s", gap + 2);
    } else {
        add_wrapped(text, row->help);
        iso_text_add(&words, "%s", row->choices ? "one of: " : "");
        add_choices(&words, row);
    }
    add_wrapped(text, iso_text_get(&words));
    iso_text_free(&words);
}

void iso_arguments_help(const iso_argument *table, int rows, iso_text *text)
{
    for (int i = 0; i <= rows; i++) {
        const iso_argument *row = i < rows ? &table[i] : &help_row;
        const iso_session_option *option = row->kind == ISO_ARGUMENT_SESSION ? session_row(row) : NULL;
        const char *value = option ? option->value : row->value;
        iso_text_add(text, "  --%s%s%s\n", row->name, value ? " " : "", value ? value : "");
        if (option && !row->help)
            add_wrapped(text, option->help);
        else
            add_help(text, row);
    }
}
