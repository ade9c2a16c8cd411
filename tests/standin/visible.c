/* Which GPUs a process sees: CUDA_VISIBLE_DEVICES, as the CUDA programming guide describes it. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tests/standin/standin.h"

enum { NONE = -1, UUID_TEXT = sizeof "GPU-00000000-0000-0000-0000-000000000000" };

static int all_gpus(void)
{
    long gpus = standin_number("STANDIN_GPUS", 1);
    return gpus < STANDIN_MOST_GPUS ? (int)gpus : STANDIN_MOST_GPUS;
}

static int on_host(int of_all)
{
    return of_all + (int)standin_number("STANDIN_FIRST_GPU", 0);
}

/* The number and the host's name, as seen by all processes of a host. */
static void make_uuid(int of_all, unsigned char uuid[STANDIN_UUID])
{
    char host[STANDIN_UUID - 1] = {0};
    gethostname(host, sizeof host - 1);
    uuid[0] = (unsigned char)on_host(of_all);
    memcpy(uuid + 1, host, sizeof host);
}

/* As nvidia-smi -L prints it. */
static void uuid_text(int of_all, char text[UUID_TEXT])
{
    unsigned char uuid[STANDIN_UUID];
    char *end = text;
    make_uuid(of_all, uuid);
    end += sprintf(end, "GPU");
    for (int i = 0; i < STANDIN_UUID; i++)
        end += sprintf(end, "%s%02x", i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static int by_index(const char *entry)
{
    if (strlen(entry) > 4 || strspn(entry, "0123456789") != strlen(entry))
        return NONE;
    int index = atoi(entry);
    return index < all_gpus() ? index : NONE;
}

/* The beginning of a UUID is enough if no other GPU has it. */
static int by_uuid(const char *entry)
{
    int found = NONE;
    for (int i = 0; i < all_gpus(); i++) {
        char text[UUID_TEXT];
        uuid_text(i, text);
        if (strncasecmp(text, entry, strlen(entry)) != 0)
            continue;
        if (found != NONE)
            return NONE;
        found = i;
    }
    return found;
}

static int named(const char *entry)
{
    bool index = isdigit((unsigned char)*entry);
    return index ? by_index(entry) : strncmp(entry, "GPU-", 4) == 0 ? by_uuid(entry) : NONE;
}

/* The GPUs of the list, up to the first entry that names none. */
static int read_list(const char *list, int gpus[STANDIN_MOST_GPUS])
{
    int count = 0;
    for (bool more = true; more;) {
        char entry[100];
        size_t length = strcspn(list, ",");
        snprintf(entry, sizeof entry, "%.*s", (int)length, list);
        int gpu = named(entry);
        if (gpu == NONE)
            break;
        for (int i = 0; i < count; i++)
            if (gpus[i] == gpu)
                standin_stop("CUDA_VISIBLE_DEVICES names GPU %d twice", gpu);
        gpus[count++] = gpu;
        more = list[length] == ',';
        list += length + 1;
    }
    return count;
}

static int visible(int gpus[STANDIN_MOST_GPUS])
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list)
        return read_list(list, gpus);
    for (int i = 0; i < all_gpus(); i++)
        gpus[i] = i;
    return all_gpus();
}

int standin_gpus(void)
{
    int gpus[STANDIN_MOST_GPUS];
    return visible(gpus);
}

int standin_number_on_host(int gpu)
{
    int gpus[STANDIN_MOST_GPUS];
    return gpu < visible(gpus) ? on_host(gpus[gpu]) : NONE;
}

bool standin_sees(int number_on_host)
{
    bool sees = false;
    for (int i = 0; i < standin_gpus(); i++)
        sees |= standin_number_on_host(i) == number_on_host;
    return sees;
}

void standin_uuid(int gpu, unsigned char uuid[STANDIN_UUID])
{
    int gpus[STANDIN_MOST_GPUS];
    memset(uuid, 0, STANDIN_UUID);
    if (gpu < visible(gpus))
        make_uuid(gpus[gpu], uuid);
}
