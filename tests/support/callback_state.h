/* The state of callbacks as a text. */
#ifndef ISO_TESTS_CALLBACK_STATE_H
#define ISO_TESTS_CALLBACK_STATE_H

#include <string.h>

#include "runtime/base/json.h"
#include "runtime/train/callbacks_impl.h"

static inline iso_status save_state(iso_callback *const *callbacks, iso_text *text)
{
    json_t *list;
    iso_status status = iso_callbacks_save(callbacks, &list);
    if (status != ISO_OK)
        return status;
    iso_json_add(text, list, 0);
    return ISO_OK;
}

static inline iso_status restore_state(iso_callback *const *callbacks, const char *text)
{
    json_t *list;
    iso_status status = iso_json_parse("the state of callbacks", text, strlen(text), &list);
    if (status != ISO_OK)
        return status;
    status = iso_callbacks_restore(callbacks, list);
    json_decref(list);
    return status;
}

#endif
