/* The zip container of a .keras file, read by libzip. Its contents are untrusted input. */
#include "models/keras/archive.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <zip.h>

#include "runtime/base/file.h"
#include "runtime/base/memory.h"

enum {
    MEMBERS = 3,
    BLOCK = 1 << 20,
    DEFLATE_MOST = 1032, /* the greatest number of bytes that one deflated byte expands to */
};

/* The members that a file of Keras may hold, and their largest sizes. The room for the weights limits theirs. */
static const struct {
    const char *name;
    zip_uint64_t most;
} members[MEMBERS] = {{ISO_KERAS_METADATA, 1 << 20},
                      {ISO_KERAS_CONFIG, ISO_KERAS_MOST_CONFIG},
                      {ISO_KERAS_WEIGHTS, UINT64_MAX}};

struct iso_keras_archive {
    char *name;
    zip_t *zip;
    struct {
        bool there;
        zip_uint64_t index, bytes;
    } member[MEMBERS];
};

/* ---- checks ---- */

/* A name in printable form. */
static char *shown(const char *name, char text[64])
{
    size_t i = 0;
    for (; name[i] && i < 59; i++)
        text[i] = (char)(isprint((unsigned char)name[i]) ? name[i] : '?');
    snprintf(text + i, 5, "%s", name[i] ? "..." : "");
    return text;
}

static int archive_find(const char *name)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(name, members[i].name) == 0)
            return i;
    return -1;
}

static iso_status check_member(const iso_keras_archive *a, const zip_stat_t *stat, int member)
{
    const char *name = members[member].name;
    if (a->member[member].there)
        return iso_error(ISO_INVALID, "%s: holds %s twice", a->name, name);
    if (stat->encryption_method != ZIP_EM_NONE)
        return iso_error(ISO_INVALID, "%s: %s is encrypted", a->name, name);
    if (stat->comp_method != ZIP_CM_STORE && stat->comp_method != ZIP_CM_DEFLATE)
        return iso_error(ISO_INVALID, "%s: %s is compressed by method %d; deflate and none are supported",
                         a->name, name, stat->comp_method);
    if (stat->size > members[member].most)
        return iso_error(ISO_INVALID, "%s: %s has %llu bytes, at most %llu are possible", a->name, name,
                         (unsigned long long)stat->size, (unsigned long long)members[member].most);
    if (stat->size / DEFLATE_MOST > stat->comp_size)
        return iso_error(
            ISO_INVALID,
            "%s: the archive says that %s has %llu bytes, more than its %llu compressed bytes can hold",
            a->name, name, (unsigned long long)stat->size, (unsigned long long)stat->comp_size);
    return ISO_OK;
}

static iso_status list_member(iso_keras_archive *a, zip_uint64_t index)
{
    const zip_uint64_t wanted = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD |
                                ZIP_STAT_ENCRYPTION_METHOD;
    zip_stat_t stat;
    char text[64];
    if (zip_stat_index(a->zip, index, ZIP_FL_ENC_RAW, &stat) != 0 || (stat.valid & wanted) != wanted)
        return iso_error(ISO_INVALID, "%s: member %llu cannot be read: %s", a->name,
                         (unsigned long long)index, zip_strerror(a->zip));
    int member = archive_find(stat.name);
    if (member < 0)
        return iso_error(ISO_INVALID,
                         "%s: holds '%s'; a model of Keras 3 holds " ISO_KERAS_METADATA ", " ISO_KERAS_CONFIG
                         " and " ISO_KERAS_WEIGHTS " and nothing else",
                         a->name, shown(stat.name, text));
    iso_status status = check_member(a, &stat, member);
    if (status != ISO_OK)
        return status;
    a->member[member].there = true;
    a->member[member].index = index;
    a->member[member].bytes = stat.size;
    return ISO_OK;
}

static iso_status list_members(iso_keras_archive *a)
{
    iso_status status = ISO_OK;
    zip_int64_t count = zip_get_num_entries(a->zip, 0);
    for (zip_int64_t i = 0; i < count; i++)
        ISO_TRY(list_member(a, (zip_uint64_t)i));
    if (!a->member[archive_find(ISO_KERAS_CONFIG)].there)
        return iso_error(ISO_INVALID, "%s: holds no " ISO_KERAS_CONFIG ": it is not a model of Keras",
                         a->name);
done:
    return status;
}

/* ---- opening ---- */

/* Takes over the source. */
static iso_status open_source(const char *name, zip_source_t *source, zip_error_t *error,
                              iso_keras_archive **archive)
{
    iso_keras_archive *a = iso_new(sizeof *a);
    iso_status status;
    if (!a || !(a->name = iso_strdup(name)))
        status = iso_no_memory("'%s'", name);
    else if (!source || !(a->zip = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, error)))
        status = zip_error_code_zip(error) == ZIP_ER_EXISTS
                     ? iso_error(ISO_INVALID, "%s: holds one name twice", name)
                     : iso_error(ISO_INVALID,
                                 "%s: is not a zip file, which models of Keras are, or is truncated: %s",
                                 name, zip_error_strerror(error));
    else
        status = list_members(a);
    if (status == ISO_OK) {
        *archive = a;
        return ISO_OK;
    }
    if (source && !(a && a->zip))
        zip_source_free(source);
    iso_keras_archive_close(a);
    return status;
}

