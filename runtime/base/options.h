/* Options of calls: plain structs in which zero means the default.
 *
 * A macro fills the struct: iso_dense(x, 200, .no_bias = true). Its first member is `begin_`, which the macro
 * designates, so that a list may end early, or be empty, without a compiler's warning about members left out.
 *
 * The function behind a macro has the macro's name and "_with"; it takes the struct's address and its size.
 * C++ and other languages call it. The address NULL stands for a struct of zeros. A member that lies beyond
 * `size`, because the caller was compiled with an older header, counts as zero; members that only a newer
 * header has are ignored.
 */
#ifndef ISO_BASE_OPTIONS_H
#define ISO_BASE_OPTIONS_H

/* For any number in an options struct whose zero means something else: the number zero itself (.momentum =
 * ISO_ZERO). */
#define ISO_ZERO (-2147483647 - 1)

/* A number given in options: `fallback` where it was left out, 0 where it is ISO_ZERO. */
static inline double iso_option_number(double value, double fallback)
{
    if (value == 0)
        return fallback;
    return value == ISO_ZERO ? 0 : value;
}

#endif
