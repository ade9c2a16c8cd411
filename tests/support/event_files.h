/* Reads TensorBoard's event files, with none of the library's code except the generated messages. */
#ifndef ISO_TESTS_SUPPORT_EVENT_FILES_H
#define ISO_TESTS_SUPPORT_EVENT_FILES_H

#include "runtime/train/tensorboard/events.pb-c.h"

typedef Isogrid__Tensorboard__Event event;
typedef Isogrid__Tensorboard__Value event_value;

enum { MOST_EVENTS = 500 };

typedef struct events {
    int count;
    event *event[MOST_EVENTS];
    unsigned char *packed[MOST_EVENTS];
    size_t bytes[MOST_EVENTS];
} events;

/* CRC-32C, bit by bit. */
uint32_t slow_crc32c(const unsigned char *data, size_t bytes);
/* Reads a file; fails the test if its framing or version is wrong. */
void read_events(const char *path, events *out);
void free_events(events *list);
/* The only value of an event. */
const event_value *value_of(const events *list, int i);
/* The value under a tag at a step; NULL: there is none. */
const event_value *find_value(const events *list, const char *tag, int64_t step);
int count_tag(const events *list, const char *tag);
void check_scalar(const events *list, const char *tag, int64_t step, double expected);
/* The paths of the event files in FOLDER/PART, in order of names; returns how many there are. */
int find_event_files(const char *folder, const char *part, char path[][300], int most);

#endif
