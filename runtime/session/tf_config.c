/* TensorFlow's TF_CONFIG, a JSON text in the environment:
 *   {"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}}
 * Its meaning and limits follow tensorflow/python/distribute/multi_worker_util.py: at most one chief and one
 * evaluator, the chief before the workers, and an evaluator that need not be in the cluster. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/json.h"
#include "runtime/session/roles_impl.h"

enum { CHIEF, WORKER, EVALUATOR, TYPES };
static const char *const types[TYPES] = {"chief", "worker", "evaluator"};

static int type_of(const char *name)
{
    int type = 0;
    while (type < TYPES && strcmp(types[type], name) != 0)
        type++;
    return type;
}

/* ---- the cluster ---- */

static iso_status check_addresses(const char *key, const json_t *list)
{
    if (!json_is_array(list))
        return iso_error(ISO_INVALID, "TF_CONFIG: \"%.40s\" of the cluster must be a list of addresses", key);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return iso_error(ISO_INVALID, "TF_CONFIG: address %zu of \"%.40s\" must be a string", i, key);
    return ISO_OK;
}

static iso_status check_job(const char *key, const json_t *list)
{
    int type = type_of(key);
    if (!strcmp(key, "ps"))
        return iso_error(
            ISO_INVALID,
            "TF_CONFIG: the cluster has parameter servers (\"ps\"). Isogrid has none: the workers "
            "hold the variables, replicated or sharded as the layouts say. Remove \"ps\" from the "
            "cluster");
    if (type == TYPES)
        return iso_error(ISO_INVALID,
                         "TF_CONFIG: the cluster has \"%.40s\"; it may have chief, worker and evaluator",
                         key);
    iso_status status = check_addresses(key, list);
    if (status == ISO_OK && type != WORKER && json_array_size(list) > 1)
        return iso_error(ISO_INVALID, "TF_CONFIG: the cluster has %zu tasks of type %s; it may have one",
                         json_array_size(list), key);
    return status;
}

static iso_status check_cluster(const json_t *cluster)
{
    const char *key;
    json_t *list;
    iso_status status = ISO_OK;
    if (cluster && !json_is_object(cluster))
        return iso_error(ISO_INVALID, "TF_CONFIG: \"cluster\" must be an object");
    json_object_foreach((json_t *)cluster, key, list)
    {
        if (status == ISO_OK)
            status = check_job(key, list);
    }
    return status;
}

static int count_tasks(const json_t *cluster, int type)
{
    return (int)json_array_size(json_object_get(cluster, types[type]));
}

static uint64_t hash_cluster(const json_t *cluster)
{
    uint64_t hash = 0;
    for (int type = CHIEF; type <= WORKER; type++)
        for (int i = 0; i < count_tasks(cluster, type); i++)
            hash = iso_hash_text(
                hash, json_string_value(json_array_get(json_object_get(cluster, types[type]), (size_t)i)));
    return hash;
}

/* ---- this process's task ---- */

static iso_status read_task(const json_t *cluster, const json_t *task, int *type, int *index)
{
    const char *name = json_string_value(json_object_get(task, "type"));
    const json_t *number = json_object_get(task, "index");
    if (!json_is_object(task) || !name || !json_is_integer(number))
        return iso_error(
            ISO_INVALID,
            "TF_CONFIG: \"task\" must name this process's task: {\"type\": \"worker\", \"index\": 0}");
    *type = type_of(name);
    if (*type == TYPES)
        return iso_error(ISO_INVALID, "TF_CONFIG: the task's type '%.40s' must be chief, worker or evaluator",
                         name);
    int count = count_tasks(cluster, *type);
    json_int_t value = json_integer_value(number);
    if (count == 0 && *type != EVALUATOR)
        return iso_error(ISO_INVALID, "TF_CONFIG: the task is a %s, and the cluster has none", name);
    if (value < 0 || value >= (count > 0 ? count : 1))
        return iso_error(ISO_INVALID,
                         "TF_CONFIG: the task is %s %lld, and the cluster has %d, counted from 0", name,
                         (long long)value, count > 0 ? count : 1);
    *index = (int)value;
    return ISO_OK;
}

