"""losses.h5 and metrics.h5: Keras's losses with their gradients, and running
results of its metrics, computed in float64.

    python make_losses.py        (see README.md for the format)
"""

import common

keras = common.keras_on_jax("float64")

import jax
import jax.numpy as jnp
import numpy as np

CLASSES = 6
# Stored name -> Keras's class; the attribute `kind` holds the stored name.
LOSSES = {
    "mse": keras.losses.MeanSquaredError,
    "mae": keras.losses.MeanAbsoluteError,
    "huber": keras.losses.Huber,
    "sparse_crossentropy": keras.losses.SparseCategoricalCrossentropy,
    "crossentropy": keras.losses.CategoricalCrossentropy,
    "binary_crossentropy": keras.losses.BinaryCrossentropy,
    "kl_divergence": keras.losses.KLDivergence,
    "mape": keras.losses.MeanAbsolutePercentageError,
    "msle": keras.losses.MeanSquaredLogarithmicError,
    "log_cosh": keras.losses.LogCosh,
    "poisson": keras.losses.Poisson,
    "cosine_similarity": keras.losses.CosineSimilarity,
    "hinge": keras.losses.Hinge,
    "squared_hinge": keras.losses.SquaredHinge,
    "categorical_hinge": keras.losses.CategoricalHinge,
    "binary_focal_crossentropy": keras.losses.BinaryFocalCrossentropy,
    "categorical_focal_crossentropy": keras.losses.CategoricalFocalCrossentropy,
    "categorical_generalized_cross_entropy": keras.losses.CategoricalGeneralizedCrossEntropy,
    "dice": keras.losses.Dice,
    "tversky": keras.losses.Tversky,
}
METRICS = {
    "mse": keras.metrics.MeanSquaredError,
    "mae": keras.metrics.MeanAbsoluteError,
    "rmse": keras.metrics.RootMeanSquaredError,
    "kl_divergence": keras.metrics.KLDivergence,
    "mape": keras.metrics.MeanAbsolutePercentageError,
    "msle": keras.metrics.MeanSquaredLogarithmicError,
    "logcosh": keras.metrics.LogCoshError,
    "poisson": keras.metrics.Poisson,
    "cosine_similarity": keras.metrics.CosineSimilarity,
    "hinge": keras.metrics.Hinge,
    "squared_hinge": keras.metrics.SquaredHinge,
    "categorical_hinge": keras.metrics.CategoricalHinge,
    "sparse_crossentropy": keras.metrics.SparseCategoricalCrossentropy,
    "crossentropy": keras.metrics.CategoricalCrossentropy,
    "binary_crossentropy": keras.metrics.BinaryCrossentropy,
    "sparse_accuracy": keras.metrics.SparseCategoricalAccuracy,
    "accuracy": keras.metrics.CategoricalAccuracy,
    "binary_accuracy": keras.metrics.BinaryAccuracy,
    "sparse_top_k": keras.metrics.SparseTopKCategoricalAccuracy,
    "top_k": keras.metrics.TopKCategoricalAccuracy,
    "precision": keras.metrics.Precision,
    "recall": keras.metrics.Recall,
    "true_positives": keras.metrics.TruePositives,
    "true_negatives": keras.metrics.TrueNegatives,
    "false_positives": keras.metrics.FalsePositives,
    "false_negatives": keras.metrics.FalseNegatives,
    "auc": keras.metrics.AUC,
    "sensitivity_at_specificity": keras.metrics.SensitivityAtSpecificity,
    "specificity_at_sensitivity": keras.metrics.SpecificityAtSensitivity,
    "precision_at_recall": keras.metrics.PrecisionAtRecall,
    "recall_at_precision": keras.metrics.RecallAtPrecision,
    "iou": keras.metrics.IoU,
    "binary_iou": keras.metrics.BinaryIoU,
    "mean_iou": keras.metrics.MeanIoU,
    "one_hot_iou": keras.metrics.OneHotIoU,
    "one_hot_mean_iou": keras.metrics.OneHotMeanIoU,
    "f1_score": keras.metrics.F1Score,
    "fbeta_score": keras.metrics.FBetaScore,
    "r2_score": keras.metrics.R2Score,
    "pearson_correlation": keras.metrics.PearsonCorrelation,
    "concordance_correlation": keras.metrics.ConcordanceCorrelation,
}


