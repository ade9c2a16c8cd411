/* The time limit of the Slurm job that this process runs in. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/session/session_impl.h"

/* A time in seconds since 1970; 0: the text does not begin with one. */
static double read_time(const char *text)
{
    return text && isdigit((unsigned char)*text) ? strtod(text, NULL) : 0;
}

/* Begin and end of the job, as squeue prints them; both 0 if it does not. answer: its first line. */
static iso_status ask_squeue(const char *job, double *begin, double *end, char *answer, int size)
{
    char command[200];
    snprintf(command, sizeof command, "SLURM_TIME_FORMAT=%%s squeue -h -o '%%e %%S' -j %s 2>&1", job);
    FILE *out = popen(command, "r");
    if (!out)
        return iso_error(ISO_IO, "squeue could not be started, to ask for the job's time limit");
    if (!fgets(answer, size, out))
        answer[0] = 0;
    pclose(out);
    answer[strcspn(answer, "\n")] = 0;
    const char *blank = strchr(answer, ' ');
    *end = read_time(answer);
    *begin = blank ? read_time(blank + 1) : 0;
    return ISO_OK;
}

iso_status iso_time_limit_query(double *left, double *whole)
{
    const char *job = getenv("SLURM_JOB_ID");
    char answer[200] = "";
    double end = read_time(getenv("SLURM_JOB_END_TIME")), begin = read_time(getenv("SLURM_JOB_START_TIME"));
    if (!job || !*job || job[strspn(job, "0123456789")])
        return iso_error(ISO_INVALID,
                         "there is no Slurm job whose time limit could be asked for: SLURM_JOB_ID "
                         "is %s",
                         job && *job ? job : "not set");
    iso_status status = end > 0 ? ISO_OK : ask_squeue(job, &begin, &end, answer, sizeof answer);
    if (status != ISO_OK)
        return status;
    if (end <= 0)
        return iso_error(ISO_INVALID,
                         "Slurm knows no time limit of job %s (sbatch --time sets one); squeue: %s", job,
                         answer[0] ? answer : "no answer");
    *left = end - (double)time(NULL);
    *whole = begin > 0 ? end - begin : 0;
    return ISO_OK;
}