iso_status iso_keras_archive_open(const char *path, iso_keras_archive **archive)
{
    zip_error_t error;
    if (access(path, R_OK) != 0)
        return iso_file_cannot_open(path);
    zip_error_init(&error);
    iso_status status = open_source(path, zip_source_file_create(path, 0, -1, &error), &error, archive);
    zip_error_fini(&error);
    return status;
}

iso_status iso_keras_archive_open_memory(const char *name, const void *data, size_t bytes,
                                         iso_keras_archive **archive)
{
    zip_error_t error;
    zip_error_init(&error);
    iso_status status = open_source(name, zip_source_buffer_create(data, bytes, 0, &error), &error, archive);
    zip_error_fini(&error);
    return status;
}

void iso_keras_archive_close(iso_keras_archive *archive)
{
    if (!archive)
        return;
    if (archive->zip)
        zip_discard(archive->zip);
    iso_free(archive->name);
    iso_free(archive);
}

/* ---- reading ---- */

/* Passes a member's bytes to a function in blocks; libzip compares their CRC at the end. */
typedef iso_status (*take_block)(void *user, const char *block, size_t bytes);

static iso_status read_blocks(iso_keras_archive *a, zip_file_t *file, int member, take_block take, void *user)
{
    iso_status status = ISO_OK;
    zip_uint64_t left = a->member[member].bytes;
    char *block = iso_new(BLOCK);
    if (!block)
        return iso_error(ISO_NO_MEMORY, "no memory to read '%s'", a->name);
    for (;;) {
        zip_int64_t got = zip_fread(file, block, BLOCK);
        if (got == 0 && left == 0)
            break;
        if (got <= 0 || (zip_uint64_t)got > left) {
            status = iso_error(ISO_INVALID, "%s: %s is damaged: %s", a->name, members[member].name,
                               got < 0 ? zip_file_strerror(file)
                               : got   ? "it is longer than the archive says"
                                       : "its end is missing");
            goto done;
        }
        left -= (zip_uint64_t)got;
        ISO_TRY(take(user, block, (size_t)got));
    }
done:
    iso_free(block);
    return status;
}

static iso_status read_member(iso_keras_archive *a, const char *name, take_block take, void *user)
{
    int member = archive_find(name);
    if (!a->member[member].there)
        return iso_error(ISO_INVALID, "%s: holds no %s", a->name, name);
    zip_file_t *file = zip_fopen_index(a->zip, a->member[member].index, 0);
    if (!file)
        return iso_error(ISO_INVALID, "%s: %s cannot be read: %s", a->name, name, zip_strerror(a->zip));
    iso_status status = read_blocks(a, file, member, take, user);
    zip_fclose(file);
    return status;
}

static iso_status archive_append(void *user, const char *block, size_t bytes)
{
    char **end = user;
    memcpy(*end, block, bytes);
    *end += bytes;
    return ISO_OK;
}

bool iso_keras_archive_has(const iso_keras_archive *archive, const char *member)
{
    return archive->member[archive_find(member)].there;
}

iso_status iso_keras_archive_read(iso_keras_archive *archive, const char *member, char **text, size_t *bytes)
{
    size_t size = (size_t)archive->member[archive_find(member)].bytes;
    char *data = iso_new(size + 1), *end = data;
    if (!data)
        return iso_no_memory("the %zu bytes of %s in '%s'", size, member, archive->name);
    iso_status status = read_member(archive, member, archive_append, &end);
    if (status != ISO_OK) {
        iso_free(data);
        return status;
    }
    *text = data;
    *bytes = size;
    return ISO_OK;
}

typedef struct target {
    int file;
    const char *path;
} target;

static iso_status write_block(void *user, const char *block, size_t bytes)
{
    const target *to = user;
    while (bytes > 0) {
        ssize_t done = write(to->file, block, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return iso_error(ISO_IO, "cannot write '%s': %s", to->path, strerror(errno));
        block += done;
        bytes -= (size_t)done;
    }
    return ISO_OK;
}

static iso_status check_room(const iso_keras_archive *a, int member, const target *to)
{
    struct statvfs about;
    if (fstatvfs(to->file, &about) != 0) /* unknown: writing tells */
        return ISO_OK;
    zip_uint64_t bytes = a->member[member].bytes, room = (zip_uint64_t)about.f_bavail * about.f_frsize;
    if (bytes <= room)
        return ISO_OK;
    return iso_error(ISO_IO,
                     "%s: %s has %llu bytes, and there is room for %llu to unpack it to '%s' (TMPDIR names "
                     "another folder)",
                     a->name, members[member].name, (unsigned long long)bytes, (unsigned long long)room,
                     to->path);
}

iso_status iso_keras_archive_unpack(iso_keras_archive *archive, const char *member, int file,
                                    const char *path)
{
    target to = {file, path};
    iso_status status = check_room(archive, archive_find(member), &to);
    if (status != ISO_OK)
        return status;
    return read_member(archive, member, write_block, &to);
}
