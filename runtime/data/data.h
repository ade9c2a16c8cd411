/* Data sets: the sources of rows, and the stages that turn them into batches.
 *
 * A data set is a source (arrays, IDX or HDF5 files, random numbers) and a list of stages, each of which acts
 * on the elements of the stages before it. Their order has the same meaning as in tf.data. An element is a
 * row; after iso_dataset_batch() it is a batch. So shuffle after batch permutes whole batches, map after
 * batch gets batches, and cache after shuffle keeps one order for all epochs.
 *
 * An element has components: the inputs, then the targets and the sample weights, if any. Models with several
 * inputs and outputs have several of each, in the model's order. There is one sample weight for all targets,
 * or one for each. The order of an epoch depends on the seed and the epoch alone, so every rank sees the same
 * batches, and reads only those rows of them that its slots need.
 *
 * Functions that take a context are collective. Stages are not (except cache to a file), but every rank must
 * make the same calls. An error of a stage is returned and stays in the data set: later calls return it
 * again. Only one thread at a time may use a data set, except that several threads may call the `read` of a
 * batch at once. ctx may be NULL: a program of one rank, seed ISO_DEFAULT_SEED.
 * Functions are local unless their comment says otherwise. */
#ifndef ISO_DATA_DATA_H
#define ISO_DATA_DATA_H

#include "runtime/base/batch.h"
#include "runtime/base/options.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct iso_dataset iso_dataset;
typedef enum iso_part { ISO_TRAIN, ISO_TEST } iso_part;

/* ---- sources. The caller owns the data set: iso_dataset_destroy(). After iso_finish() it can only be
 * destroyed. ---- */

typedef struct iso_dataset_open_options {
    iso_dataset **dataset; /* positional: where the data set goes */
    /* HDF5: names of its datasets; NULL: "x", "y", and "sample_weight" if there is one. Several are joined by
     * ',': "images,ages". sample_weight "none": weights in the file are not used. */
    const char *x, *y, *sample_weight;
    bool no_targets; /* HDF5, text and tokens: inputs only */
    size_t
        memory_limit; /* HDF5, text and tokens: if the datasets, or the file, have more bytes than this, rows are
                            read when needed, else all at once; 0: 1 GiB, of text and tokens 64 MiB */
    int64_t context;           /* text and tokens: the number of tokens of a row */
    int64_t vocabulary;        /* text and tokens: the file's tokens must be below it; 0: not checked */
    const char *vocabulary_of; /* for messages: what has this number; may be NULL */
    /* Text: a tokenizer.json or the folder of one (iso_tokenizer_open), by whose tokens a text is cut into rows;
     * NULL: each byte is a token. All tokens of the text are then held in memory, whatever memory_limit says. */
    const char *tokenizer;
} iso_dataset_open_options;

/* Opens a built-in data set by name, a folder of IDX files as MNIST has them (train-images-idx3-ubyte,
 * t10k-labels-idx1-ubyte and so on, gzip'd or not), a file of tokens (.bin), an HDF5 file, or with .context any
 * other file as text, gzip'd or not. A file is one part: `part` is ignored. Each byte of a text is a token, unless
 * .tokenizer makes its tokens; the text must then be UTF-8. Tokens
 * in a file are 16-bit numbers, lowest byte first, as nanoGPT writes them, or 32-bit numbers if .vocabulary is above
 * 65536; or what llm.c's header of the file says. Row r of
 * text or tokens has the tokens [r * context, (r + 1) * context) and, as targets, the token after each of these;
 * tokens after the last whole row, which with targets needs one token more, are unused. Images [rows, h, w]
 * become rows [h, w, 1]. A built-in data set is searched in its folder under $ISOGRID_DATA, then in the folder
 * of Debian's package. ISO_INVALID: an unknown name (the message suggests similar ones); a file that is missing,
 * truncated, empty or not as its header says; inputs and targets with different numbers of rows; a token of a
 * row that is not below .vocabulary; hosts that found different data.
 * The hosts compare the number of rows, the shapes and types, and the bytes of all rows if they were read at once.
 * If the file is too large for that (memory_limit), they compare 16 rows spread over it, including the first and the
 * last. A gzip'd file is always read at once. Collective. */
