/* The files of calibrations and networks. */
#include "runtime/report/calibration.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/build.h"
#include "runtime/base/hash.h"
#include "runtime/base/json.h"
#include "runtime/base/list.h"
#include "runtime/base/memory.h"
#include "runtime/base/printable.h"

/* ---- the list ---- */

static uint64_t hash_of(const char *key)
{
    return iso_hash_bytes(0, key, strlen(key));
}

typedef struct looked_up {
    const iso_calibration *calibration;
    const char *key;
} looked_up;

static bool has_key(const void *arg, int number)
{
    const looked_up *l = arg;
    return !strcmp(l->calibration->op[number].key, l->key);
}

static int find_op(const iso_calibration *c, const char *key)
{
    return iso_table_find(&c->by_key, hash_of(key), has_key, &(looked_up){c, key});
}

const iso_calibrated_op *iso_calibration_find(const iso_calibration *calibration, const char *key)
{
    int number = find_op(calibration, key);
    return number < 0 ? NULL : &calibration->op[number];
}

void iso_calibration_name_build(char text[ISO_CALIBRATION_TEXT])
{
    snprintf(text, ISO_CALIBRATION_TEXT, "%s (build %s)", iso_version(), iso_build_id());
}

const char *iso_calibration_measured_by(const iso_calibration *calibration)
{
    return calibration->build[0] ? calibration->build : "an earlier one";
}

iso_calibration *iso_calibration_create(void)
{
    return iso_new(sizeof(iso_calibration));
}

void iso_calibration_destroy(iso_calibration *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_ops; i++) {
        iso_free(c->op[i].key);
        iso_free(c->op[i].type);
    }
    iso_free(c->op);
    iso_table_free(&c->by_key);
    iso_free(c);
}

static int compare_words(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void iso_key_words_find(const char *key, iso_key_words *words)
{
    static const char separators[] = " ,[]@=";
    words->count = 0;
    for (key += strspn(key, separators); *key && words->count < ISO_KEY_WORDS;
         key += strspn(key, separators)) {
        size_t length = strcspn(key, separators);
        words->word[words->count++] = (uint32_t)iso_hash_bytes(0, key, length);
        key += length;
    }
    qsort(words->word, (size_t)words->count, sizeof *words->word, compare_words);
}

int iso_key_words_differ(const iso_key_words *a, const iso_key_words *b)
{
    int i = 0, j = 0, common = 0;
    while (i < a->count && j < b->count) {
        common += a->word[i] == b->word[j];
        uint32_t least = a->word[i] < b->word[j] ? a->word[i] : b->word[j];
        i += a->word[i] == least;
        j += b->word[j] == least;
    }
    return a->count + b->count - 2 * common;
}

iso_status iso_calibration_put(iso_calibration *c, const iso_calibrated_op *op)
{
    static const char what[] = "the ops of a calibration";
    iso_status status = ISO_OK;
    int known = find_op(c, op->key);
    iso_calibrated_op copy = *op;
    if (known >= 0) {
        copy.key = c->op[known].key;
        copy.type = c->op[known].type;
        copy.words = c->op[known].words;
        c->op[known] = copy;
        return ISO_OK;
    }
    copy.key = iso_strdup(op->key);
    copy.type = iso_strdup(op->type);
    if (!copy.key || !copy.type)
        ISO_TRY(iso_no_memory(what));
    iso_key_words_find(copy.key, &copy.words);
    ISO_TRY(iso_list_add(c->op, c->n_ops, copy, what));
    return iso_table_add(&c->by_key, hash_of(copy.key), c->n_ops - 1, what);
done:
    iso_free(copy.key);
    iso_free(copy.type);
    return status;
}

/* ---- reading ---- */

typedef struct reader {
    const char *file;
    const char *in; /* the object in the file: "rates." */
    const json_t *object;
} reader;

static iso_status wrong(const reader *r, const char *name, const char *should, const json_t *value)
{
    char is[64];
    return iso_error(ISO_INVALID, "%s: '%s%s' should be %s, and is %s", r->file, r->in, name, should,
                     value ? iso_json_shown(value, is, sizeof is) : "missing");
}

/* Limits of the numbers: wider than any machine's, and such that sums, products and quotients of them are finite. */
static const double LEAST_RATE = 1, LEAST_SECONDS = 1e-12, MOST = 1e30, MOST_SECONDS = 1e9, LEAST_GBIT = 1e-9,
                    MOST_GBIT = 1e18, LEAST_SHARE = 1e-6;

/* A number from `least` to `most`. */
static iso_status number(const reader *r, const char *name, double least, double most, double *out)
{
    const json_t *value = json_object_get(r->object, name);
    double found = json_is_number(value) ? json_number_value(value) : NAN;
    if (!(found >= least && found <= most)) {
        char should[64];
        snprintf(should, sizeof should, "a number from %g to %g", least, most);
        return wrong(r, name, should, value);
    }
    *out = found;
    return ISO_OK;
}

/* The same of a member that may be missing. */
static iso_status optional_number(const reader *r, const char *name, double least, double most, double *out)
{
    return json_object_get(r->object, name) ? number(r, name, least, most, out) : ISO_OK;
}

static iso_status whole_number(const reader *r, const char *name, int most, int *out)
{
    const json_t *value = json_object_get(r->object, name);
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > most) {
        char should[64];
        snprintf(should, sizeof should, "a whole number from 1 to %d", most);
        return wrong(r, name, should, value);
    }
    *out = (int)json_integer_value(value);
    return ISO_OK;
}