def as_jax(array):
    return None if array is None else jnp.asarray(array, jnp.float64) \
        if array.dtype == np.float32 else jnp.asarray(array)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def sigmoid(x):
    return (1 / (1 + np.exp(-x))).astype(np.float32)


def weights(name, shape, zeros=False):
    w = common.rng(name + "/w").uniform(0.1, 2, shape).astype(np.float32)
    if zeros:
        w.flat[::3] = 0
    return w


def loss_case(file, name, y_true, y_pred, sample_weight=None, **given):
    kind = name.split("/")[0]
    cls = LOSSES[kind]
    t, w = as_jax(y_true), as_jax(sample_weight)
    p = jnp.asarray(y_pred, jnp.float64)
    mean, each = cls(**given), cls(reduction="none", **given)
    loss, gradient = jax.value_and_grad(lambda p: mean(t, p, w))(p)
    assert loss.dtype == gradient.dtype == jnp.float64
    head = dict(kind=kind, weighted=sample_weight is not None)
    head.update({key: sum(1 << i for i in value) if key == "axis" else value for key, value in given.items()})
    file.case(name, head, y_true=y_true, y_pred=y_pred,
              sample_weight=sample_weight, loss=np.asarray(loss),
              dy_pred=np.asarray(gradient), values=np.asarray(each(t, p)))


def regression(file):
    for kind in ("mse", "mae", "huber"):
        for rank, shape in ((2, (5, 4)), (3, (3, 4, 2))):
            name = f"{kind}/rank{rank}"
            g = common.rng(name)
            t, p = common.normal(g, shape), common.normal(g, shape)
            loss_case(file, name, t, p)
            loss_case(file, name + "_weighted", t, p, weights(name, shape[:-1]))
        loss_case(file, f"{kind}/rank3_weighted_rows", t, p,
                  weights(name, (3, 1)))
        name = f"{kind}/one_output"
        g = common.rng(name)
        t, p = common.normal(g, (6,)), common.normal(g, (6, 1))
        loss_case(file, name, t, p)
        loss_case(file, name + "_weighted", t, p, weights(name, (6,), True))
    t, p = common.normal(g, (5, 4)), common.normal(g, (5, 4))
    loss_case(file, "huber/delta", t, p, delta=0.4)
    loss_case(file, "huber/delta_weighted", t, p, weights("d", (5,)), delta=2.5)


def crossentropy(file):
    for rank, shape in ((2, (7,)), (3, (3, 4))):
        g = common.rng(f"crossentropy/rank{rank}")
        logits = common.normal(g, shape + (CLASSES,), 2)
        labels = g.integers(0, CLASSES, shape).astype(np.int32)
        one_hot = np.eye(CLASSES, dtype=np.float32)[labels]
        soft = softmax(common.normal(g, shape + (CLASSES,)))
        w = weights(f"crossentropy/rank{rank}", shape, zeros=rank == 3)
        for form, p, from_logits in (("logits", logits, True),
                                     ("probabilities", softmax(logits), False)):
            end = f"{form}_rank{rank}"
            for kind, t in (("sparse_crossentropy", labels),
                            ("crossentropy", one_hot)):
                for tail, sw in (("", None), ("_weighted", w)):
                    loss_case(file, f"{kind}/{end}{tail}", t, p, sw,
                              from_logits=from_logits)
            loss_case(file, f"crossentropy/soft_{end}", soft, p,
                      from_logits=from_logits)
            for tail, sw in (("", None), ("_weighted", w)):
                loss_case(file, f"crossentropy/smoothing_{end}{tail}", one_hot,
                          p, sw, from_logits=from_logits, label_smoothing=0.1)
            void = np.where(weights(f"void/rank{rank}", shape) < 0.9, -100, labels).astype(np.int32)
            for tail, sw in (("", None), ("_weighted", w)):
                loss_case(file, f"sparse_crossentropy/ignoring_{end}{tail}", void, p, sw, from_logits=from_logits,
                          ignore_class=-100)
            loss_case(file, f"sparse_crossentropy/ignoring_0_{end}", labels, p, from_logits=from_logits, ignore_class=0)
            loss_case(file, f"sparse_crossentropy/ignoring_all_{end}", np.full(shape, 255, np.int32), p,
                      from_logits=from_logits, ignore_class=255)
    special(file)


