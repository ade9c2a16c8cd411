#include "runtime/data/prefetch_impl.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "runtime/base/memory.h"
#include "runtime/base/thread_modes.h"

/* A unit that failed in the background is made again by the thread that reads it, which then gets the
 * error. */
enum { UNIT_EMPTY, UNIT_BUSY, UNIT_FULL, UNIT_FAILED };
enum { UNIT_ROWS = 8 }; /* for rows from a file: reading several costs little more than reading one */

typedef struct buffer {
    int64_t number; /* of the batch; -1: none */
    int64_t begin, rows, epoch;
    unsigned char *state; /* of each unit */
    void *data[ISO_MAX_COMPONENTS];
} buffer;

struct iso_prefetcher {
    iso_node *top;
    const iso_order *order;
    int64_t rows;             /* of a full batch */
    int64_t unit_rows, units; /* rows of a unit; units of a full batch */
    bool keeps;               /* buffers hold the rows; otherwise top does (a cache) */
    unsigned char *wanted;    /* units that this rank has read so far */
    int64_t n_buffers;
    buffer *buffers; /* batch b is in buffer[b % buffers] */
    int64_t at;      /* the batch that is being read; -1: none */
    int64_t limit;   /* threads make batches below it */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    int64_t busy; /* units that are being made */
    bool ending;
    int n_threads;
    pthread_t *threads;
};

static int64_t unit_count(const iso_prefetcher *f, int64_t rows)
{
    return (rows + f->unit_rows - 1) / f->unit_rows;
}

static iso_status prefetch_make(iso_prefetcher *f, buffer *s, int64_t unit)
{
    int64_t first = unit * f->unit_rows,
            count = s->rows - first < f->unit_rows ? s->rows - first : f->unit_rows;
    iso_rows rows = iso_order_rows(f->order, s->begin + first, count, s->epoch);
    if (!f->keeps)
        return f->top->ops->ensure(f->top, &rows);
    void *out[ISO_MAX_COMPONENTS];
    for (int i = 0; i < f->top->spec.n_components; i++)
        out[i] = (char *)s->data[i] + (size_t)first * f->top->spec.bytes[i];
    return iso_node_fetch(f->top, &rows, out);
}

/* The lock is held before and after, but not while the unit is made. */
static iso_status make_locked(iso_prefetcher *f, buffer *s, int64_t unit)
{
    s->state[unit] = UNIT_BUSY;
    f->busy++;
    pthread_mutex_unlock(&f->lock);
    iso_status status = prefetch_make(f, s, unit);
    pthread_mutex_lock(&f->lock);
    s->state[unit] = status == ISO_OK ? UNIT_FULL : UNIT_FAILED;
    f->busy--;
    pthread_cond_broadcast(&f->done);
    return status;
}

/* The next unit that this rank will read: nearest batch first. */
static bool find_work(iso_prefetcher *f, buffer **found, int64_t *unit)
{
    if (f->at < 0)
        return false;
    for (int64_t b = f->at; b < f->at + f->n_buffers && b < f->order->spans.elements && b < f->limit; b++) {
        buffer *s = &f->buffers[b % f->n_buffers];
        int64_t units = s->number == b ? unit_count(f, s->rows) : 0;
        for (int64_t u = 0; u < units; u++)
            if (f->wanted[u] && s->state[u] == UNIT_EMPTY) {
                *found = s;
                *unit = u;
                return true;
            }
    }
    return false;
}

