#include "runtime/train/tensorboard/event_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/memory.h"
#include "runtime/train/tensorboard/events.pb-c.h"
#include "runtime/train/tensorboard/record.h"

typedef Isogrid__Tensorboard__Event event_message;
typedef Isogrid__Tensorboard__Value value_message;
typedef Isogrid__Tensorboard__Tensor tensor_message;
typedef Isogrid__Tensorboard__Dimension dimension_message;

struct iso_event_file {
    FILE *file;
    char *path;
};

/* ---- files ---- */

/* Makes a folder and its parents; path is changed during the call and restored. */
static bool make_folders(char *path)
{
    for (char *at = path + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
            *at = '/';
            if (!made)
                return false;
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static iso_status event_file_failed(const char *path)
{
    return iso_error(ISO_IO, "TensorBoard's %s: %s", path, strerror(errno));
}

static char *name_file(const char *folder)
{
    static atomic_int number;
    char host[256] = "localhost", name[4096];
    gethostname(host, sizeof host - 1);
    int length = snprintf(name, sizeof name, "%s/events.out.tfevents.%lld.%s.%ld.%d.v2", folder,
                          (long long)time(NULL), host, (long)getpid(), atomic_fetch_add(&number, 1));
    return length < (int)sizeof name ? iso_strdup(name) : NULL;
}

/* ---- events ---- */

static iso_status write_event(iso_event_file *file, event_message *event)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    size_t bytes = isogrid__tensorboard__event__get_packed_size(event);
    uint8_t *packed = iso_new(bytes + 1);
    if (!packed)
        return iso_no_memory("an event of %zu bytes", bytes);
    isogrid__tensorboard__event__pack(event, packed);
    bool written = iso_record_write(file->file, packed, bytes);
    iso_free(packed);
    return written ? ISO_OK : event_file_failed(file->path);
}

/* The first record of every file. */
static iso_status write_version(iso_event_file *file)
{
    Isogrid__Tensorboard__SourceMetadata source = ISOGRID__TENSORBOARD__SOURCE_METADATA__INIT;
    event_message event = ISOGRID__TENSORBOARD__EVENT__INIT;
    source.writer = "isogrid";
    event.what_case = ISOGRID__TENSORBOARD__EVENT__WHAT_FILE_VERSION;
    event.file_version = "brain.Event:2";
    event.source_metadata = &source;
    iso_status status = write_event(file, &event);
    return status == ISO_OK ? iso_event_file_flush(file) : status;
}

iso_status iso_event_file_create(const char *folder, iso_event_file **out)
{
    iso_status status = ISO_OK;
    iso_event_file *file = iso_new(sizeof *file);
    char *folders = iso_strdup(folder);
    if (!file || !folders || !(file->path = name_file(folder)))
        ISO_TRY(iso_no_memory("an event file in %s", folder));
    if (!make_folders(folders))
        ISO_TRY(event_file_failed(folder));
    file->file = fopen(file->path, "w");
    if (!file->file)
        ISO_TRY(event_file_failed(file->path));
    ISO_TRY(write_version(file));
    *out = file;
    file = NULL;
done:
    iso_free(folders);
    iso_event_file_close(file);
    return status;
}

void iso_event_file_close(iso_event_file *file)
{
    if (!file)
        return;
    if (file->file)
        fclose(file->file);
    iso_free(file->path);
    iso_free(file);
}

iso_status iso_event_file_flush(iso_event_file *file)
{
    return fflush(file->file) == 0 && !ferror(file->file) ? ISO_OK : event_file_failed(file->path);
}

/* ---- values ---- */

/* plugin: the TensorBoard plugin that shows the value. Its own data, a message with version 0, is empty. */
static iso_status write_value(iso_event_file *file, const char *tag, const char *plugin,
                              tensor_message *tensor, int64_t step)
{
    Isogrid__Tensorboard__Plugin shown = ISOGRID__TENSORBOARD__PLUGIN__INIT;
    Isogrid__Tensorboard__Metadata metadata = ISOGRID__TENSORBOARD__METADATA__INIT;
    Isogrid__Tensorboard__Summary summary = ISOGRID__TENSORBOARD__SUMMARY__INIT;
    value_message value = ISOGRID__TENSORBOARD__VALUE__INIT, *values[] = {&value};
    event_message event = ISOGRID__TENSORBOARD__EVENT__INIT;
    shown.plugin_name = (char *)plugin;
    metadata.plugin_data = &shown;
    value.tag = (char *)tag;
    value.tensor = tensor;
    value.metadata = &metadata;
    summary.n_value = 1;
    summary.value = values;
    event.step = step;
    event.what_case = ISOGRID__TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(file, &event);
}

iso_status iso_event_file_scalar(iso_event_file *file, const char *tag, double value, int64_t step)
{
    Isogrid__Tensorboard__Shape shape = ISOGRID__TENSORBOARD__SHAPE__INIT;
    tensor_message tensor = ISOGRID__TENSORBOARD__TENSOR__INIT;
    float narrowed = (float)value;
    tensor.dtype = ISOGRID__TENSORBOARD__DATA_TYPE__FLOAT;
    tensor.tensor_shape = &shape;
    tensor.n_float_val = 1;
    tensor.float_val = &narrowed;
    return write_value(file, tag, "scalars", &tensor, step);
}

iso_status iso_event_file_text(iso_event_file *file, const char *tag, const char *text, int64_t step)
{
    Isogrid__Tensorboard__Shape shape = ISOGRID__TENSORBOARD__SHAPE__INIT;
    tensor_message tensor = ISOGRID__TENSORBOARD__TENSOR__INIT;
    ProtobufCBinaryData data = {.len = strlen(text), .data = (uint8_t *)text};
    tensor.dtype = ISOGRID__TENSORBOARD__DATA_TYPE__STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &data;
    return write_value(file, tag, "text", &tensor, step);
}

/* [buckets, 3]: left edge, right edge, count */
static void fill_rows(const iso_histogram *histogram, double rows[ISO_HISTOGRAM_BUCKETS][3])
{
    double range = histogram->greatest - histogram->least;
    for (int b = 0; b < ISO_HISTOGRAM_BUCKETS; b++) {
        bool last = b == ISO_HISTOGRAM_BUCKETS - 1;
        rows[b][0] = histogram->least + range * b / ISO_HISTOGRAM_BUCKETS;
        rows[b][1] = last ? histogram->greatest : histogram->least + range * (b + 1) / ISO_HISTOGRAM_BUCKETS;
        rows[b][2] = histogram->count[b];
    }
}

iso_status iso_event_file_histogram(iso_event_file *file, const char *tag, const iso_histogram *histogram,
                                    int64_t step)
{
    double rows[ISO_HISTOGRAM_BUCKETS][3];
    dimension_message buckets = ISOGRID__TENSORBOARD__DIMENSION__INIT, three = buckets;
    dimension_message *dimensions[] = {&buckets, &three};
    Isogrid__Tensorboard__Shape shape = ISOGRID__TENSORBOARD__SHAPE__INIT;
    tensor_message tensor = ISOGRID__TENSORBOARD__TENSOR__INIT;
    fill_rows(histogram, rows);
    buckets.size = ISO_HISTOGRAM_BUCKETS;
    three.size = 3;
    shape.n_dim = 2;
    shape.dim = dimensions;
    tensor.dtype = ISOGRID__TENSORBOARD__DATA_TYPE__DOUBLE;
    tensor.tensor_shape = &shape;
    tensor.tensor_content = (ProtobufCBinaryData){.len = sizeof rows, .data = (uint8_t *)rows};
    return write_value(file, tag, "histograms", &tensor, step);
}