ISO_API iso_status iso_dataset_open_with(iso_context *ctx, const char *name, iso_part part,
                                         const iso_dataset_open_options *options, size_t size);
/* iso_dataset_open(ctx, name, part, &dataset, .x = "images") */
#define iso_dataset_open(ctx, name, part, ...)                                                               \
    iso_dataset_open_with(ctx, name, part, ISO_OPTIONS_AFTER(iso_dataset_open_options, dataset, __VA_ARGS__))

/* The rows of one component; classes and normal as in iso_dataset_random_options. */
typedef struct iso_random_rows {
    iso_shape shape;
    int64_t classes;
    bool normal;
} iso_random_rows;

typedef struct iso_dataset_random_options {
    iso_dataset **dataset; /* positional */
    iso_shape shape;       /* of a row of inputs; default: a scalar */
    iso_shape targets;     /* of a row of targets; default: a scalar */
    int64_t classes;       /* targets are integers in [0, classes) instead of floats in [0, 1) */
    uint64_t seed;         /* 0: the context's */
    bool normal;           /* standard normal floats instead of uniform ones */
    bool no_targets;       /* inputs only */
    /* Several inputs or targets, instead of the above: their numbers, and the rows of each. */
    int inputs, outputs;
    iso_random_rows input[ISO_MAX_MODEL_INPUTS], output[ISO_MAX_MODEL_OUTPUTS];
} iso_dataset_random_options;

/* `rows` rows of float32, uniform in [0, 1) as in numpy.random.random, or standard normal with .normal.
 * Targets are drawn in the same way; with .classes they are ISO_I32. A value depends only on the seed and its
 * index. ISO_INVALID: zero, negative or overflowing sizes. Collective. */
ISO_API iso_status iso_dataset_random_with(iso_context *ctx, int64_t rows,
                                           const iso_dataset_random_options *options, size_t size);
/* iso_dataset_random(ctx, rows, &dataset, .shape = ISO_SHAPE(28, 28, 1), .targets = ISO_SHAPE(10)) */
#define iso_dataset_random(ctx, rows, ...)                                                                   \
    iso_dataset_random_with(ctx, rows, ISO_OPTIONS_AFTER(iso_dataset_random_options, dataset, __VA_ARGS__))

/* A dense array in row-major order; shape: [rows, ...] as a whole. */
typedef struct iso_data_array {
    const void *data;
    iso_dtype dtype;
    iso_shape shape;
} iso_data_array;

typedef struct iso_dataset_arrays_options {
    iso_dataset **dataset;        /* positional */
    iso_data_array x, y;          /* y is optional */
    iso_data_array sample_weight; /* [rows], needs y */
    /* Several arrays, instead of x, y and sample_weight; a list ends at the first array without data.
     * Weights: one for all targets, or one for each. */
    iso_data_array inputs[ISO_MAX_MODEL_INPUTS], targets[ISO_MAX_MODEL_OUTPUTS],
        weights[ISO_MAX_MODEL_OUTPUTS];
    bool lend;  /* the arrays are not copied: they must outlive the data set */
    bool local; /* each rank passes only its own rows, see below */
} iso_dataset_arrays_options;

/* A data set of arrays in memory. Collective.
 *
 * Without .local every rank must pass the same arrays. The ranks compare a hash of all bytes, which takes
 * about as long as copying them. ISO_INVALID: contents that differ between ranks (names ranks and array);
 * arrays without rows or with different numbers of rows; zero, negative or overflowing sizes.
 *
 * With .local each rank passes its own rows: any number, or none. The data set has the rows of rank 0, then
 * those of rank 1, and so on. Orders, batches and results depend on these rows alone, not on which rank holds
 * them. All stages are supported. A rank without rows passes arrays of 0 rows, whose `data` may be NULL, or
 * no arrays at all. A rank stores only its own rows. Before each step it fetches the rows of other ranks that
 * its slots need, with MPI messages from the calling thread (iso_batch.prepare). It keeps them for that step
 * and for the batches that prefetch makes ahead. Whole rows are fetched, even if a layout shards them.
 * With .lend the arrays must not change while the data set is used: a row is read when a batch needs it.
 * ISO_INVALID: components, row shapes or types that differ between ranks (names both); no rows on any rank;
 * too many rows in all; .local on some ranks only. */
