/* Keras's CSVLogger: the table that Python's csv module would write, in the dialect "excel". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arguments.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/train/callbacks_impl.h"
#include "runtime/train/line_file.h"

typedef struct csv_logger {
    iso_line_file file;
    char separator;
    bool append, separator_is_wrong;
    int n_keys; /* columns after "epoch" */
    char **keys;
} csv_logger;

/* ---- fields ---- */

/* The fewest digits that are read back as the same number, as Python prints it: "0.1", "2.0", "1e-05". */
static void add_number(iso_text *line, double value)
{
    char text[40];
    int digits = 1;
    if (!isfinite(value)) {
        iso_text_add(line, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    do
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    while (strtod(text, NULL) != value && digits++ < 17);
    int exponent = atoi(strchr(text, 'e') + 1);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, value);
    iso_text_add(line, "%s", text);
}

/* Quotes a field that has characters with a meaning in the table. */
static void add_field(const csv_logger *logger, iso_text *line, const char *text)
{
    bool quoted = strchr(text, logger->separator) || strpbrk(text, "\"\r\n");
    if (!quoted) {
        iso_text_add(line, "%s", text);
        return;
    }
    iso_text_add(line, "\"");
    for (; *text; text++)
        iso_text_add(line, "%s%c", *text == '"' ? "\"" : "", *text);
    iso_text_add(line, "\"");
}

/* ---- columns ---- */

static int csv_logger_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_validation(const iso_logs *logs)
{
    for (int i = 0; i < logs->count; i++)
        if (strncmp(logs->name[i], "val_", 4) == 0)
            return true;
    return false;
}

static bool add_key(csv_logger *logger, const char *prefix, const char *name)
{
    iso_text text = {0};
    iso_text_add(&text, "%s%s", prefix, name);
    logger->keys[logger->n_keys] = iso_strdup(iso_text_get(&text));
    iso_text_free(&text);
    return logger->keys[logger->n_keys++] != NULL;
}

/* Takes the names of the first epoch, sorted. If the logs have no values of validation, their names follow
 * all the same. */
static iso_status take_keys(csv_logger *logger, const iso_logs *logs)
{
    bool filled = true, doubled = !has_validation(logs);
    logger->keys = iso_new((2 * (size_t)logs->count + 1) * sizeof *logger->keys);
    for (int i = 0; logger->keys && i < logs->count && filled; i++)
        filled = add_key(logger, "", logs->name[i]);
    if (!logger->keys || !filled)
        return iso_no_memory("the columns of a table");
    qsort(logger->keys, (size_t)logger->n_keys, sizeof *logger->keys, csv_logger_compare);
    for (int i = 0; doubled && i < logs->count && filled; i++)
        filled = add_key(logger, "val_", logger->keys[i]);
    return filled ? ISO_OK : iso_no_memory("the columns of a table");
}

/* ---- lines ---- */

static void add_names(const csv_logger *logger, iso_text *line)
{
    iso_text_add(line, "epoch");
    for (int i = 0; i < logger->n_keys; i++) {
        iso_text_add(line, "%c", logger->separator);
        add_field(logger, line, logger->keys[i]);
    }
    iso_text_add(line, "\r\n");
}

static void csv_logger_add_value(iso_text *line, const iso_logs *logs, const char *name)
{
    for (int i = 0; i < logs->count; i++)
        if (strcmp(logs->name[i], name) == 0) {
            add_number(line, logs->value[i]);
            return;
        }
    iso_text_add(line, "NA");
}

/* The lines in the file may have other columns, if metrics or their names have changed. */
static void warn_of_columns(const csv_logger *logger)
{
    iso_text names = {0};
    char *line = NULL;
    size_t room = 0;
    FILE *reader = iso_line_file_empty(&logger->file) ? NULL : fopen(logger->file.path, "r");
    ssize_t length = reader ? getline(&line, &room, reader) : -1;
    add_names(logger, &names);
    if (length > 0 && strcmp(line, iso_text_get(&names)) != 0)
        iso_warn(
            "CSV file %s: the columns of its first line are %.*s; those of the lines from here on are %.*s",
            logger->file.path, (int)strcspn(line, "\r\n"), line, (int)strcspn(iso_text_get(&names), "\r\n"),
            iso_text_get(&names));
    iso_text_free(&names);
    free(line);
    if (reader)
        fclose(reader);
}

static iso_status csv_logger_epoch_end(void *user, iso_fit_state *state)
{
    csv_logger *logger = user;
    iso_text line = {0};
    iso_status status = ISO_OK;
    if (!logger->file.file)
        return ISO_OK;
    if (!logger->keys) {
        ISO_TRY(take_keys(logger, &state->logs));
        warn_of_columns(logger);
    }
    if (iso_line_file_empty(&logger->file))
        add_names(logger, &line);
    iso_text_add(&line, "%d", state->epoch);
    for (int i = 0; i < logger->n_keys; i++) {
        iso_text_add(&line, "%c", logger->separator);
        csv_logger_add_value(&line, &state->logs, logger->keys[i]);
    }
    iso_text_add(&line, "\r\n");
    status = line.failed ? iso_no_memory("a line of a table")
                         : iso_line_file_write(&logger->file, iso_text_get(&line));
done:
    iso_text_free(&line);
    return status;
}

static iso_status csv_logger_train_begin(void *user, iso_fit_state *state)
{
    csv_logger *logger = user;
    if (logger->separator_is_wrong)
        return iso_error(ISO_INVALID, "CSV file %s: the separator must be one character", logger->file.path);
    logger->file.keep = logger->append;
    return iso_line_file_open(&logger->file, state);
}

/* ---- state and creation ---- */

static iso_status csv_logger_save(void *user, iso_text *json)
{
    return iso_line_file_save(&((csv_logger *)user)->file, json);
}

static iso_status restore(void *user, const char *json)
{
    return iso_line_file_restore(&((csv_logger *)user)->file, json);
}

static void csv_logger_destroy(void *user)
{
    csv_logger *logger = user;
    for (int i = 0; i < logger->n_keys; i++)
        iso_free(logger->keys[i]);
    iso_free(logger->keys);
    iso_line_file_free(&logger->file);
    iso_free(logger);
}

iso_callback *iso_csv_logger_with(const iso_csv_logger_options *given, size_t size)
{
    iso_csv_logger_options options = {0};
    iso_options_copy(&options, sizeof options, given, size);
    csv_logger *logger = iso_new(sizeof *logger);
    if (!logger)
        return iso_callback_no_memory();
    const char *separator = options.separator ? options.separator : ",";
    logger->separator = separator[0];
    logger->separator_is_wrong = strlen(separator) != 1;
    logger->append = options.append;
    if (!iso_line_file_init(&logger->file, "CSV file", options.path)) {
        csv_logger_destroy(logger);
        return iso_callback_no_memory();
    }
    return iso_callback_logs(iso_callback_built_in(.train_begin = csv_logger_train_begin,
                                                   .epoch_end = csv_logger_epoch_end, .user = logger,
                                                   .destroy = csv_logger_destroy, .kind = "csv_logger",
                                                   .save = csv_logger_save, .restore = restore),
                             "");
}
