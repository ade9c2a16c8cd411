/* Regular expressions for paths of tensors, such as keys of layouts: those of Python's `re` (as in Keras's
 * LayoutMap), matched against whole paths. */
#ifndef ISO_BASE_PATTERN_H
#define ISO_BASE_PATTERN_H

#include <stdbool.h>

#include "runtime/base/status.h"
#include "runtime/base/text.h"

typedef struct iso_pattern iso_pattern;

/* ISO_INVALID names the position (in bytes, from 1) and what is wrong there; also for features of PCRE2
 * that Python does not have (recursion, verbs, \K, ...). Owned by the caller. */
iso_status iso_pattern_create(const char *text, iso_pattern **pattern);
void iso_pattern_destroy(iso_pattern *pattern);
/* Whether the text has no special character of expressions: as an expression it matches itself alone. */
bool iso_pattern_is_plain(const char *text);
/* Adds the expression that matches this path alone: special characters get a '\'. */
void iso_pattern_add_path(iso_text *text, const char *path);
/* Whether the whole path matches, as re.fullmatch(). ISO_INVALID if the path is not UTF-8, or if matching
 * takes more than a million steps, as an expression such as (a+)+b may. */
iso_status iso_pattern_match(const iso_pattern *pattern, const char *path, bool *found);
/* Whether some part of the path matches; false also if that cannot be determined. For advice, not for
 * decisions. */
bool iso_pattern_search(const iso_pattern *pattern, const char *path);

#endif
