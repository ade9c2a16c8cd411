/* A step allocates nothing: calls of malloc and its relatives from this program's own code (the library is
 * linked into it) are counted during steady steps of iso_fit.
 * Ranks: 1, 3 */
#include <check.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "models/models.h"
#include "runtime/data/data.h"
#include "runtime/session/session.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

static iso_context *ctx;
static _Atomic bool counting;
static _Atomic int calls;
static _Atomic(void *) caller;

#if defined(__SANITIZE_ADDRESS__)
enum { CAN_COUNT = false }; /* the sanitizer has a malloc of its own */
#else
enum { CAN_COUNT = true };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

/* Whether an address lies in this program's own file. */
static bool is_ours(void *address)
{
    Dl_info here, there;
    return dladdr((void *)&is_ours, &here) && dladdr(address, &there) && here.dli_fbase == there.dli_fbase;
}

static void note(void *from)
{
    if (!atomic_load(&counting) || !is_ours(from))
        return;
    atomic_store(&caller, from);
    atomic_fetch_add(&calls, 1);
}

void *malloc(size_t size)
{
    note(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

void *mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
    note(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}
#endif

enum { FIRST = 4, STEPS = 26, ROWS = 16 };

static iso_status begin_batch(void *user, iso_fit_state *state)
{
    (void)user;
    if (state->batch == FIRST)
        atomic_store(&counting, true);
    if (state->batch == FIRST + 20)
        atomic_store(&counting, false);
    return ISO_OK;
}

/* Batches of one size, so that steps are alike. */
static void fit(const char *name, const char *spec)
{
    const iso_builtin_model *kind;
    iso_dataset *data;
    iso_mesh *mesh;
    iso_distribution *distribution;
    iso_callback *callbacks[] = {iso_callback_create(.batch_begin = begin_batch), NULL};
    check_ok(iso_builtin_model_find(name, &kind));
    check_ok(iso_mesh_create(ctx, spec, &mesh));
    check_ok(iso_data_parallel_create(mesh, &distribution));
    iso_model *model = iso_builtin_model_create(ctx, kind, ISO_SHAPE(28, 28, 1), 10, ISO_F32, NULL);
    check_ok(iso_compile(model, .optimizer = kind->optimizer(), .loss = kind->loss,
                         .metrics = {ISO_METRIC_ACCURACY}, .distribution = distribution));
    check_ok(iso_dataset_random(ctx, ROWS * STEPS, &data, .shape = ISO_SHAPE(28, 28, 1), .classes = 10));
    check_ok(iso_dataset_shuffle(data, 0));
    check_ok(iso_dataset_batch(data, ROWS));
    check_ok(iso_fit(model, data, .callbacks = callbacks, .verbose = ISO_ZERO));
    iso_dataset_destroy(data);
    iso_model_destroy(model);
    iso_distribution_destroy(distribution);
    iso_mesh_destroy(mesh);
}

static void check_calls(const char *name, const char *mesh)
{
    Dl_info where = {0};
    atomic_store(&calls, 0);
    fit(name, mesh);
    ck_assert(!atomic_load(&counting));
    if (atomic_load(&calls))
        dladdr(atomic_load(&caller), &where);
    ck_assert_msg(atomic_load(&calls) == 0, "20 steps of %s on %s allocate %d times, last at offset 0x%zx",
                  name, mesh, atomic_load(&calls),
                  (size_t)((char *)atomic_load(&caller) - (char *)where.dli_fbase));
}

START_TEST(steps_allocate_nothing)
{
    check_calls("mlp", "data=4");
    check_calls("convnet", "data=2,model=4");
}
END_TEST

/* The counter counts: a test that cannot fail would be none. */
START_TEST(allocations_are_counted)
{
    atomic_store(&calls, 0);
    atomic_store(&counting, true);
    void *volatile memory = malloc(10);
    atomic_store(&counting, false);
    free(memory);
    ck_assert_int_eq(atomic_load(&calls), CAN_COUNT);
}
END_TEST

int main(int argc, char **argv)
{
    setenv("ISOGRID_RANKS_PER_HOST", "2", 0);
    iso_status status = iso_init(&argc, &argv, &ctx);
    if (status == ISO_OK && RUN_TESTS("allocation", 0, steps_allocate_nothing, allocations_are_counted))
        status = iso_error(ISO_FAILED, "a test failed");
    return iso_finish(ctx, status);
}
