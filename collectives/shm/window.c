#include "collectives/shm/window_impl.h"

#include <stdint.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
static const size_t huge_page = (size_t)2 << 20;

static iso_status create_private(size_t bytes, const char *what, iso_window *window)
{
    size_t align = bytes >= huge_page ? huge_page : PAGE, mapped;
    if (__builtin_add_overflow(bytes, align, &mapped))
        return iso_error(ISO_INVALID, "%s: %zu bytes overflow", what, bytes);
    void *mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        return iso_error(ISO_NO_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
    char *base = (char *)(((uintptr_t)mapping + align - 1) / align * align);
    if (align == huge_page)
        madvise(base, bytes, MADV_HUGEPAGE); /* a wish */
    *window = (iso_window){base, bytes, MPI_WIN_NULL, mapping, mapped};
    return ISO_OK;
}

/* Rank 0 of the host brings all of it: what a rank would bring begins at an unaligned address. */
static iso_status create_shared(MPI_Comm host, size_t bytes, const char *what, iso_window *window)
{
    int rank, unit;
    void *mine, *first;
    MPI_Aint size = 0;
    MPI_Win win;
    MPI_Comm_rank(host, &rank);
    if (bytes > (size_t)PTRDIFF_MAX - PAGE)
        return iso_error(ISO_INVALID, "%s: %zu bytes overflow", what, bytes);
    if (rank == 0)
        size = (MPI_Aint)(bytes + PAGE);
    int made = MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, host, &mine, &win) == MPI_SUCCESS;
    MPI_Allreduce(MPI_IN_PLACE, &made, 1, MPI_INT, MPI_MIN, host);
    if (!made)
        return iso_error(ISO_NO_MEMORY, "no shared memory for %s (%zu bytes); /dev/shm may be too small",
                         what, bytes);
    MPI_Win_shared_query(win, 0, &size, &unit, &first);
    /* Mappings are whole pages, so every rank rounds up by the same amount. */
    char *base = (char *)(((uintptr_t)first + PAGE - 1) / PAGE * PAGE);
    *window = (iso_window){base, bytes, win, NULL, 0};
    return ISO_OK;
}

iso_status iso_window_create(MPI_Comm host, size_t bytes, const char *what, iso_window *window)
{
    int ranks = 1;
    *window = (iso_window){.window = MPI_WIN_NULL};
    if (host != MPI_COMM_NULL)
        MPI_Comm_size(host, &ranks);
    return ranks > 1 ? create_shared(host, bytes, what, window) : create_private(bytes, what, window);
}

void iso_window_destroy(iso_window *window)
{
    if (window->window != MPI_WIN_NULL)
        MPI_Win_free(&window->window);
    if (window->mapping)
        munmap(window->mapping, window->mapped);
    *window = (iso_window){.window = MPI_WIN_NULL};
}