ISO_API iso_status iso_dataset_arrays_with(iso_context *ctx, const iso_dataset_arrays_options *options,
                                           size_t size);
/* iso_dataset_arrays(ctx, &dataset, .x = {images, ISO_U8, ISO_SHAPE(1000, 28, 28, 1)}, .y = {labels, ISO_I32,
 * ISO_SHAPE(1000)}) */
#define iso_dataset_arrays(ctx, ...)                                                                         \
    iso_dataset_arrays_with(ctx, ISO_OPTIONS_AFTER(iso_dataset_arrays_options, dataset, __VA_ARGS__))

/* Makes batch `number` (0, 1, ...) of an epoch. Called on every rank between steps, in the order of the
 * batches. A resumed training begins with the batch at which it stopped.
 *
 * On entry `batch` has the expected rows, components, shapes and types. The function sets `read` and `impl`,
 * which must stay valid until the next call; `read_part` and `prepare` may stay NULL. Without .batches and
 * .rows the function ends the epoch by setting rows to 0, and its last batch may have fewer rows.
 *
 * `read` is called from several threads at once, with the component's own type, for the rows that this rank's
 * slots need. A rank needs to make only those. If the batch is sharded over all slots, iso_part_range of rows, slots
 * and slot gives these rows; `prepare` gets them in any case.
 *
 * An error status (iso_error) ends the call that asked for the batch, on all ranks. */
typedef iso_status (*iso_generator_fn)(void *user, int64_t epoch, int64_t number, iso_batch *batch);

typedef struct iso_dataset_generator_options {
    iso_dataset **dataset; /* positional */
    iso_generator_fn next;
    void *user;          /* lent, passed to the function */
    int64_t batch_size;  /* rows of a batch; 32 */
    int64_t batches;     /* of an epoch, all full; 0: see rows */
    int64_t rows;        /* of an epoch; the last batch has the remaining rows; 0: until the function ends
                            it */
    int inputs, targets; /* how many; further components are sample weights; inputs 0: 1 and 1 */
    iso_shape shape[ISO_MAX_COMPONENTS]; /* of one row of each component */
    iso_dtype dtype[ISO_MAX_COMPONENTS]; /* of each component; ends at the first ISO_DTYPE_NONE */
} iso_dataset_generator_options;

/* A data set of batches that the program makes, as with Keras's PyDataset and generators, for iso_fit,
 * iso_evaluate and iso_predict (which needs .rows or .batches). Stages cannot be added. Training gives the
 * same numbers as with the same batches from another source. ISO_INVALID: options that contradict each other;
 * and from the call that asks for a batch: unexpected rows, shapes or types, a missing batch, rows or an end
 * of the epoch that differ between ranks. Collective; so is iso_dataset_next on it. */
ISO_API iso_status iso_dataset_generator_with(iso_context *ctx, const iso_dataset_generator_options *options,
                                              size_t size);
/* iso_dataset_generator(ctx, &dataset, .next = simulate, .batch_size = 128, .batches = 400, .shape =
 * {ISO_SHAPE(4), ISO_SHAPE(1)}, .dtype = {ISO_F32, ISO_F32}) */
#define iso_dataset_generator(ctx, ...)                                                                      \
    iso_dataset_generator_with(ctx, ISO_OPTIONS_AFTER(iso_dataset_generator_options, dataset, __VA_ARGS__))

/* Frees the data set and ends its threads. NULL is fine. */
ISO_API void iso_dataset_destroy(iso_dataset *dataset);

/* The built-in data sets: how many, and name and one-line description of each (constant; NULL outside
 * [0, count)). */
ISO_API int iso_dataset_count(void);
ISO_API const char *iso_dataset_name(int index);
ISO_API const char *iso_dataset_description(int index);

/* ---- stages ---- */

