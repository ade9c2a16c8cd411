#include "runtime/data/tokenizer/text_records_impl.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base/file.h"
#include "runtime/base/list.h"
#include "runtime/data/stream_impl.h"

enum { READ = 1 << 20, MEMBERS = 3 }; /* members: two texts and the label */

/* What is read, and where reading is. */
typedef struct reading {
    const char *path;
    const iso_record_columns *columns;
    iso_records *records;
    const char *at, *end;
    int64_t line;  /* of `at`, from 1 on */
    int column[3]; /* of a table: the number of each member's field; -1: it is not asked for */
    int columns_count;
    char separator; /* of a table */
} reading;

static iso_status read_whole(const char *path, iso_bytes *text)
{
    iso_byte_stream *stream = NULL;
    size_t got = READ;
    iso_status status;
    ISO_TRY(iso_byte_stream_open(path, NULL, 0, &stream));
    while (got == READ) {
        if (text->room - text->size < READ && !iso_bytes_grow(text, READ))
            ISO_TRY(iso_no_memory("the text of '%s'", path));
        ISO_TRY(iso_byte_stream_read(stream, text->data + text->size, READ, &got));
        text->size += got;
    }
done:
    iso_byte_stream_close(stream);
    return status;
}

static const char *name_of(const iso_record_columns *columns, int member)
{
    return member == 0 ? columns->first : member == 1 ? columns->second : columns->label;
}

static iso_status set_label(const reading *r, const char *text, size_t size, iso_record *record)
{
    char digits[16] = "", *after;
    if (size < sizeof digits)
        memcpy(digits, text, size);
    const long label = strtol(digits, &after, 10);
    if (size == 0 || size >= sizeof digits || after != digits + size || label < 0 || label > INT32_MAX)
        return iso_error(ISO_INVALID,
                         "'%s', line %" PRId64 ": the label '%.*s' (%s) is no whole number from 0 on",
                         r->path, r->line, (int)(size < 40 ? size : 40), text, r->columns->label);
    record->label = (int32_t)label;
    return ISO_OK;
}

/* Gives a record one of its members. */
static iso_status set_member(const reading *r, int member, const char *text, size_t size, iso_record *record)
{
    const size_t good = iso_utf8_check(text, size, NULL);
    if (member == 2)
        return set_label(r, text, size, record);
    if (good < size)
        return iso_error(ISO_INVALID, "'%s', line %" PRId64 ": '%s' is not UTF-8: its byte %zu is 0x%02x",
                         r->path, r->line, name_of(r->columns, member), good, (uint8_t)text[good]);
    record->begin[member] = r->records->texts.size;
    record->size[member] = size;
    iso_bytes_add(&r->records->texts, text, size);
    return r->records->texts.failed ? iso_no_memory("the records of '%s'", r->path) : ISO_OK;
}

/* ---- tables ---- */

/* Reads a field in quotes, at the character after the first; a quote in it stands twice. */
static iso_status read_quoted(reading *r, iso_bytes *field)
{
    const int64_t line = r->line;
    for (; r->at < r->end; r->at++) {
        r->line += *r->at == '\n';
        if (*r->at == '"') {
            r->at++;
            if (r->at == r->end || *r->at != '"')
                return ISO_OK;
        }
        iso_bytes_add(field, r->at, 1);
    }
    return iso_error(ISO_INVALID, "'%s', line %" PRId64 ": a field in quotes does not end", r->path, line);
}

/* Reads a field; *last: it is the last of its line. */
static iso_status read_field(reading *r, iso_bytes *field, bool *last)
{
    iso_status status = ISO_OK;
    field->size = 0;
    if (r->separator == ',' && r->at < r->end && *r->at == '"') {
        r->at++;
        status = read_quoted(r, field);
        if (status == ISO_OK && r->at < r->end && *r->at != r->separator && *r->at != '\n' && *r->at != '\r')
            status = iso_error(ISO_INVALID,
                               "'%s', line %" PRId64
                               ": text follows a field in quotes; a quote in it stands twice",
                               r->path, r->line);
    }
    const char *begin = r->at;
    while (r->at < r->end && *r->at != r->separator && *r->at != '\n')
        r->at++;
    *last = r->at == r->end || *r->at == '\n';
    const bool feed = *last && r->at > begin && r->at[-1] == '\r';
    iso_bytes_add(field, begin, (size_t)(r->at - begin) - feed);
    r->at += r->at < r->end;
    return status == ISO_OK && field->failed ? iso_no_memory("a field of '%s'", r->path) : status;
}

static iso_status read_names(reading *r, iso_bytes *field)
{
    iso_status status = ISO_OK;
    bool last = r->at == r->end;
    for (int i = 0; i < MEMBERS; i++)
        r->column[i] = -1;
    for (int column = 0; !last; column++) {
        ISO_TRY(read_field(r, field, &last));
        for (int i = 0; i < MEMBERS; i++) {
            const char *name = name_of(r->columns, i);
            if (!name || strlen(name) != field->size || memcmp(name, field->data, field->size) != 0)
                continue;
            if (r->column[i] >= 0)
                return iso_error(ISO_INVALID, "'%s' has two columns '%s' in its first line", r->path, name);
            r->column[i] = column;
        }
        r->columns_count = column + 1;
    }
    for (int i = 0; i < MEMBERS; i++)
        if (name_of(r->columns, i) && r->column[i] < 0)
            return iso_error(ISO_INVALID, "'%s' has no column '%s' in its first line", r->path,
                             name_of(r->columns, i));
    r->line++;
done:
    return status;
}