def special(file):
    """Forms of labels, and predictions at the edge."""
    g = common.rng("special")
    logits = common.normal(g, (7, CLASSES), 2)
    labels = g.integers(0, CLASSES, 7)
    loss_case(file, "sparse_crossentropy/labels_as_floats",
              labels.astype(np.float32), logits, from_logits=True)
    loss_case(file, "sparse_crossentropy/labels_rank2",
              labels.astype(np.int32)[:, None], logits, from_logits=True)
    loss_case(file, "sparse_crossentropy/large_logits", labels.astype(np.int32),
              logits * np.float32(200), from_logits=True)
    # Keras divides probabilities by their sum, in the gradient too.
    rough = np.abs(common.normal(g, (7, CLASSES))) + np.float32(0.1)
    loss_case(file, "sparse_crossentropy/not_normalised",
              labels.astype(np.int32), rough)
    # ... then clips them to [1e-7, 1 - 1e-7]: gradient 0 outside.
    sure = np.zeros((3, 4), np.float32)
    sure[0, 0] = sure[1, 1] = 1
    sure[2] = [0.25, 0.75, 0, 0]
    loss_case(file, "sparse_crossentropy/clipped", np.array([0, 0, 1], np.int32),
              sure)
    loss_case(file, "crossentropy/clipped",
              np.eye(4, dtype=np.float32)[[0, 0, 1]], sure)
    loss_case(file, "binary_crossentropy/clipped",
              np.array([[0, 1], [1, 0], [1, 1]], np.float32),
              np.array([[0, 0], [1, 1], [0.5, 0.25]], np.float32))
    loss_case(file, "binary_crossentropy/large_logits",
              np.array([[0, 1], [1, 0]], np.float32),
              np.array([[90, 80], [-70, -60]], np.float32), from_logits=True)


def binary(file):
    for name, shape in (("rank2", (5, 4)), ("rank3", (3, 4, 2))):
        g = common.rng("binary_crossentropy/" + name)
        logits = common.normal(g, shape, 2)
        t = g.integers(0, 2, shape).astype(np.float32)
        w = weights("binary_crossentropy/" + name, shape[:-1])
        for form, p, from_logits in (("logits", logits, True),
                                     ("probabilities", sigmoid(logits), False)):
            for tail, sw in (("", None), ("_weighted", w)):
                loss_case(file, f"binary_crossentropy/{form}_{name}{tail}", t, p,
                          sw, from_logits=from_logits)
            loss_case(file, f"binary_crossentropy/smoothing_{form}_{name}", t, p,
                      from_logits=from_logits, label_smoothing=0.2)
    g = common.rng("binary_crossentropy/one_output")
    p, t = common.normal(g, (6, 1)), g.integers(0, 2, 6)
    loss_case(file, "binary_crossentropy/one_output", t.astype(np.float32), p,
              from_logits=True)