static iso_status string(const reader *r, const char *name, const char **out)
{
    const json_t *value = json_object_get(r->object, name);
    if (!json_is_string(value) || !json_string_value(value)[0])
        return wrong(r, name, "a string that is not empty", value);
    if (!iso_text_is_printable(json_string_value(value)))
        return wrong(r, name, "a string without control characters", value);
    *out = json_string_value(value);
    return ISO_OK;
}

static iso_status short_text(const reader *r, const char *name, char out[ISO_CALIBRATION_TEXT])
{
    const char *text = "";
    iso_status status = string(r, name, &text);
    if (status == ISO_OK && strlen(text) >= ISO_CALIBRATION_TEXT)
        status = wrong(r, name, "a string of at most 159 bytes", json_object_get(r->object, name));
    if (status == ISO_OK)
        snprintf(out, ISO_CALIBRATION_TEXT, "%s", text);
    return status;
}

static iso_status object(const reader *r, const char *name, const char *in, reader *out)
{
    const json_t *value = json_object_get(r->object, name);
    if (!json_is_object(value))
        return wrong(r, name, "an object", value);
    *out = (reader){r->file, in, value};
    return ISO_OK;
}

/* The members of a network; unknown ones are errors, because a misspelt one would be left out. */
static iso_status read_network(const reader *r, iso_network *out)
{
    static const char *const names[] = {"name",        "latency_us", "gbit_per_second",
                                        "message_us",  "byte_ns",    "window_bytes",
                                        "burst_bytes", "core_share", "skew_us"};
    enum { NAMES = sizeof names / sizeof names[0] };
    iso_network network = {.known = true};
    double microseconds = 0, gigabits = 0, each = 0, nanoseconds = 0, skew = 0;
    iso_status status = ISO_OK;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->object, name, value)
    {
        bool known = false;
        for (int i = 0; i < NAMES; i++)
            known |= !strcmp(name, names[i]);
        if (known)
            continue;
        if (!iso_text_is_printable(name))
            return iso_error(ISO_INVALID, "%s: a network has no member whose name has control characters",
                             r->file);
        iso_text near = {0};
        iso_text_add_nearest(&near, name, names, NAMES);
        status = iso_error(ISO_INVALID, "%s: a network has no '%s%s'%s", r->file, r->in, name,
                           iso_text_get(&near));
        iso_text_free(&near);
        return status;
    }
    ISO_TRY(short_text(r, "name", network.name));
    ISO_TRY(number(r, "latency_us", 0, MOST_SECONDS, &microseconds));
    ISO_TRY(number(r, "gbit_per_second", LEAST_GBIT, MOST_GBIT, &gigabits));
    ISO_TRY(optional_number(r, "message_us", 0, MOST_SECONDS, &each));
    ISO_TRY(optional_number(r, "byte_ns", 0, MOST_SECONDS, &nanoseconds));
    ISO_TRY(optional_number(r, "window_bytes", 0, MOST, &network.window));
    ISO_TRY(optional_number(r, "burst_bytes", 0, MOST, &network.burst));
    ISO_TRY(optional_number(r, "core_share", LEAST_SHARE, 1, &network.core));
    ISO_TRY(optional_number(r, "skew_us", 0, MOST_SECONDS, &skew));
    network.latency = microseconds * 1e-6;
    network.bandwidth = gigabits * 1e9 / 8;
    network.message = each * 1e-6;
    network.byte = nanoseconds * 1e-9;
    network.skew = skew * 1e-6;
    *out = network;