/* One element, the input of a map's function. */
typedef struct iso_element {
    int64_t index; /* its number in the order in which elements arrive at the map */
    int64_t epoch; /* 0 if a cache after the map keeps the results */
    int64_t rows;  /* 1, or the rows of the batch */
    int components;
    const void *data[ISO_MAX_COMPONENTS]; /* [shape...]; after batch: [rows, shape...] */
    iso_shape shape[ISO_MAX_COMPONENTS];  /* of one row */
    iso_dtype dtype[ISO_MAX_COMPONENTS];
} iso_element;

/* Writes out[c], dense, for every component c of the map's result. Several threads may run it at once, in any
 * order, and again for the same element; its result must depend on the element alone. An error (iso_error) is
 * returned to the caller that reads the batch. */
typedef iso_status (*iso_map_fn)(const iso_element *in, void *const *out, void *user);

typedef struct iso_dataset_map_options {
    iso_map_fn function; /* positional */
    void *user;          /* lent, handed to the function */
    int components;      /* 0: those of its input, of the same shapes and types */
    int inputs, targets; /* of the components; the others are sample weights. inputs 0: those of the data set
                            if .components is 0 or its number, else 1 and 1 */
    iso_shape shape[ISO_MAX_COMPONENTS]; /* of one row, for each component whose dtype is given */
    iso_dtype
        dtype[ISO_MAX_COMPONENTS]; /* ISO_DTYPE_NONE: shape and type are those of the input's component */
    int threads; /* background threads, which compute elements of this batch and those that prefetch asks for;
                    0: the reading threads compute them */
} iso_dataset_map_options;

/* Replaces every element by the result of the function, with the same number of rows. The result does not
 * depend on .threads. ISO_INVALID: numbers of components, shapes, types or threads that cannot be. Local. */
ISO_API iso_status iso_dataset_map_with(iso_dataset *dataset, const iso_dataset_map_options *options,
                                        size_t size);
/* iso_dataset_map(dataset, function, .user = &table, .threads = 2) */
#define iso_dataset_map(dataset, ...)                                                                        \
    iso_dataset_map_with(dataset, ISO_OPTIONS_AFTER(iso_dataset_map_options, function, __VA_ARGS__))

typedef struct iso_dataset_mask_tokens_options {
    int32_t mask;       /* positional: the mask token */
    int64_t vocabulary; /* all tokens are below it; needed */
    const int32_t
        *special; /* tokens that never count, as those of padding and [CLS]; copied. `mask` is always one */
    int special_count;
    double rate; /* 0.15: the part of the other tokens that counts */
    double hidden,
        random;    /* 0.8, 0.1: the parts of those that become the mask token, and a random token; the rest
                              stays */
    uint64_t seed; /* 0: the context's */
    bool once;     /* as in epoch 0 in every epoch, for validation */
} iso_dataset_mask_tokens_options;

/* Rows of tokens, integers [t] -> x, int32 [t], with tokens replaced, and targets, int32 [t]: the former token where
 * one counts, elsewhere -100. They are for a model of masked tokens, whose loss ignores the class -100. Each token
 * counts or not by a random number of its own, as with DataCollatorForLanguageModeling of transformers; random tokens
 * are uniform in the vocabulary. The numbers depend on the seed, the epoch, the number of the row among those that
 * arrive at this stage, and the position in it.
 * ISO_INVALID: rows with targets or several inputs, or that are not integers [t]; after batch; a rate not above 0 or
 * above 1; parts that are negative or whose sum is above 1; `mask` or a special token that is not in the vocabulary;
 * and from the call that reads the batch, a token of a row that is not (its row and position). Local. */
ISO_API iso_status iso_dataset_mask_tokens_with(iso_dataset *dataset,
                                                const iso_dataset_mask_tokens_options *options, size_t size);
/* iso_dataset_mask_tokens(dataset, 103, .vocabulary = 30522, .special = (int32_t[]){0, 101, 102},
 * .special_count = 3) */
#define iso_dataset_mask_tokens(dataset, ...)                                                                \
    iso_dataset_mask_tokens_with(dataset,                                                                    \
                                 ISO_OPTIONS_AFTER(iso_dataset_mask_tokens_options, mask, __VA_ARGS__))