def divergence(file):
    for name, shape in (("rank2", (5, 4)), ("rank3", (3, 4, 2))):
        g = common.rng("kl_divergence/" + name)
        t, p = (softmax(common.normal(g, shape)) for _ in range(2))
        loss_case(file, f"kl_divergence/{name}", t, p)
        loss_case(file, f"kl_divergence/{name}_weighted", t, p,
                  weights("kl_divergence/" + name, shape[:-1], True))
    # Keras does not divide by the sum, and clips both to [1e-7, 1].
    rough = np.abs(common.normal(g, (5, 4), 0.4)) + np.float32(0.1)
    loss_case(file, "kl_divergence/not_normalised", softmax(rough), rough)
    loss_case(file, "kl_divergence/clipped",
              np.array([[0, 1, 0], [0.5, 0.5, 0], [2, -1, 0]], np.float32),
              np.array([[0, 0.75, 0.25], [2, -1, 0], [0.5, 0, 3]], np.float32))


def positive(g, shape):
    return np.abs(common.normal(g, shape)) + np.float32(0.05)


def small_losses(file):
    """Losses of values: random ones in two shapes, and their singular points."""
    makers = {
        "mape": common.normal, "msle": positive, "log_cosh": common.normal, "poisson": positive,
        "cosine_similarity": common.normal,
        "hinge": lambda g, shape: common.normal(g, shape, 2), "squared_hinge": common.normal,
        "categorical_hinge": common.normal,
    }
    for kind, make in makers.items():
        for rank, shape in ((2, (5, 4)), (3, (3, 4, 2))):
            name = f"{kind}/rank{rank}"
            g = common.rng(name)
            t, p = make(g, shape), make(g, shape)
            loss_case(file, name, t, p)
            loss_case(file, name + "_weighted", t, p, weights(name, shape[:-1]))
    bits = np.array([[0, 1, 1], [1, 0, 0], [1, 1, 0]], np.float32)
    edge = np.array([[1, 1, -3], [2, 0.5, -1], [-1, 1, 0]], np.float32)
    for kind in ("hinge", "squared_hinge", "categorical_hinge"):
        loss_case(file, f"{kind}/bits", bits, edge)
        loss_case(file, f"{kind}/signs", 2 * bits - 1, edge)
    one = np.eye(3, dtype=np.float32)
    loss_case(file, "categorical_hinge/equal", one, np.array([[2, 1, 1], [0, 3, 0], [1, 1, 2]], np.float32))
    loss_case(file, "mape/zeros", bits, bits[::-1].copy())
    loss_case(file, "msle/negative", -edge, edge)
    loss_case(file, "log_cosh/large", bits, 300 * edge)
    loss_case(file, "poisson/zeros", bits, np.zeros_like(bits))
    loss_case(file, "cosine_similarity/zeros", np.array([[0, 0, 0], [1, 2, 2]], np.float32),
              np.array([[3, 1, 2], [2e-8, 0, 1e-8]], np.float32))
    loss_case(file, "hinge/one_output", np.array([0, 1, 1, 0], np.float32), np.array([[2], [1], [-1], [-1]], np.float32))