done:
    return status;
}

iso_status iso_network_parse(const char *file, const char *text, size_t size, iso_network *network)
{
    json_t *root = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_json_parse(file, text, size, &root));
    if (!json_is_object(root))
        ISO_TRY(iso_error(ISO_INVALID, "%s: should be an object", file));
    ISO_TRY(read_network(&(reader){file, "", root}, network));
done:
    json_decref(root);
    return status;
}

static iso_status read_rates(const reader *top, iso_machine_rates *rates)
{
    reader r;
    iso_status status;
    ISO_TRY(object(top, "rates", "rates.", &r));
    ISO_TRY(number(&r, "flops", LEAST_RATE, MOST, &rates->flops));
    ISO_TRY(number(&r, "bytes_one", LEAST_RATE, MOST, &rates->bytes_one));
    ISO_TRY(number(&r, "bytes_all", LEAST_RATE, MOST, &rates->bytes_all));
    ISO_TRY(number(&r, "barrier", 0, MOST_SECONDS, &rates->barrier));
    ISO_TRY(number(&r, "pull", LEAST_RATE, MOST, &rates->pull));
done:
    return status;
}

static iso_status read_machine(const reader *top, iso_calibration *c)
{
    reader r;
    iso_status status;
    ISO_TRY(object(top, "machine", "machine.", &r));
    ISO_TRY(short_text(&r, "processor", c->processor));
    ISO_TRY(short_text(&r, "backend", c->backend));
    ISO_TRY(short_text(&r, "date", c->date));
    if (json_object_get(r.object, "build"))
        ISO_TRY(short_text(&r, "build", c->build));
    ISO_TRY(whole_number(&r, "cores", 1 << 20, &c->cores));
done:
    return status;
}

static iso_status read_op(const char *file, const char *list, const json_t *value, size_t index,
                          iso_calibration *c)
{
    char in[48];
    const char *key = "", *op = "";
    iso_calibrated_op fresh = {0};
    iso_status status = ISO_OK;
    snprintf(in, sizeof in, "%s[%zu].", list, index);
    reader r = {file, in, value};
    if (!json_is_object(value))
        ISO_TRY(iso_error(ISO_INVALID, "%s: %s[%zu] should be an object", file, list, index));
    ISO_TRY(string(&r, "key", &key));
    ISO_TRY(string(&r, "op", &op));
    ISO_TRY(whole_number(&r, "busy", 1 << 20, &fresh.busy));
    ISO_TRY(number(&r, "flops", 0, MOST, &fresh.flops));
    ISO_TRY(number(&r, "bytes", 0, MOST, &fresh.bytes));
    ISO_TRY(number(&r, "seconds", LEAST_SECONDS, MOST_SECONDS, &fresh.seconds));
    if (iso_calibration_find(c, key))
        ISO_TRY(wrong(&r, "key", "the key of one op", json_object_get(value, "key")));
    fresh.key = (char *)key;
    fresh.type = (char *)op;
    ISO_TRY(iso_calibration_put(c, &fresh));
done:
    return status;
}

