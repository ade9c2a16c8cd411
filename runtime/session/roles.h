/* Roles, for the library's own folders. */
#ifndef ISO_SESSION_ROLES_H
#define ISO_SESSION_ROLES_H

#include "runtime/base/text.h"
#include "runtime/session/session.h"

/* The path of what this rank writes in a role: {rank} and {role} in it are replaced, other braces stay. *name is
 * the caller's (iso_free). ISO_NO_MEMORY. */
iso_status iso_role_path(const iso_context *ctx, iso_role_kind role, const char *path, char **name);
/* The same for a file, of which an evaluator gets one of its own if the path has no {role}: "h.json" becomes
 * "h-evaluator.json". */
iso_status iso_role_file(const iso_context *ctx, iso_role_kind role, const char *path, char **name);
/* True on an evaluator whose job has workers too. */
bool iso_job_has_workers(const iso_context *ctx);
/* Asks, without waiting, whether the workers of this job have called iso_finish, and with which status. Only
 * rank 0 of the evaluator knows; elsewhere *ended is false. Returns errors of MPI. Local. */
iso_status iso_workers_ended(iso_context *ctx, bool *ended, iso_status *how);

#endif