def focal(file):
    for rank, shape in ((2, (5, 4)), (3, (3, 4, 2))):
        g = common.rng(f"focal/rank{rank}")
        logits = common.normal(g, shape, 2)
        t = g.integers(0, 2, shape).astype(np.float32)
        w = weights(f"focal/rank{rank}", shape[:-1], zeros=True)
        one_hot = np.eye(shape[-1], dtype=np.float32)[g.integers(0, shape[-1], shape[:-1])]
        for form, x, from_logits in (("logits", logits, True), ("probabilities", None, False)):
            end = f"{form}_rank{rank}"
            kind, p = "binary_focal_crossentropy", sigmoid(logits) if x is None else x
            loss_case(file, f"{kind}/{end}", t, p, from_logits=from_logits)
            loss_case(file, f"{kind}/settings_{end}_weighted", t, p, w, from_logits=from_logits, gamma=1.5, alpha=0.4,
                      apply_class_balancing=True, label_smoothing=0.2)
            kind, p = "categorical_focal_crossentropy", softmax(logits) if x is None else x
            loss_case(file, f"{kind}/{end}", one_hot, p, from_logits=from_logits)
            loss_case(file, f"{kind}/settings_{end}_weighted", one_hot, p, w, from_logits=from_logits, gamma=0.5,
                      alpha=2.0, label_smoothing=0.1)
    some = np.array([[0, 1], [1, 0], [1, 1]], np.float32)
    loss_case(file, "binary_focal_crossentropy/no_gamma", some, np.array([[0.2, 0.7], [0.5, 0.1], [0.9, 0.3]], np.float32),
              gamma=0.0, alpha=0.0, apply_class_balancing=True)
    loss_case(file, "binary_focal_crossentropy/clipped", some,
              np.array([[0, 0], [1, 1], [0.5, 0.25]], np.float32))
    loss_case(file, "categorical_focal_crossentropy/clipped", np.eye(3, dtype=np.float32),
              np.array([[1, 0, 0], [1, 0, 0], [0.25, 0.25, 0.75]], np.float32))
    kind = "categorical_generalized_cross_entropy"
    for name, shape, given in (("rank2", (7,), {}), ("rank3", (3, 4), {"q": 0.8})):
        g = common.rng(f"{kind}/{name}")
        labels, p = g.integers(0, CLASSES, shape).astype(np.int32), softmax(common.normal(g, (*shape, CLASSES)))
        loss_case(file, f"{kind}/{name}", labels, p, **given)
        loss_case(file, f"{kind}/{name}_weighted", labels, p, weights(kind + name, shape), **given)


def overlap(file):
    """Losses of the whole batch."""
    g = common.rng("overlap")
    shape = (5, 4, 3)
    t, p = g.integers(0, 2, shape).astype(np.float32), sigmoid(common.normal(g, shape))
    for kind, given in (("dice", {}), ("tversky", {"alpha": 0.3, "beta": 1.5})):
        loss_case(file, f"{kind}/defaults", t, p)
        loss_case(file, f"{kind}/all", t, p, **given)
        loss_case(file, f"{kind}/all_weighted", t, p, weights("overlap", (5,)), **given)
        loss_case(file, f"{kind}/rows_weighted", t, p, weights("overlap", (5,)), axis=(1, 2), **given)
        loss_case(file, f"{kind}/columns", t, p, axis=(0, 1), **given)
        loss_case(file, f"{kind}/zeros", np.zeros((3, 2), np.float32), np.zeros((3, 2), np.float32), **given)


def metric_case(file, name, batches, **given):
    """`batches`: of (y_true, y_pred, sample_weight or None)."""
    kind = name.split("/")[0]
    metric, results, data = METRICS[kind](**given), [], {}
    for i, (t, p, w) in enumerate(batches):
        metric.update_state(as_jax(t), as_jax(p), as_jax(w))
        results.append(float(metric.result()))
        data.update({f"y_true{i}": t, f"y_pred{i}": p, f"sample_weight{i}": w})
    head = dict(kind=kind, weighted=batches[0][2] is not None,
                batches=len(batches))
    head.update({key: sum(1 << i for i in value) if key == "target_class_ids"
                 else value for key, value in given.items()})
    if "iou" in kind:  # Keras divides in float32
        head["tolerance"] = 1e-6
    file.case(name, head, result=np.array(results), **data)


