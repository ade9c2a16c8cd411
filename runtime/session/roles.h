/* Roles, for the library's own folders. */
#ifndef ISO_SESSION_ROLES_H
#define ISO_SESSION_ROLES_H

#include "runtime/base/text.h"
#include "runtime/session/session.h"

/* "worker" or "evaluator". */
const char *iso_role_name(const iso_context *ctx);
/* True on an evaluator whose job has workers too. */
bool iso_job_has_workers(const iso_context *ctx);
/* Asks, without waiting, whether the workers of this job have called iso_finish, and with which status. Only
 * rank 0 of the evaluator knows; elsewhere *ended is false. Returns errors of MPI. Local. */
iso_status iso_workers_ended(iso_context *ctx, bool *ended, iso_status *how);

#endif
