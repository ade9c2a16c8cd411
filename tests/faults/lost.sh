# For the scripts that lose ranks: a folder, jobs, and checks of what they leave. To be sourced.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
BUILD=${BUILD:-build}
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
mkdir "$work/mpi"
export OMPI_MCA_orte_tmpdir_base=$work/mpi OMPI_MCA_btl_vader_backing_directory=$work/mpi ISOGRID_REPORTS=$work/reports
# After a rank has died, the others have this many seconds for their report.
export OMPI_MCA_odls_base_sigkill_timeout=2
# shellcheck disable=SC2034  # for those who source this
long=${ISOGRID_TEST_LONG:-}
mpirun=(launch/mpirun)
export lost=$BUILD/tests/faults/lost
jobs=0

fail() { echo "FAILED: $*" >&2 && exit 1; }
print() { for file in "$@"; do echo "--- $file" && cat "$file"; done; }

# The processes of a job, with the rank.
processes() {
    local environ rank
    for environ in /proc/[0-9]*/environ; do
        grep -qszx "ISOGRID_JOB=$ISOGRID_JOB" "$environ" || continue
        rank=$(tr '\0' '\n' <"$environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
        [ -z "$rank" ] || echo "$rank $(basename "$(dirname "$environ")")"
    done
}
process_of() { processes | sed -n "s/^$1 //p" | head -n 1; } # RANK

wait_until() { # WHAT SECONDS COMMAND...
    local what=$1 end=$((SECONDS + $2))
    shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "$what did not happen: $(print "$work"/out "$work"/errors)"
        sleep 0.1
    done
}
gone() { [ -z "$(processes)" ]; }

begin() { # RANKS COMMAND...: in the background; $job is its process
    local ranks=$1
    shift
    export ISOGRID_JOB=test-$$-$((++jobs))
    rm -rf "$work/reports"
    mkdir "$work/reports"
    timeout --kill-after=5 300 "${mpirun[@]}" -np "$ranks" -x ISOGRID_JOB -x ISOGRID_REPORTS "$@" >"$work/out" 2>"$work/errors" &
    job=$!
}
# The job ends with a code, and leaves no process.
ends() { # WHAT CODE
    local code=0
    wait "$job" || code=$?
    [ $code -eq "$2" ] || fail "$1: exit code $code, not $2: $(print "$work"/out "$work"/errors)"
    wait_until "$1: the end of all processes" 50 gone
}
has_report() { grep -qs 'the job ends with exit code 74' "$work/errors"; }
# The report comes within 10 seconds, or 50 where other programs run.
ends_with_report() { # WHAT
    wait_until "$1: the report" 50 has_report
    ends "$1" 74
}
# There is one report, in the errors and in so many files at least, one for each host, and it has these lines.
reports() { # WHAT FILES LINE...
    local what=$1 files=$2 line count file
    shift 2
    count=$(grep -c 'the job ends with exit code 74' "$work/errors")
    [ "$count" -eq 1 ] || fail "$what: $count reports: $(print "$work"/errors)"
    count=$(find "$work/reports" -type f -name "isogrid-report.$ISOGRID_JOB.*.txt" | wc -l)
    [ "$count" -ge "$files" ] || fail "$what: $count files, not $files: $(ls "$work/reports")"
    for line; do
        grep -qE -- "$line" "$work/errors" || fail "$what: no line '$line' in the report: $(print "$work"/errors)"
        for file in "$work"/reports/*; do
            grep -qE -- "$line" "$file" || fail "$what: no line '$line' in $(print "$file")"
        done
    done
}