typedef struct iso_dataset_shuffle_options {
    int64_t buffer; /* positional */
    uint64_t seed;  /* 0: the context's */
    bool once;      /* the order of epoch 0 in every epoch */
} iso_dataset_shuffle_options;

/* Gives the elements a new order in every epoch. buffer 0, or at least the number of elements: a permutation of
 * all. Otherwise as in tf.data: a buffer is filled with the first elements; a random one is taken out and replaced
 * by the next element. ISO_INVALID: a negative buffer; too many stages in a row. Local. */
ISO_API iso_status iso_dataset_shuffle_with(iso_dataset *dataset, const iso_dataset_shuffle_options *options,
                                            size_t size);
#define iso_dataset_shuffle(dataset, ...)                                                                    \
    iso_dataset_shuffle_with(dataset, ISO_OPTIONS_AFTER(iso_dataset_shuffle_options, buffer, __VA_ARGS__))

typedef struct iso_dataset_batch_options {
    int64_t rows; /* positional: of the global batch */
    bool drop_remainder;
} iso_dataset_batch_options;

/* Groups rows into batches. The last one may be shorter, or is left out with .drop_remainder. ISO_INVALID: a
 * data set that is batched already; a batch below one row; no batch left. Local. */
ISO_API iso_status iso_dataset_batch_with(iso_dataset *dataset, const iso_dataset_batch_options *options,
                                          size_t size);
#define iso_dataset_batch(dataset, ...)                                                                      \
    iso_dataset_batch_with(dataset, ISO_OPTIONS_AFTER(iso_dataset_batch_options, rows, __VA_ARGS__))

/* Keeps the results of the stages before it: they run once, as in epoch 0 (so all epochs have that order of a
 * shuffle before it).
 * path NULL: in memory; each rank keeps the rows that it has read. Local.
 * Otherwise in a file. The file is read if it is complete and was made from the same source, shapes and
 * stages. A change of a map's function is not noticed: remove the file then. Otherwise the file is made now,
 * by the chief and by one rank of each host that does not see the chief's file. It gets its name when it is
 * complete. A broken file is replaced, with a warning. ISO_INVALID: `path` is that of a folder, device or pipe, or
 * of a symbolic link that the file would replace. ISO_IO: it cannot be written or mapped. Collective. */
ISO_API iso_status iso_dataset_cache(iso_dataset *dataset, const char *path);

/* Lets a thread read up to n batches ahead while a step runs: the rows that this rank has read of earlier batches.
 * It does nothing if reading rows costs no more than a copy (everything is in memory and there is no map). The rows
 * are read whole, even if layouts shard rows and slots read only parts of them. ISO_INVALID: n is negative. Local. */
ISO_API iso_status iso_dataset_prefetch(iso_dataset *dataset, int64_t n);

/* Moves the last `rows` rows of the data set to a new one, as Keras does for validation. Both may then get
 * their own stages. ISO_INVALID: rows is not between 1 and the data set's rows - 1; it is called after batch,
 * or after a shuffle that changes with the epoch (the two would exchange rows). Local. */
ISO_API iso_status iso_dataset_split(iso_dataset *dataset, int64_t rows, iso_dataset **last);

/* ---- iteration ---- */

/* Begins an epoch (0, 1, ...) at its first batch. Not needed before the first epoch. ISO_INVALID: a negative
 * epoch. Local. */
ISO_API iso_status iso_dataset_rewind(iso_dataset *dataset, int64_t epoch);

/* Sends the other ranks the rows of this rank that they ask for, once. A rank whose data set has failed calls it
 * when the other ranks, which have a batch, call prepare. Does nothing unless the source has .local rows.
 * ISO_FAILED. Collective. */
ISO_API iso_status iso_dataset_serve(iso_dataset *dataset);

/* The next batch of the epoch, lent until the next call on the data set; NULL after the last. A data set
 * without batch gives single rows. If the source has .local rows, call batch->prepare on every rank before
 * reading rows; functions do so themselves. Allocates nothing after the first batch of each epoch. An earlier
 * error of the data set, ISO_INVALID as iso_dataset_generator says, or the status of its function.
 * Local, unless the source is a generator: then it is collective, because the ranks compare their batches. */
