/* Touches files in every way that the injector stands in for, so that test_injector can tell what it sees.
 * touches FOLDER: the folder must not be there. Prints what failed ("pwrite: No space left on device") or was
 * short, and goes on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void tell(const char *call, long result, long wanted)
{
    if (result < 0)
        printf("%s: %s\n", call, strerror(errno));
    else if (result != wanted)
        printf("%s: %ld instead of %ld\n", call, result, wanted);
}
#define TELL(call, wanted, ...) tell(#call, (long)call(__VA_ARGS__), wanted)

static void touch_data(int fd)
{
    char data[100] = "data";
    struct iovec parts[2] = {{data, 60}, {data, 40}};
    TELL(write, 100, fd, data, 100);
    TELL(pwrite, 100, fd, data, 100, 100);
    TELL(writev, 100, fd, parts, 2);
    TELL(pwritev, 100, fd, parts, 2, 300);
    TELL(pread, 100, fd, data, 100, 0);
    TELL(preadv, 100, fd, parts, 2, 0);
    TELL(fallocate, 0, fd, 0, 0, 1000);
    tell("posix_fallocate", -(long)(errno = posix_fallocate(fd, 0, 2000)), 0);
    TELL(ftruncate, 0, fd, 3000);
    TELL(sync_file_range, 0, fd, 0, 100, SYNC_FILE_RANGE_WRITE);
    TELL(fdatasync, 0, fd);
    TELL(fsync, 0, fd);
    TELL(flock, 0, fd, LOCK_SH);
}

/* A stream's calls under the names of the system's. */
static void write_stream(void)
{
    char data[5000] = "data";
    FILE *out = fopen("stream", "w");
    tell("open", out ? 0 : -1, 0);
    if (!out)
        return;
    fwrite(data, 1, sizeof data, out); /* more than a buffer holds */
    tell("write", ferror(out) || fflush(out) ? -1 : 0, 0);
    TELL(ftruncate, 0, fileno(out), 100);
    tell("close", fclose(out), 0);
}

static void touch_temporary(void)
{
    char path[] = "temporary-XXXXXX", text[5] = "";
    int fd = mkstemp(path);
    FILE *both = fd < 0 ? NULL : fdopen(fd, "r+");
    tell("open", both ? 0 : -1, 0);
    if (!both)
        return;
    fputs("text", both);
    tell("write", fflush(both), 0);
    rewind(both);
    tell("read", fread(text, 1, 4, both) == 4 ? 0 : -1, 0);
    tell("close", fclose(both), 0);
    TELL(chmod, 0, path, 0600);
    tell("unlink", remove(path), 0);
}

static void touch_names(const char *folder)
{
    struct stat st;
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    tell("open", at < 0 ? -1 : 0, 0);
    TELL(renameat, 0, at, "x", at, "y");
    TELL(rename, 0, "y", "./z");
    TELL(link, 0, "z", "z2");
    TELL(symlink, 0, "z", "s");
    TELL(stat, 0, "z", &st);
    TELL(access, 0, "../touched/z", R_OK);
    TELL(unlinkat, 0, at, "z2", 0);
    TELL(unlink, 0, "s");
    TELL(fsync, 0, at);
    TELL(close, 0, at);
    DIR *list = opendir(folder);
    tell("opendir", list ? 0 : -1, 0);
    if (list && (errno = 0, !readdir(list)))
        tell("readdir", -1, 0);
    if (list)
        tell("close", closedir(list), 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    TELL(mkdir, 0, argv[1], 0777);
    if (chdir(argv[1]))
        return 1;
    int fd = open("x", O_RDWR | O_CREAT, 0666);
    tell("open", fd < 0 ? -1 : 0, 0);
    touch_data(fd);
    TELL(close, 0, fd);
    write_stream();
    touch_temporary();
    touch_names(argv[1]);
    puts("end");
    return 0;
}