def metrics(file):
    def both(name, make, shape, **given):
        """With and without weights, on batches of 7, 4 and 5 rows."""
        made = [make(common.rng(f"{name}/{i}"), (rows, *shape))
                for i, rows in enumerate((7, 4, 5))]
        metric_case(file, name, [(t, p, None) for t, p in made], **given)
        metric_case(file, name + "_weighted",
                    [(t, p, weights(f"{name}/{i}", p.shape[:-1], i == 1))
                     for i, (t, p) in enumerate(made)], **given)

    def values(g, shape):
        return common.normal(g, shape), common.normal(g, shape)

    def classes(g, shape):
        p = common.normal(g, shape)
        t = g.integers(0, shape[-1], shape[:-1])
        best = p.argmax(-1)  # right in about half the rows
        return np.where(g.random(t.shape) < 0.4, best, t).astype(np.int32), p

    def dense_classes(g, shape):
        t, p = classes(g, shape)
        return np.eye(shape[-1], dtype=np.float32)[t], p

    def pairs(g, shape):
        return (g.integers(0, 2, shape).astype(np.float32),
                g.random(shape).astype(np.float32))

    def distributions(g, shape):
        return softmax(common.normal(g, shape)), softmax(common.normal(g, shape))

    for kind in ("mse", "mae", "rmse"):
        both(f"{kind}/rank2", values, (4,))
        both(f"{kind}/rank3", values, (3, 2))
    both("kl_divergence/rank2", distributions, (4,))
    both("kl_divergence/rank3", distributions, (3, 2))
    for kind in ("mape", "logcosh", "cosine_similarity"):
        both(f"{kind}/rank2", values, (4,))
    for kind in ("msle", "poisson"):
        both(f"{kind}/rank2", lambda g, shape: (positive(g, shape), positive(g, shape)), (4,))
    for kind in ("hinge", "squared_hinge", "categorical_hinge"):
        both(f"{kind}/rank3", lambda g, shape: (pairs(g, shape)[0], common.normal(g, shape)), (3, 2))
    for form, probabilities, given in (("probabilities", softmax, {}), ("logits", lambda x: x, {"from_logits": True})):
        for kind, make, settings in (
                ("sparse_crossentropy", classes, {}), ("crossentropy", dense_classes, {"label_smoothing": 0.1}),
                ("binary_crossentropy", dense_classes, {"label_smoothing": 0.2})):
            def of(g, shape, make=make):
                t, p = make(g, shape)
                return t, probabilities(p)
            both(f"{kind}/{form}", of, (5,), **given, **settings)
    for rank, shape in ((2, (8,)), (3, (3, 8))):
        both(f"sparse_accuracy/rank{rank}", classes, shape)
        both(f"accuracy/rank{rank}", dense_classes, shape)
        for k in (5, 2):
            both(f"sparse_top_k/k{k}_rank{rank}", classes, shape, k=k)
            both(f"top_k/k{k}_rank{rank}", dense_classes, shape, k=k)
    both("binary_accuracy/rank2", pairs, (3,))
    both("binary_accuracy/one_output", pairs, (1,))
    both("binary_accuracy/threshold", pairs, (3,), threshold=0.25)
    for kind in ("precision", "recall"):
        both(f"{kind}/rank2", pairs, (3,))
        both(f"{kind}/rank3", pairs, (3, 2))
        both(f"{kind}/one_output", pairs, (1,))
        both(f"{kind}/threshold", pairs, (3,), thresholds=0.25)
        both(f"{kind}/none_predicted", pairs, (2,), thresholds=1.0)
        metric_case(file, f"{kind}/at_threshold", [
            (np.array([[0, 1, 1, 0]], np.float32),
             np.array([[0.5, 0.5, 0.75, 0.75]], np.float32), None)])
        metric_case(file, f"{kind}/no_positives", [
            (np.zeros((3, 1), np.float32),
             np.array([[0.25], [0.5], [0.75]], np.float32), None)])
        metric_case(file, f"{kind}/targets_not_binary", [
            (np.array([[0, 0.25, 2, -1]], np.float32),
             np.array([[0.9, 0.9, 0.1, 0.9]], np.float32), None)])
    selections(both, pairs)
    curves(file, both, pairs)
    overlaps(file, both, weights)
    scores(file, both, pairs, values)
    # Ties: argmax takes the first; top-k counts only larger entries; the
    # threshold itself counts as 0.
    tied = np.array([[1, 1, 0, 1], [2, 3, 3, 0], [0, 0, 0, 0]], np.float32)
    t = np.array([1, 2, 3], np.int32)
    metric_case(file, "sparse_accuracy/ties", [(t, tied, None)])
    metric_case(file, "sparse_top_k/ties", [(t, tied, None)], k=2)
    metric_case(file, "binary_accuracy/at_threshold", [
        (np.array([[0, 1]], np.float32), np.array([[0.5, 0.5]], np.float32),
         None)])
    # Labels as floats and as a column, which Keras takes too.
    g = common.rng("labels")
    t, p = classes(g, (6, 8))
    metric_case(file, "sparse_accuracy/labels_as_floats",
                [(t.astype(np.float32), p, None)])
    metric_case(file, "sparse_accuracy/labels_rank2", [(t[:, None], p, None)])