ISO_API iso_status iso_dataset_next(iso_dataset *dataset, const iso_batch **batch);

/* Rows of an epoch (after drop_remainder), rows of a full batch (1 without batch: see iso_dataset_batched),
 * batches of an epoch. */
ISO_API int64_t iso_dataset_rows(const iso_dataset *dataset);
ISO_API int64_t iso_dataset_batch_size(const iso_dataset *dataset);
ISO_API int64_t iso_dataset_batches(const iso_dataset *dataset);
ISO_API bool iso_dataset_batched(const iso_dataset *dataset);
/* False for a generator whose function ends the epoch: iso_dataset_rows and iso_dataset_batches are then
 * numbers above any possible one. */
ISO_API bool iso_dataset_knows_rows(const iso_dataset *dataset);

/* The cursor: epoch times batches plus the batches given out in the epoch. After seek to it the same batches
 * follow. The end of an epoch is the beginning of the next. ISO_INVALID: a negative position. Local. */
ISO_API int64_t iso_dataset_position(const iso_dataset *dataset);
ISO_API iso_status iso_dataset_seek(iso_dataset *dataset, int64_t position);

/* The number of components of an element, and how many are inputs (first) and targets (next); the others are
 * sample weights. The shape of one row (lent) and the stored type of a component; NULL and ISO_DTYPE_NONE if
 * there is no such component. */
ISO_API int iso_dataset_components(const iso_dataset *dataset);
ISO_API int iso_dataset_inputs(const iso_dataset *dataset);
ISO_API int iso_dataset_targets(const iso_dataset *dataset);
ISO_API const iso_shape *iso_dataset_shape(const iso_dataset *dataset, int component);
ISO_API iso_dtype iso_dataset_dtype(const iso_dataset *dataset, int component);
/* The source, for messages: "fashion-mnist", "data/train.h5", "arrays". Lent. */
ISO_API const char *iso_dataset_source(const iso_dataset *dataset);

/* A hash of the order of rows in all epochs: shuffles with their seeds, maps, splits and batches; not of the
 * contents of rows. Local. */
ISO_API uint64_t iso_dataset_order(const iso_dataset *dataset);
/* What this hash would be if the context had another seed. Local. */
ISO_API uint64_t iso_dataset_order_with_seed(const iso_dataset *dataset, uint64_t seed);
/* ISO_INVALID on every rank unless the data set has the same rows in the same order on all ranks: as many rows,
 * and the same stages with the same seeds. The message names `what` ("the validation data"), a rank, and both
 * orders. iso_fit, iso_evaluate and iso_predict call it. Collective. */
ISO_API iso_status iso_dataset_agree_order(const iso_dataset *dataset, const char *what);

typedef struct iso_dataset_check_options {
    char begin_;
    /* By component: values must be at least 0 and below this number, as indices of tables and of classes are; 0: any.
     * Floats are truncated, as where they are used. */
    int64_t below[ISO_MAX_COMPONENTS];
    const char *below_of[ISO_MAX_COMPONENTS]; /* for messages: what has this number; may be NULL */
    /* One more number that is possible: a label that does not count; 0: none. */
    int besides[ISO_MAX_COMPONENTS];
    /* By component: the type of the input that it is for, which must have its values: 1e300 is no value of
     * float32; 0: any. */
    iso_dtype used_as[ISO_MAX_COMPONENTS];
    /* By component: values must be from 0 to 1, as targets of a binary cross-entropy are */
    bool fraction[ISO_MAX_COMPONENTS];
} iso_dataset_check_options;

/* Reads every row once and looks for NaN and infinity in floats, for indices out of range, and for values that the
 * type of their input does not have: ISO_INVALID names source, component (its dataset in an HDF5 file), row, element
 * of the row and value. The ranks divide the rows between them. Collective. */
ISO_API iso_status iso_dataset_check_with(iso_dataset *dataset, const iso_dataset_check_options *options,
                                          size_t size);
#define iso_dataset_check(dataset, ...)                                                                      \
    iso_dataset_check_with(dataset, ISO_OPTIONS(iso_dataset_check_options, __VA_ARGS__))

#ifdef __cplusplus
}
#endif
#endif
