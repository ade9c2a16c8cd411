# For the scripts beside this one: a folder to work in, and programs under the injector. To be sourced.
# shellcheck shell=bash
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit
BUILD=${BUILD:-build}
# In memory where there is room: what is tried here is the order of calls, not the disk. Paths without links, as the kernel tells them.
room=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)
[ "${room:-0}" -lt 500000 ] || [ -n "${TMPDIR:-}" ] || TMPDIR=/dev/shm
work=$(realpath "$(mktemp -d ${TMPDIR:+-p "$TMPDIR"})")
trap 'rm -rf "$work"' EXIT
# What killed jobs leave behind of MPI goes with the folder; a job of one host starts faster so.
mkdir "$work/mpi"
export OMPI_MCA_orte_tmpdir_base=$work/mpi OMPI_MCA_btl_vader_backing_directory=$work/mpi OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
# A job whose rank is killed ends at once, not after seconds.
export OMPI_MCA_odls_base_sigkill_timeout=0
# Its end by a signal, or by the watchdog of the other ranks where that is faster than mpirun, which is slow on a busy machine.
export ISOGRID_REPORTS=$work/mpi
was_killed() { # CODE OUTPUT
    [ "$1" -eq 137 ] || { [ "$1" -eq 74 ] && grep -q 'is lost; the job ends' "$2"; }
}
# shellcheck disable=SC2034  # for those who source this
long=${ISOGRID_TEST_LONG:-}

fail() { echo "FAILED: $*" >&2 && exit 1; }

# Waits until a process ends; false if the log of calls has not changed for 120 seconds: then it hangs. What moves on may be as slow as the machine is.
lives_on() { # PID CALLS
    local now last='' same=0
    until timeout 10 tail -s 0.02 --pid="$1" -f /dev/null; do
        now=$(stat -c '%s %Y' "$2" 2>/dev/null || true)
        [ "$now" = "$last" ] || { last=$now && same=0; }
        [ $((++same)) -le 12 ] || return 1
    done
}
# Ends a job that hangs. 124, or 137 where a rank was killed and none is left, but mpirun still there: it hangs itself then (about
# one time in 2000: in PMIx_server_finalize).
end_late() { # PID CALLS
    local code=124
    grep -qs ' killed-' "$2" && ! grep -qszxF "FAULTS_LOG=$2" /proc/[0-9]*/environ && code=137
    kill "$1"
    wait "$1" || true
    return $code
}

# injected RANKS BELOW COMMAND...: runs it on so many ranks under the injector, which looks at what lies below a folder, and ends it when no call was
# seen for 120 seconds. The log goes to $log, where that is set; $faults says what goes wrong.
injected() {
    local ranks=$1 below=$2
    shift 2
    local launch=() job code=0 calls=${log:-$work/calls}
    [ "$ranks" -eq 1 ] || launch=(launch/mpirun -np "$ranks")
    [ -n "${log:-}" ] || rm -f "$calls"
    # within a timeout: a group of processes that ends as one, by force where it must
    timeout --kill-after=5 3600 "${launch[@]}" env LD_PRELOAD="$PWD/$BUILD/tests/faults/injector.so" \
        ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 FAULTS_BELOW="$below" FAULTS="${faults:-}" FAULTS_LOG="$calls" "$@" &
    job=$!
    if lives_on "$job" "$calls"; then
        wait "$job" || code=$?
    else
        end_late "$job" "$calls" || code=$?
    fi
    return $code
}