static iso_status take(const json_t *root, iso_tf_task *out)
{
    const json_t *cluster = json_object_get(root, "cluster"), *task = json_object_get(root, "task");
    int type = WORKER, index = 0;
    if (!json_is_object(root))
        return iso_error(ISO_INVALID, "TF_CONFIG must be an object with \"cluster\" and \"task\"");
    iso_status status = check_cluster(cluster);
    int training = count_tasks(cluster, CHIEF) + count_tasks(cluster, WORKER);
    const char *name = json_string_value(json_object_get(task, "type"));
    if (status != ISO_OK || (training == 0 && (!name || strcmp(name, "evaluator") != 0)))
        return status; /* without a cluster there is one worker, as in TensorFlow */
    status = read_task(cluster, task, &type, &index);
    if (status != ISO_OK)
        return status;
    *out = (iso_tf_task){.given = true,
                         .role = type == EVALUATOR ? ISO_EVALUATOR : ISO_WORKER,
                         .order = type == WORKER ? count_tasks(cluster, CHIEF) + index : 0,
                         .n_training = training,
                         .cluster = hash_cluster(cluster),
                         .type = types[type],
                         .index = index};
    return ISO_OK;
}

iso_status iso_tf_task_read(const char *text, iso_tf_task *task)
{
    json_t *root = NULL;
    *task = (iso_tf_task){.given = false};
    iso_status status = iso_json_parse("TF_CONFIG", text, strlen(text), &root);
    if (status != ISO_OK)
        return status;
    status = take(root, task);
    json_decref(root);
    return status;
}

/* ---- the command that starts such a cluster ---- */

/* Adds the host of "host:port" or "[address]:port". */
static void add_host(iso_text *line, const char *address)
{
    bool brackets = address[0] == '[';
    const char *begin = address + brackets, *end = brackets ? strchr(begin, ']') : strrchr(begin, ':');
    iso_text_add(line, "%.*s", (int)(end ? (size_t)(end - begin) : strlen(begin)), begin);
}

static void add_hosts(iso_text *line, const json_t *list, int *added)
{
    size_t i;
    json_t *address;
    json_array_foreach((json_t *)list, i, address)
    {
        iso_text_add(line, "%s", (*added)++ ? "," : "");
        add_host(line, json_string_value(address));
    }
}

/* Adds a word so that a shell reads it as it is. */
static void add_word(iso_text *line, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
    if (*word && word[strspn(word, plain)] == 0) {
        iso_text_add(line, " %s", word);
        return;
    }
    iso_text_add(line, " '");
    for (; *word; word++)
        if (*word == '\'')
            iso_text_add(line, "'\\''");
        else
            iso_text_add(line, "%c", *word);
    iso_text_add(line, "'");
}

/* Adds this process's program and its arguments; the program alone where the system does not tell them. */
static void add_program(iso_text *line)
{
    char *argument = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/self/cmdline", "re");
    add_word(line, program_invocation_name);
    for (int at = 0; file && getdelim(&argument, &size, 0, file) >= 0; at++)
        if (at > 0)
            add_word(line, argument);
    free(argument);
    if (file)
        fclose(file);
}

void iso_tf_add_command(const char *text, iso_text *line)
{
    json_t *root = NULL;
    int added = 0;
    if (iso_json_parse("TF_CONFIG", text, strlen(text), &root) != ISO_OK)
        return;
    const json_t *cluster = json_object_get(root, "cluster");
    iso_text_add(line, "env -u TF_CONFIG mpirun -np %d -host ",
                 count_tasks(cluster, CHIEF) + count_tasks(cluster, WORKER));
    add_hosts(line, json_object_get(cluster, "chief"), &added);
    add_hosts(line, json_object_get(cluster, "worker"), &added);
    add_program(line);
    if (count_tasks(cluster, EVALUATOR) > 0) {
        iso_text_add(line, " : -np 1 -host ");
        added = 0;
        add_hosts(line, json_object_get(cluster, "evaluator"), &added);
        add_program(line);
        iso_text_add(line, " --role evaluator");
    }
    json_decref(root);
}
