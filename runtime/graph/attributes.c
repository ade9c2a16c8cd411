/* Attributes: named, typed values that live as long as their graph. */
#include <inttypes.h>

#include "runtime/base/json.h"
#include "runtime/base/thread_modes.h"
#include "runtime/graph/graph_impl.h"
#include "runtime/graph/null_tensor.h"

iso_attribute *iso_attribute_add(iso_graph *graph, iso_attribute *to, const iso_attribute *value)
{
    if (ISO_ANY_NULL(graph) || ISO_NULL_IN(graph, value))
        return NULL;
    iso_attribute *added = iso_graph_keep(graph, sizeof *added);
    if (!added)
        return NULL;
    *added = *value;
    added->next = NULL;
    if (!to)
        return added;
    if (to->last)
        to->last->next = added;
    else
        to->first = added;
    return to->last = added;
}

static void print_members(const iso_attribute *attribute, iso_text *text)
{
    for (const iso_attribute *member = attribute->first; member; member = member->next) {
        iso_json_key(text, attribute->kind == ISO_ATTRIBUTE_OBJECT ? member->name : NULL);
        iso_attribute_print(member, text);
    }
}

void iso_attribute_print(const iso_attribute *attribute, iso_text *text)
{
    ISO_DEFAULT_MODES();
    if (ISO_ANY_NULL(attribute, text))
        return;
    switch (attribute->kind) {
    case ISO_ATTRIBUTE_NONE:
        iso_text_add(text, "null");
        return;
    case ISO_ATTRIBUTE_FLAG:
        iso_text_add(text, attribute->integer ? "true" : "false");
        return;
    case ISO_ATTRIBUTE_INTEGER:
        iso_text_add(text, "%" PRId64, attribute->integer);
        return;
    case ISO_ATTRIBUTE_REAL:
        iso_text_add(text, "%.17g", attribute->real);
        return;
    case ISO_ATTRIBUTE_TEXT:
        iso_json_add_text(text, attribute->text);
        return;
    case ISO_ATTRIBUTE_INPUT:
        iso_text_add(text, "{");
        iso_json_put(text, "input", "%" PRId64 "}", attribute->integer);
        return;
    case ISO_ATTRIBUTE_LIST:
    case ISO_ATTRIBUTE_OBJECT:
        iso_text_add(text, attribute->kind == ISO_ATTRIBUTE_LIST ? "[" : "{");
        print_members(attribute, text);
        iso_text_add(text, attribute->kind == ISO_ATTRIBUTE_LIST ? "]" : "}");
        return;
    }
}
