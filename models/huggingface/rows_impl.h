/* The rows of architectures. For models/huggingface only. */
#ifndef ISO_MODELS_HUGGINGFACE_ROWS_IMPL_H
#define ISO_MODELS_HUGGINGFACE_ROWS_IMPL_H

#include "models/huggingface/huggingface_impl.h"

#define ROW(name, theirs, inputs, transposed, part, parts)                                                   \
    {                                                                                                        \
        name, theirs, inputs, transposed, part, parts, ISO_HF_EQUAL, false, ISO_HF_PLAIN, false, 0, 0        \
    }
#define VECTOR(name, theirs) ROW(name, theirs, 0, false, 0, 0)
#define MATRIX(name, theirs, inputs) ROW(name, theirs, inputs, false, 0, 0)
#define TRANSPOSED(name, theirs, inputs) ROW(name, theirs, inputs, true, 0, 0)
/* Of images. */
#define LEADING_ONE(name, theirs)                                                                            \
    {                                                                                                        \
        name, theirs, 1, false, 0, 0, ISO_HF_EQUAL, false, ISO_HF_LEADING_ONE, false, 0, 0                   \
    }
#define PATCHES(name, theirs)                                                                                \
    {                                                                                                        \
        name, theirs, 1, true, 0, 0, ISO_HF_EQUAL, false, ISO_HF_PATCHES, false, 0, 0                        \
    }
/* Of experts, each of which has a tensor. */
#define EXPERTS(name, theirs)                                                                                \
    {                                                                                                        \
        name, theirs, 1, true, 0, 0, ISO_HF_EQUAL, false, ISO_HF_PLAIN, true, 0, 0                           \
    }
/* Of a classifier. */
#define OPTIONAL_VECTOR(name, theirs)                                                                        \
    {                                                                                                        \
        name, theirs, 0, false, 0, 0, ISO_HF_EQUAL, true, ISO_HF_PLAIN, false, 0, 0                          \
    }
#define OPTIONAL_TRANSPOSED(name, theirs, inputs)                                                            \
    {                                                                                                        \
        name, theirs, inputs, true, 0, 0, ISO_HF_EQUAL, true, ISO_HF_PLAIN, false, 0, 0                      \
    }
#define THIRD(name, theirs, inputs, part) ROW(name, theirs, inputs, false, part, 3)
#define SLICE(name, theirs, part, parts, order)                                                              \
    {                                                                                                        \
        name, theirs, 1, true, part, parts, order, false, ISO_HF_PLAIN, false, 0, 0                          \
    }
/* Of queries, keys and values that are side by side in each head. */
#define IN_HEADS(name, theirs, inputs, part)                                                                 \
    {                                                                                                        \
        name, theirs, inputs, (inputs) > 0, part, 3, ISO_HF_IN_HEADS, false, ISO_HF_PLAIN, false, 0, 0       \
    }
#define SETTING(key, kind, setting, fallback, zero_is_null)                                                  \
    {                                                                                                        \
        key, ISO_HF_##kind, setting, fallback, NULL, zero_is_null                                            \
    }
/* The same, and null is this value. */
#define FIXED_OR_NULL(key, value)                                                                            \
    {                                                                                                        \
        key, ISO_HF_FIXED, NULL, 0, value, true                                                              \
    }
#define FIXED(key, value)                                                                                    \
    {                                                                                                        \
        key, ISO_HF_FIXED, NULL, 0, value, false                                                             \
    }

#endif
