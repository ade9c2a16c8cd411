#include "runtime/base/text.h"
#include "runtime/train/path_template_impl.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FIELD = 64, MAX_WIDTH = 64 };

/* The content of a pair of braces. */
typedef struct field {
    char name[MAX_FIELD];
    bool zeros;
    int width, digits; /* digits -1: not given */
    char kind;         /* 0: not given */
} field;

typedef struct value {
    bool integer;
    int64_t count;
    double real;
} value;

static int read_number(const char **at)
{
    int number = 0;
    while (isdigit((unsigned char)**at) && number <= MAX_WIDTH)
        number = number * 10 + (*(*at)++ - '0');
    return number;
}

/* Reads "[0][width][.digits][kind]" up to the closing brace. */
static bool read_format(const char *at, field *f)
{
    f->digits = -1;
    f->zeros = *at == '0';
    f->width = read_number(&at);
    if (*at == '.') {
        at++;
        if (!isdigit((unsigned char)*at))
            return false;
        f->digits = read_number(&at);
    }
    if (*at && strchr("defgEFG", *at))
        f->kind = *at++;
    return *at == '}' && f->width <= MAX_WIDTH && f->digits <= MAX_WIDTH;
}

/* Reads "name[:format]}" and moves *at past it. */
static bool read_field(const char **at, field *f)
{
    const char *end = strchr(*at, '}');
    size_t length = strcspn(*at, ":}");
    *f = (field){.digits = -1};
    if (!end || length == 0 || length >= MAX_FIELD)
        return false;
    memcpy(f->name, *at, length);
    const char *format = *at + length;
    *at = end + 1;
    return *format == '}' || read_format(format + 1, f);
}

static bool find_value(const field *f, int64_t epoch, int64_t batch, const iso_logs *logs, value *out)
{
    bool is_epoch = strcmp(f->name, "epoch") == 0;
    if (is_epoch || strcmp(f->name, "batch") == 0) {
        *out = (value){.integer = true, .count = is_epoch ? epoch : batch};
        out->real = (double)out->count;
        return true;
    }
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], f->name) == 0) {
            *out = (value){.real = logs->value[i]};
            return true;
        }
    return false;
}

/* The fewest digits that read back as the same number, formatted as Python does. */
static void add_shortest(iso_text *out, double real)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, real);
        if (strtod(text, NULL) == real)
            break;
    }
    iso_text_add(out, strpbrk(text, ".en") ? "%s" : "%s.0", text);
}

static void add_real(const field *f, char kind, double real, iso_text *out)
{
    char format[] = {'%', '0', '*', '.', '*', kind, 0};
    char plain[] = {'%', '*', '.', '*', kind, 0};
    iso_text_add(out, f->zeros ? format : plain, f->width, f->digits < 0 ? 6 : f->digits, real);
}

/* False if the kind does not fit the value. */
static bool path_template_add_value(const field *f, const value *v, iso_text *out)
{
    if (v->integer && (!f->kind || f->kind == 'd')) {
        if (f->digits >= 0)
            return false;
        iso_text_add(out, f->zeros ? "%0*" PRId64 : "%*" PRId64, f->width, v->count);
        return true;
    }
    if (f->kind == 'd')
        return false;
    if (!f->kind && f->digits < 0 && f->width == 0)
        add_shortest(out, v->real);
    else
        add_real(f, f->kind ? f->kind : 'g', v->real, out);
    return true;
}

static iso_status path_template_unknown(const char *pattern, const field *f, const iso_logs *logs)
{
    iso_text names = {0};
    iso_text_add(&names, "epoch, batch");
    for (int i = 0; i < logs->count; i++)
        iso_text_add(&names, ", %s", logs->name[i]);
    iso_status status = iso_error(ISO_INVALID, "file name '%s': there is no value '%s'; there are %s",
                                  pattern, f->name, iso_text_get(&names));
    iso_text_free(&names);
    return status;
}

static iso_status add_field(const char *pattern, const char **at, int64_t epoch, int64_t batch,
                            const iso_logs *logs, iso_text *out)
{
    field f;
    value v;
    int column = (int)(*at - pattern);
    if (!read_field(at, &f))
        return iso_error(
            ISO_INVALID,
            "file name '%s', column %d: should be {name} or {name:format}, such as {epoch:02d} or "
            "{val_loss:.4f}",
            pattern, column);
    if (!find_value(&f, epoch, batch, logs, &v))
        return path_template_unknown(pattern, &f, logs);
    if (!path_template_add_value(&f, &v, out))
        return iso_error(ISO_INVALID, "file name '%s', column %d: this format does not fit '%s'", pattern,
                         column, f.name);
    return ISO_OK;
}

iso_status iso_path_template_format(const char *pattern, int64_t epoch, int64_t batch, const iso_logs *logs,
                                    iso_text *out)
{
    iso_status status = ISO_OK;
    for (const char *at = pattern; *at && status == ISO_OK;) {
        char c = *at++;
        if ((c == '{' || c == '}') && *at == c)
            iso_text_add(out, "%c", *at++);
        else if (c == '{')
            status = add_field(pattern, &at, epoch, batch, logs, out);
        else if (c == '}')
            status = iso_error(ISO_INVALID, "file name '%s': a single '}' at column %d", pattern,
                               (int)(at - pattern));
        else
            iso_text_add(out, "%c", c);
    }
    return status == ISO_OK && out->failed ? iso_no_memory("a file name") : status;
}