def selections(both, pairs):
    for kind in ("precision", "recall"):
        both(f"{kind}/top_k", pairs, (5,), top_k=2)
        both(f"{kind}/top_k_rank3", pairs, (2, 4), top_k=3)
        both(f"{kind}/top_k_threshold", pairs, (5,), top_k=3, thresholds=0.75)
        both(f"{kind}/class_id", pairs, (5,), class_id=3)
        both(f"{kind}/class_0", pairs, (5,), class_id=0, thresholds=0.0)
        both(f"{kind}/top_k_class_id", pairs, (5,), top_k=2, class_id=1)
    for kind in ("true_positives", "true_negatives", "false_positives",
                 "false_negatives"):
        both(f"{kind}/rank2", pairs, (3,))
        both(f"{kind}/rank3", pairs, (3, 2), thresholds=0.25)


def curves(file, both, pairs):
    def edges(g, shape):
        """Predictions at thresholds, and beyond the range."""
        t, p = pairs(g, shape)
        return t, np.round(p * 10).astype(np.float32) / np.float32(8) - np.float32(0.125)

    def logits(g, shape):
        return pairs(g, shape)[0], common.normal(g, shape, 2)

    for curve in ("ROC", "PR", "PRGAIN"):
        for method in ("interpolation", "majoring", "minoring"):
            both(f"auc/{curve}_{method}", pairs, (3,), curve=curve,
                 summation_method=method)
            both(f"auc/{curve}_{method}_edges", edges, (3,), curve=curve,
                 summation_method=method, num_thresholds=9)
        both(f"auc/{curve}_multi_label", pairs, (3,), curve=curve,
             multi_label=True, num_thresholds=7)
    both("auc/defaults", pairs, (1,))
    both("auc/two_thresholds", pairs, (2,), num_thresholds=2)
    both("auc/rank3", pairs, (2, 3))
    both("auc/from_logits", logits, (3,), from_logits=True)
    metric_case(file, "auc/no_positives", [
        (np.zeros((3, 1), np.float32),
         np.array([[0.25], [0.5], [0.75]], np.float32), None)])
    for kind, given in (("sensitivity_at_specificity", "specificity"),
                        ("specificity_at_sensitivity", "sensitivity"),
                        ("precision_at_recall", "recall"),
                        ("recall_at_precision", "precision")):
        both(f"{kind}/half", pairs, (3,), **{given: 0.5})
        both(f"{kind}/zero", pairs, (3,), **{given: 0.0})
        both(f"{kind}/one", pairs, (3,), num_thresholds=20, **{given: 1.0})
        both(f"{kind}/edges", edges, (3,), num_thresholds=9, **{given: 0.6})
        both(f"{kind}/class_id", pairs, (3,), class_id=0, **{given: 0.7})