static iso_status read_all(const char *file, const json_t *root, iso_calibration *c)
{
    reader top = {file, "", root}, network;
    const char *list = json_object_get(root, "works") ? "works" : "ops"; /* "works": of earlier versions */
    const json_t *ops = json_object_get(root, list), *version = json_object_get(root, "version");
    iso_status status = ISO_OK;
    if (!json_is_object(root))
        ISO_TRY(iso_error(ISO_INVALID, "%s: should be an object", file));
    if (!json_is_integer(version) || json_integer_value(version) != ISO_CALIBRATION_VERSION)
        ISO_TRY(wrong(&top, "version", ISO_TEXT_OF(1) ", as this program writes it", version));
    ISO_TRY(read_machine(&top, c));
    ISO_TRY(read_rates(&top, &c->rates));
    if (json_object_get(root, "network")) {
        ISO_TRY(object(&top, "network", "network.", &network));
        ISO_TRY(read_network(&network, &c->network));
    }
    if (!json_is_array(ops))
        ISO_TRY(wrong(&top, list, "a list", ops));
    for (size_t i = 0; i < json_array_size(ops); i++)
        ISO_TRY(read_op(file, list, json_array_get(ops, i), i, c));
done:
    return status;
}

iso_status iso_calibration_parse(const char *file, const char *text, size_t size, iso_calibration **out)
{
    json_t *root = NULL;
    iso_calibration *c = NULL;
    iso_status status = ISO_OK;
    ISO_TRY(iso_json_parse(file, text, size, &root));
    if (!(c = iso_calibration_create()))
        ISO_TRY(iso_no_memory("a calibration"));
    ISO_TRY(read_all(file, root, c));
    *out = c;
    c = NULL;
done:
    json_decref(root);
    iso_calibration_destroy(c);
    return status;
}

/* ---- writing ---- */

static void print_network(const iso_network *network, iso_text *text)
{
    iso_text_add(text, ",\n\"network\": {");
    iso_json_put_text(text, "name", network->name);
    iso_json_put(text, "latency_us", "%.6g", network->latency * 1e6);
    iso_json_put(text, "gbit_per_second", "%.6g", network->bandwidth * 8e-9);
    iso_json_put(text, "message_us", "%.6g", network->message * 1e6);
    iso_json_put(text, "byte_ns", "%.6g", network->byte * 1e9);
    iso_json_put(text, "window_bytes", "%.6g", network->window);
    iso_json_put(text, "burst_bytes", "%.6g", network->burst);
    if (network->core > 0)
        iso_json_put(text, "core_share", "%.6g", network->core);
    iso_json_put(text, "skew_us", "%.6g", network->skew * 1e6);
    iso_text_add(text, "}");
}

void iso_calibration_print(const iso_calibration *c, iso_text *text)
{
    iso_text_add(text, "{\"version\": %d,\n\"machine\": {", ISO_CALIBRATION_VERSION);
    iso_json_put_text(text, "processor", c->processor);
    iso_json_put_text(text, "backend", c->backend);
    iso_json_put(text, "cores", "%d", c->cores);
    iso_json_put_text(text, "date", c->date);
    if (c->build[0])
        iso_json_put_text(text, "build", c->build);
    iso_text_add(text, "},\n\"rates\": {");
    iso_json_put(text, "flops", "%.6g", c->rates.flops);
    iso_json_put(text, "bytes_one", "%.6g", c->rates.bytes_one);
    iso_json_put(text, "bytes_all", "%.6g", c->rates.bytes_all);
    iso_json_put(text, "barrier", "%.6g", c->rates.barrier);
    iso_json_put(text, "pull", "%.6g", c->rates.pull);
    iso_text_add(text, "}");
    if (c->network.known)
        print_network(&c->network, text);
    iso_text_add(text, ",\n\"ops\": [");
    for (int i = 0; i < c->n_ops; i++) {
        iso_text_add(text, "%s\n{", i ? "," : "");
        iso_json_put_text(text, "key", c->op[i].key);
        iso_json_put_text(text, "op", c->op[i].type);
        iso_json_put(text, "busy", "%d", c->op[i].busy);
        iso_json_put(text, "flops", "%.6g", c->op[i].flops);
        iso_json_put(text, "bytes", "%.6g", c->op[i].bytes);
        iso_json_put(text, "seconds", "%.6g", c->op[i].seconds);
        iso_text_add(text, "}");
    }
    iso_text_add(text, "\n]}\n");
}
