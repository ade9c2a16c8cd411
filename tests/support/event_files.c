#include "tests/support/event_files.h"

#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t slow_crc32c(const unsigned char *data, size_t bytes)
{
    uint32_t rest = ~0u;
    for (size_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t top = (rest ^ (uint32_t)(data[i] >> bit)) & 1;
            rest = (rest >> 1) ^ (top ? 0x82F63B78u : 0);
        }
    return ~rest;
}

static uint64_t number(const unsigned char *at, int bytes)
{
    uint64_t out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        out = out << 8 | at[i];
    return out;
}

static uint32_t masked(const unsigned char *data, size_t bytes)
{
    uint32_t crc = slow_crc32c(data, bytes);
    return ((crc >> 15) | (crc << 17)) + 0xA282EAD8u;
}

void read_events(const char *path, events *out)
{
    FILE *file = fopen(path, "rb");
    unsigned char head[12], tail[4];
    ck_assert_msg(file != NULL, "%s is not there", path);
    memset(out, 0, sizeof *out);
    while (fread(head, 1, sizeof head, file) == sizeof head) {
        size_t bytes = (size_t)number(head, 8);
        ck_assert_uint_eq(number(head + 8, 4), masked(head, 8));
        unsigned char *data = malloc(bytes + 1);
        ck_assert_uint_eq(fread(data, 1, bytes, file), bytes);
        ck_assert_uint_eq(fread(tail, 1, 4, file), 4);
        ck_assert_uint_eq(number(tail, 4), masked(data, bytes));
        ck_assert_int_lt(out->count, MOST_EVENTS);
        out->packed[out->count] = data;
        out->bytes[out->count] = bytes;
        out->event[out->count] = isogrid__tensorboard__event__unpack(NULL, bytes, data);
        ck_assert_ptr_nonnull(out->event[out->count++]);
    }
    ck_assert(feof(file));
    fclose(file);
    ck_assert_int_gt(out->count, 0);
    ck_assert_str_eq(out->event[0]->file_version, "brain.Event:2");
}

void free_events(events *list)
{
    for (int i = 0; i < list->count; i++) {
        isogrid__tensorboard__event__free_unpacked(list->event[i], NULL);
        free(list->packed[i]);
    }
}

const event_value *value_of(const events *list, int i)
{
    ck_assert_int_eq(list->event[i]->what_case, ISOGRID__TENSORBOARD__EVENT__WHAT_SUMMARY);
    ck_assert_uint_eq(list->event[i]->summary->n_value, 1);
    return list->event[i]->summary->value[0];
}

const event_value *find_value(const events *list, const char *tag, int64_t step)
{
    const event_value *found = NULL;
    for (int i = 1; i < list->count; i++)
        if (strcmp(value_of(list, i)->tag, tag) == 0 && list->event[i]->step == step) {
            ck_assert_msg(!found, "%s is there twice", tag);
            found = value_of(list, i);
        }
    return found;
}

int count_tag(const events *list, const char *tag)
{
    int count = 0;
    for (int i = 1; i < list->count; i++)
        count += strcmp(value_of(list, i)->tag, tag) == 0;
    return count;
}

void check_scalar(const events *list, const char *tag, int64_t step, double expected)
{
    const event_value *v = find_value(list, tag, step);
    ck_assert_msg(v != NULL, "there is no %s of step %d", tag, (int)step);
    ck_assert_str_eq(v->metadata->plugin_data->plugin_name, "scalars");
    ck_assert_uint_eq(v->tensor->n_float_val, 1);
    ck_assert_msg(v->tensor->float_val[0] == (float)expected, "%s of step %d is %g, not %g", tag, (int)step,
                  (double)v->tensor->float_val[0], expected);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int find_event_files(const char *folder, const char *part, char path[][300], int most)
{
    char below[250], *names[20];
    int count = 0;
    snprintf(below, sizeof below, "%s/%s", folder, part);
    DIR *list = opendir(below);
    if (!list)
        return 0;
    for (struct dirent *entry = readdir(list); entry; entry = readdir(list))
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0 && count < 20)
            names[count++] = strdup(entry->d_name);
    closedir(list);
    qsort(names, (size_t)count, sizeof names[0], compare_names);
    for (int i = 0; i < count; i++) {
        if (i < most)
            snprintf(path[i], 300, "%.240s/%.50s", below, names[i]);
        free(names[i]);
    }
    return count;
}