def overlaps(file, both, weights):
    def labels(g, shape):
        return g.integers(0, 4, shape).astype(np.int32), g.integers(0, 4, shape).astype(np.float32)

    def scored(g, shape):
        return g.integers(0, 4, shape).astype(np.int32), common.normal(g, (*shape, 4))

    def one_hot(g, shape):
        return np.eye(4, dtype=np.float32)[g.integers(0, 4, shape)], common.normal(g, (*shape, 4))

    def chances(g, shape):
        return g.integers(0, 2, shape).astype(np.float32), g.random(shape).astype(np.float32)

    def each(name, make, shape, **given):
        """With whole weights too, of each element, as Keras takes them."""
        made = [make(common.rng(f"{name}/{i}"), (rows, *shape)) for i, rows in enumerate((7, 4, 5))]
        metric_case(file, name, [(t, p, None) for t, p in made], **given)
        metric_case(file, name + "_weighted",
                    [(t, p, weights(f"{name}/{i}", (len(p), *shape)) * np.float32(2)) for i, (t, p) in enumerate(made)],
                    **given)

    each("mean_iou/labels", labels, (3,), num_classes=4)
    each("mean_iou/outside", labels, (3,), num_classes=3)
    each("mean_iou/ignored", labels, (3,), num_classes=4, ignore_class=2)
    each("mean_iou/ignored_0", labels, (3,), num_classes=4, ignore_class=0)
    each("mean_iou/scores", scored, (3, 2), num_classes=4, sparse_y_pred=False)
    each("mean_iou/absent", scored, (2,), num_classes=70, sparse_y_pred=False)
    each("iou/scores", scored, (3,), num_classes=4, target_class_ids=[1, 3], sparse_y_pred=False)
    each("iou/labels", labels, (3,), num_classes=4, target_class_ids=[0])
    each("iou/one_hot", one_hot, (3,), num_classes=4, target_class_ids=[0, 2], sparse_y_true=False, sparse_y_pred=False)
    each("one_hot_iou/scores", one_hot, (3,), num_classes=4, target_class_ids=[2, 3])
    each("one_hot_mean_iou/scores", one_hot, (3,), num_classes=4)
    each("one_hot_mean_iou/ignored", one_hot, (3,), num_classes=4, ignore_class=1)
    each("binary_iou/both", chances, (3, 2))
    each("binary_iou/one", chances, (3,), target_class_ids=[1], threshold=0.25)


def scores(file, both, pairs, values):
    def shares(g, shape):
        return g.random(shape).astype(np.float32), g.random(shape).astype(np.float32)

    for average in ("macro", "micro", "weighted"):
        both(f"f1_score/{average}", pairs, (4,), average=average)
        both(f"f1_score/{average}_threshold", pairs, (4,), average=average, threshold=0.25)
        both(f"fbeta_score/{average}", pairs, (4,), average=average, beta=2.0)
    both("fbeta_score/defaults", pairs, (3,), average="macro")
    both("fbeta_score/half", shares, (3,), average="weighted", beta=0.5, threshold=0.5)
    metric_case(file, "f1_score/zeros", [
        (np.array([[0, 1], [1, 0]], np.float32), np.array([[0, 0], [0.25, 0.25]], np.float32), None)], average="macro")
    both("r2_score/rank2", values, (3,))
    both("r2_score/one_output", values, (1,))
    both("r2_score/by_variance", values, (3,), class_aggregation="variance_weighted_average")
    both("r2_score/adjusted", values, (3,), num_regressors=4)
    both("r2_score/too_few", values, (1,), num_regressors=60)
    for kind in ("pearson_correlation", "concordance_correlation"):
        both(f"{kind}/rank2", values, (5,))
        both(f"{kind}/rank3", values, (3, 4))


with common.File("losses.h5") as file:
    regression(file)
    crossentropy(file)
    binary(file)
    divergence(file)
    small_losses(file)
    focal(file)
    overlap(file)
with common.File("metrics.h5") as file:
    metrics(file)
