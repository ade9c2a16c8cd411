# For the scripts that lose ranks: a folder, jobs, trainings, and checks of what they leave. To be sourced.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
BUILD=${BUILD:-build}
work=$(realpath "$(mktemp -d /tmp/isogrid-lost-XXXXXX)")
trap 'end_all; rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR=$work/tmp ISOGRID_REPORTS=$work/reports ISOGRID_THREADS=1
unset ISOGRID_MPIRUN_QUIET ISOGRID_JOB # launch/mpirun tells the folder of the job
# After a rank has died, the others have twice this many seconds for their report, also on a machine with much else to do. Where all have ended, nothing
# waits for that (launch/mpirun).
export OMPI_MCA_odls_base_sigkill_timeout=7
# shellcheck disable=SC2034  # for those who source this
long=${ISOGRID_TEST_LONG:-}
mpirun=(launch/mpirun)
hosts=() # simulated ones
under=() # a command in front of the program
export lost=$BUILD/tests/faults/lost
jobs=0

# What a report says of a rank that got a signal.
STOP='is stopped \(by SIGSTOP or SIGTSTP\)'
KILL='has ended unexpectedly'
export STOP SEGV=$KILL

fail() { echo "FAILED: $*" >&2 && exit 1; }
print() { for file in "$@"; do echo "--- the end of $file" && tail -n 40 "$file"; done; }

# ---- jobs ----
# The processes of a job: number and rank, which launch/mpirun and those of Open MPI have not.
processes() {
    local environ
    grep -lszx "ISOGRID_JOB=$job_name" /proc/[0-9]*/environ | while read -r environ; do
        echo "$(basename "$(dirname "$environ")") $(tr '\0' '\n' <"$environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')"
    done 2>/dev/null
}
process_of() { processes | sed -n "s/ $1\$//p" | head -n 1; } # RANK

end_all() { # of a job that has gone wrong
    [ -z "${job:-}" ] || gone && return 0 # else it is the code before the end, and the shell leaves the folder
    processes | cut -d' ' -f 1 | xargs -r kill -KILL 2>/dev/null || true # some may have ended
    sleep 1
}

wait_until() { # WHAT SECONDS COMMAND...
    local what=$1 end=$((SECONDS + $2))
    shift 2
    until "$@"; do
        [ $SECONDS -lt $end ] || fail "$what did not happen: $(print "$work"/out "$work"/errors)"
        sleep 0.1
    done
}
gone() { [ -z "$(processes)" ]; }