static iso_status read_line(reading *r, iso_bytes *field)
{
    iso_record record = {{0}, {0}, 0};
    bool last = false;
    int found = 0, wanted = 0;
    const int64_t line = r->line;
    iso_status status = ISO_OK;
    for (int column = 0; !last; column++) {
        ISO_TRY(read_field(r, field, &last));
        if (column >= r->columns_count)
            return iso_error(ISO_INVALID, "'%s', line %" PRId64 ": it has more fields than the first line%s",
                             r->path, line, r->separator == ',' ? "; a field with a comma needs quotes" : "");
        for (int i = 0; i < MEMBERS; i++)
            if (r->column[i] == column) {
                ISO_TRY(set_member(r, i, field->size ? field->data : "", field->size, &record));
                found++;
            }
    }
    for (int i = 0; i < MEMBERS; i++)
        wanted += r->column[i] >= 0;
    if (found < wanted)
        return iso_error(ISO_INVALID, "'%s', line %" PRId64 ": it has fewer fields than the first line",
                         r->path, r->line);
    ISO_TRY(iso_list_add(r->records->record, r->records->count, record, "records"));
    r->line++;
done:
    return status;
}

static iso_status read_table(reading *r)
{
    iso_bytes field = {0};
    iso_status status = read_names(r, &field);
    while (status == ISO_OK && r->at < r->end) {
        const bool empty = *r->at == '\n' || (*r->at == '\r' && r->end - r->at > 1 && r->at[1] == '\n');
        if (!empty) {
            status = read_line(r, &field);
            continue;
        }
        r->at += *r->at == '\r' ? 2 : 1;
        r->line++;
    }
    iso_bytes_free(&field);
    return status;
}

/* ---- JSON lines ---- */

static iso_status read_object(const reading *r, const char *text, size_t size)
{
    char name[512], digits[32];
    json_t *root = NULL;
    iso_record record = {{0}, {0}, 0};
    snprintf(name, sizeof name, "'%s', line %" PRId64, r->path, r->line);
    iso_status status = iso_json_parse(name, text, size, &root);
    for (int i = 0; i < MEMBERS && status == ISO_OK; i++) {
        const char *key = name_of(r->columns, i);
        const json_t *value = key ? json_object_get(root, key) : NULL;
        if (!key)
            continue;
        if (i < 2 ? !json_is_string(value) : !json_is_integer(value)) {
            status = iso_error(ISO_INVALID, "%s: '%s' is no %s", name, key, i < 2 ? "text" : "whole number");
            break;
        }
        if (i == 2)
            snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        status = i < 2 ? set_member(r, i, json_string_value(value), json_string_length(value), &record)
                       : set_member(r, i, digits, strlen(digits), &record);
    }
    json_decref(root);
    return status == ISO_OK ? iso_list_add(r->records->record, r->records->count, record, "records") : status;
}

static iso_status read_lines(reading *r)
{
    iso_status status = ISO_OK;
    for (; status == ISO_OK && r->at < r->end; r->line++) {
        const char *feed = memchr(r->at, '\n', (size_t)(r->end - r->at)), *end = feed ? feed : r->end;
        size_t blank = 0;
        while (r->at + blank < end && strchr(" \t\r", r->at[blank]))
            blank++;
        if (r->at + blank < end)
            status = read_object(r, r->at, (size_t)(end - r->at));
        r->at = feed ? feed + 1 : r->end;
    }
    return status;
}

static bool is_named(const char *path, const char *extension)
{
    char packed[16];
    snprintf(packed, sizeof packed, "%s.gz", extension);
    return iso_file_name_ends(path, extension) || iso_file_name_ends(path, packed);
}

iso_status iso_records_read(const char *path, const iso_record_columns *columns, iso_records *records)
{
    static const char mark[] = "\xef\xbb\xbf"; /* that some programs put before UTF-8 */
    iso_bytes text = {0};
    const bool csv = is_named(path, ".csv"), tsv = is_named(path, ".tsv"), json = is_named(path, ".jsonl");
    if (!csv && !tsv && !json)
        return iso_error(ISO_INVALID, "'%s': the name of a file of records ends in .csv, .tsv or .jsonl",
                         path);
    iso_status status = read_whole(path, &text);
    reading r = {.path = path,
                 .columns = columns,
                 .records = records,
                 .at = text.data,
                 .end = text.data + text.size,
                 .line = 1,
                 .separator = csv ? ',' : '\t'};
    if (text.size >= sizeof mark - 1 && memcmp(text.data, mark, sizeof mark - 1) == 0)
        r.at += sizeof mark - 1;
    if (status == ISO_OK)
        status = json ? read_lines(&r) : read_table(&r);
    iso_bytes_free(&text);
    return status;
}

void iso_records_free(iso_records *records)
{
    iso_bytes_free(&records->texts);
    iso_free(records->record);
}