static void *worker(void *argument)
{
    iso_prefetcher *f = argument;
    buffer *s = NULL;
    int64_t unit = 0;
    iso_default_modes_of_thread();
    pthread_mutex_lock(&f->lock);
    while (!f->ending) {
        if (find_work(f, &s, &unit))
            make_locked(f, s, unit);
        else
            pthread_cond_wait(&f->work, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* These threads block all signals: the program's handlers may expect to run in its own threads. */
static iso_status start_threads(iso_prefetcher *f, int threads)
{
    sigset_t all, before;
    iso_status status = ISO_OK;
    f->threads = iso_new((size_t)threads * sizeof *f->threads);
    if (!f->threads)
        return iso_no_memory("%d threads of a data set", threads);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; f->n_threads < threads && status == ISO_OK; f->n_threads++) {
        int error = pthread_create(&f->threads[f->n_threads], NULL, worker, f);
        if (error) {
            status = iso_error(ISO_FAILED, "cannot start thread %d of a data set: %s", f->n_threads,
                               strerror(error));
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static iso_status allocate_buffer(iso_prefetcher *f, buffer *s, int64_t rows)
{
    iso_status status = ISO_OK;
    size_t bytes = 0;
    s->number = -1;
    ISO_TRY(iso_alloc((size_t)f->units, "a prefetched batch", (void **)&s->state));
    for (int i = 0; f->keeps && i < f->top->spec.n_components; i++) {
        ISO_TRY(iso_size_mul((size_t)rows, f->top->spec.bytes[i], "a prefetched batch", &bytes));
        ISO_TRY(iso_alloc(bytes, "a prefetched batch", &s->data[i]));
    }
done:
    return status;
}

static iso_status allocate(iso_prefetcher *f, int64_t rows)
{
    iso_status status = ISO_OK;
    size_t bytes = 0;
    ISO_TRY(iso_size_mul((size_t)f->n_buffers, sizeof *f->buffers, "prefetched batches", &bytes));
    ISO_TRY(iso_alloc(bytes, "prefetched batches", (void **)&f->buffers));
    ISO_TRY(iso_alloc((size_t)f->units, "prefetched batches", (void **)&f->wanted));
    for (int64_t i = 0; i < f->n_buffers; i++)
        ISO_TRY(allocate_buffer(f, &f->buffers[i], rows));
done:
    return status;
}

iso_status iso_prefetcher_create(iso_node *top, const iso_order *order, int64_t ahead, int threads,
                                 iso_prefetcher **prefetcher)
{
    int64_t rows = order->spans.batch ? order->spans.batch : 1;
    iso_status status = ISO_OK;
    if (rows > order->spans.rows)
        rows = order->spans.rows;
    iso_prefetcher *f = iso_new(sizeof *f);
    if (!f)
        return iso_no_memory("prefetched batches");
    *f = (iso_prefetcher){.top = top, .order = order, .at = -1, .limit = INT64_MAX};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->work, NULL);
    pthread_cond_init(&f->done, NULL);
    f->keeps = !top->ops->ensure;
    f->n_buffers = ahead + 1 < order->spans.elements ? ahead + 1 : order->spans.elements;
    f->unit_rows = top->spans.batch ? rows : top->ops->gather && f->keeps ? UNIT_ROWS : 1;
    f->rows = rows;
    f->units = unit_count(f, rows);
    ISO_TRY(allocate(f, rows));
    if (threads > 0)
        ISO_TRY(start_threads(f, threads));
    *prefetcher = f;
    return ISO_OK;
done:
    iso_prefetcher_destroy(f);
    return status;
}

static void join_threads(iso_prefetcher *f)
{
    pthread_mutex_lock(&f->lock);
    f->ending = true;
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
    for (int i = 0; i < f->n_threads; i++)
        pthread_join(f->threads[i], NULL);
    iso_free(f->threads);
}

void iso_prefetcher_destroy(iso_prefetcher *f)
{
    if (!f)
        return;
    join_threads(f);
    for (int64_t i = 0; f->buffers && i < f->n_buffers; i++) {
        iso_free(f->buffers[i].state);
        for (int c = 0; c < ISO_MAX_COMPONENTS; c++)
            iso_free(f->buffers[i].data[c]);
    }
    iso_free(f->buffers);
    iso_free(f->wanted);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->work);
    pthread_cond_destroy(&f->done);
    iso_free(f);
}

void iso_prefetcher_stop(iso_prefetcher *f)
{
    pthread_mutex_lock(&f->lock);
    f->at = -1;
    while (f->busy)
        pthread_cond_wait(&f->done, &f->lock);
    for (int64_t i = 0; i < f->n_buffers; i++)
        f->buffers[i].number = -1;
    pthread_mutex_unlock(&f->lock);
}

/* Assigns the buffer to a batch. It waits until no unit of its last batch is being made in the same
 * memory. */
static void assign(iso_prefetcher *f, buffer *s, int64_t batch, int64_t epoch)
{
    if (s->number == batch)
        return;
    s->number = -1;
    for (int64_t u = 0; u < f->units;)
        if (s->state[u] == UNIT_BUSY)
            pthread_cond_wait(&f->done, &f->lock);
        else
            u++;
    memset(s->state, UNIT_EMPTY, (size_t)f->units);
    s->begin = iso_span_begin(&f->order->spans, batch);
    s->rows = iso_span_rows(&f->order->spans, batch);
    s->epoch = epoch;
    s->number = batch;
}

void iso_prefetcher_advance(iso_prefetcher *f, int64_t batch, int64_t epoch)
{
    pthread_mutex_lock(&f->lock);
    f->at = batch;
    for (int64_t b = batch; b < batch + f->n_buffers && b < f->order->spans.elements; b++)
        assign(f, &f->buffers[b % f->n_buffers], b, epoch);
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
}

void iso_prefetcher_limit(iso_prefetcher *f, int64_t limit)
{
    pthread_mutex_lock(&f->lock);
    f->limit = limit;
    pthread_cond_broadcast(&f->work);
    pthread_mutex_unlock(&f->lock);
}

int64_t iso_prefetcher_ahead(const iso_prefetcher *f)
{
    return f->n_buffers - 1;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whole units are made; the last one of a batch may have fewer rows. */
size_t iso_prefetcher_kept(const iso_prefetcher *f, const iso_row_range *ranges, int count)
{
    int64_t rows = 0, next = 0; /* next: the first row after the units that are counted */
    size_t row_bytes = 0;
    for (int i = 0; i < count; i++) {
        const int64_t first = ranges[i].begin / f->unit_rows * f->unit_rows,
                      end = smaller(unit_count(f, ranges[i].begin + ranges[i].count) * f->unit_rows, f->rows);
        rows += end - (first > next ? first : smaller(next, end));
        next = end;
    }
    for (int i = 0; f->keeps && i < f->top->spec.n_components; i++)
        row_bytes += f->top->spec.bytes[i];
    return (size_t)(rows * f->n_buffers) * row_bytes;
}

/* Makes the units that no thread has begun, then waits for those that others are making, and makes again
 * those that failed. */
static iso_status ensure(iso_prefetcher *f, buffer *s, int64_t first, int64_t last)
{
    iso_status status = ISO_OK;
    pthread_mutex_lock(&f->lock);
    for (int64_t u = first; u <= last && status == ISO_OK; u++) {
        if (f->n_threads && !f->wanted[u]) {
            f->wanted[u] = 1;
            pthread_cond_broadcast(&f->work);
        }
        if (s->state[u] == UNIT_EMPTY)
            status = make_locked(f, s, u);
    }
    for (int64_t u = first; u <= last && status == ISO_OK; u++) {
        while (s->state[u] == UNIT_BUSY)
            pthread_cond_wait(&f->done, &f->lock);
        if (s->state[u] == UNIT_FAILED)
            status = make_locked(f, s, u);
    }
    pthread_mutex_unlock(&f->lock);
    return status;
}

iso_status iso_prefetcher_read(iso_prefetcher *f, int component, int64_t begin, int64_t count,
                               const iso_row_part *part, iso_dtype dtype, void *out)
{
    buffer *s = &f->buffers[f->at % f->n_buffers];
    const iso_spec *spec = &f->top->spec;
    iso_rows rows = iso_order_rows(f->order, s->begin + begin, count, s->epoch);
    int64_t element = 0;
    if (count == 0)
        return ISO_OK;
    iso_status status = ensure(f, s, begin / f->unit_rows, (begin + count - 1) / f->unit_rows);
    if (status != ISO_OK)
        return status;
    rows.part = part;
    if (!f->keeps)
        return f->top->ops->gather(f->top, component, &rows, dtype, out);
    iso_dtype from = spec->dtype[component];
    iso_rows here = {.begin = begin, .count = count, .part = part};
    int64_t row =
        iso_gather(from, s->data[component], spec->elements[component], &here, dtype, out, &element);
    if (row < 0)
        return ISO_OK;
    const char *bad = (const char *)s->data[component] + (size_t)row * spec->bytes[component] +
                      (size_t)element * iso_dtype_size(from);
    return iso_bad_element(f->top, component, iso_rows_at(&rows, row - begin), bad, dtype);
}