begin() { # RANKS COMMAND...: in the background; $job is its process. COMMAND may have further programs, after colons
    local ranks=$1
    shift
    job_name=test-${work##*-}-$((++jobs))
    rm -rf "$work"/{reports,out,errors}
    mkdir "$work/reports"
    ISOGRID_JOB=$job_name timeout --kill-after=5 600 "${mpirun[@]}" -np "$ranks" -x ISOGRID_JOB -x ISOGRID_REPORTS -x ISOGRID_THREADS "${under[@]}" "$@" \
        >"$work/out" 2>"$work/errors" </dev/null &
    job=$!
}
# No process of the job is left, nor a file in memory, a temporary file, or a socket on a host that lives.
nothing_left() { # WHAT
    local left host
    wait_until "$1: the end of all processes" 100 gone
    local end=$((SECONDS + 60))
    while left=$(ls -A "$work/tmp"
        sed -n 's/^launch\/mpirun: .* OMPI_MCA_orte_tmpdir_base=\([^ ]*\) .*/\1/p' "$work/errors" | while read -r folder; do ls -d "$folder" 2>/dev/null || true; done
        for host in "${hosts[@]}"; do
            tests/support/host exec "$host" bash -c 'ls -A /dev/shm && ss -Hlntux' 2>/dev/null | sed "s/^/on $host: /" || true
        done) && [ -n "$left" ]; do
        [ $SECONDS -lt $end ] || fail "$1: left: $left"
        sleep 0.2 # the kernel closes what an ended process has a moment later
    done
}
# The job ends with a code, and leaves nothing.
ends() { # WHAT CODE
    local code=0
    wait "$job" || code=$?
    [ $code -eq "$2" ] || fail "$1: exit code $code, not $2: $(print "$work"/out "$work"/errors)"
    nothing_left "$1"
}

# ---- reports ----
has_report() { grep -qs 'the job ends with exit code 74' "$work/errors"; }
# The report comes within 10 seconds, or later where other programs run; a command, if any, ends the fault.
ends_with_report() { # WHAT [COMMAND...]
    wait_until "$1: the report" 200 has_report
    "${@:2}"
    ends "$1" 74
}
report_of() { echo "$work/reports/isogrid-report.$job_name.$1.txt"; } # HOST
has_lines() { # WHAT FILE LINE...
    local what=$1 file=$2 line
    shift 2
    for line; do
        grep -qsE -- "$line" "$file" || fail "$what: no line '$line' in $(print "$file")"
    done
}
parts=1 # of the job that are left and cannot reach each other
# The errors have the whole report of one part: mpirun may lose what the others print while it ends the daemons.
printed() { # WHAT
    local file
    for file in "$work/reports/isogrid-report.$job_name".*.txt; do
        [ -z "$(grep -vxF -f "$work/errors" -- "$file")" ] && return
    done
    fail "$1: no report is printed whole: $(print "$work/errors" "$work/reports/isogrid-report.$job_name".*.txt)"
}
# There is one report, or one of each part that could be printed, in the errors and in a file on each of these hosts at least; it has these lines.
reports() { # WHAT HOSTS LINE...
    local what=$1 on=$2 count host
    shift 2
    count=$(grep -c 'the job ends with exit code 74' "$work/errors")
    { [ "$count" -ge 1 ] && [ "$count" -le "$parts" ]; } || fail "$what: $count reports: $(print "$work"/errors)"
    if [ "$parts" -eq 1 ]; then has_lines "$what" "$work/errors" "$@"; else printed "$what"; fi
    for host in $on; do
        has_lines "$what" "$(report_of "$host")" "$@"
    done
}

# ---- trainings, with a checkpoint after each epoch ----
task=(train --model tests/faults/net.json --data random:300 --mesh data=4 --optimizer adam --loss sparse_crossentropy_logits --metrics none)
train() { # RANKS FOLDER EPOCHS OPTION...
    begin "$1" "$BUILD/isogrid" "${task[@]}" --verbose 2 --checkpoint "$work/$2/{epoch}.weights.h5" --keep 2 --history "$work/$2.history" \
        --epochs "$3" "${@:4}"
}
# Begins one that is to be struck by a fault, and waits until it has something to lose and hosts have told each other of it: heartbeats, two a
# second, say how far a rank is.
training() { # WHAT RANKS OPTION...
    rm -rf "$work"/broken*
    train "$2" broken 100000 "${@:3}"
    wait_until "$1: a checkpoint" 150 test -e "$work/broken/latest"
    for _ in 1 2 3 4; do sleep 0.5; done # a pause of the machine ends one of them
}
signal() { # NAME RANK...
    local rank
    for rank in "${@:2}"; do kill "-$1" "$(process_of "$rank")"; done
}
# The same command again, with ranks that may be fewer, ends as one process does that nothing happened to. What an epoch leaves depends on
# no later one, so both train as many epochs as the newest checkpoint and one more.
goes_on() { # WHAT RANKS OPTION...
    local what=$1 epochs
    epochs=$(sed 's/[^0-9].*//' "$work/broken/latest")
    epochs=$((epochs + 1))
    train "$2" broken $epochs "${@:3}"
    ends "$what: going on" 0
    rm -f "$work/whole"
    "$BUILD/isogrid" "${task[@]}" --verbose 0 --history "$work/whole" --epochs $epochs "${@:3}" || fail "$what: the run without it"
    cmp -s <(tail -n 1 "$work/whole") <(tail -n 1 "$work/broken.history") || fail "$what: another end: $(tail -n 1 "$work/whole" "$work/broken.history")"
}
