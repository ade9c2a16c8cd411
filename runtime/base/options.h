/* Options of calls: plain structs in which zero means the default.
 *
 * A macro fills the struct: iso_dense(x, 200, .no_bias = true). Its first member is `begin_`, which the macro
 * designates, so that a list may end early, or be empty, without a compiler's warning about members left out.
 *
 * The function of a macro has the macro's name and "_with"; it takes the struct's address and its size.
 * C++ and other languages call it. The address NULL means a struct of zeros. A member beyond `size`,
 * because the caller was compiled with an older header, counts as zero. Members that only a newer header
 * has must be zero: otherwise the call, or the next collective one, is ISO_INVALID and reports that the
 * program was built for a newer Isogrid. */
#ifndef ISO_BASE_OPTIONS_H
#define ISO_BASE_OPTIONS_H

/* What such a macro passes: the address of a struct of options, and its size. ISO_OPTIONS_AFTER: the list
 * begins with the value of the member `first`. C++ has no designated initializers before 2020, so there
 * the list is not an initializer: each `.member = value` of it is an assignment. In C++ members that are
 * positional in C are named (iso_dense(.x = x, .units = 200)), except `first`; a list has at most 24, and a
 * value in braces is written by its members (.x.data = a, .metrics[0] = m). */
#ifndef __cplusplus
#define ISO_OPTIONS(type, ...) &(type){.begin_ = 0, __VA_ARGS__}, sizeof(type)
#define ISO_OPTIONS_AFTER(type, first, ...) &(type){.first = __VA_ARGS__}, sizeof(type)
#else
#define ISO_OPTIONS(type, ...)                                                                               \
    static_cast<const type *>(iso_options_<type>([&](type &iso_o_) { ISO_ASSIGN_(__VA_ARGS__); })),          \
        sizeof(type)
#define ISO_OPTIONS_AFTER(type, first, ...) ISO_OPTIONS(type, .first = __VA_ARGS__)
/* Lives until the call that it is an argument of returns. */
template <class type> struct iso_options_ {
    type options;
    template <class fill_type> explicit iso_options_(fill_type fill) : options()
    {
        fill(options);
    }
    operator const type *() const
    {
        return &options;
    }
};
#define ISO_ASSIGN_(...)                                                                                     \
    ISO_ASSIGN_COUNT_(__VA_ARGS__, ISO_ASSIGN_24_, ISO_ASSIGN_23_, ISO_ASSIGN_22_, ISO_ASSIGN_21_,           \
                      ISO_ASSIGN_20_, ISO_ASSIGN_19_, ISO_ASSIGN_18_, ISO_ASSIGN_17_, ISO_ASSIGN_16_,        \
                      ISO_ASSIGN_15_, ISO_ASSIGN_14_, ISO_ASSIGN_13_, ISO_ASSIGN_12_, ISO_ASSIGN_11_,        \
                      ISO_ASSIGN_10_, ISO_ASSIGN_9_, ISO_ASSIGN_8_, ISO_ASSIGN_7_, ISO_ASSIGN_6_,            \
                      ISO_ASSIGN_5_, ISO_ASSIGN_4_, ISO_ASSIGN_3_, ISO_ASSIGN_2_, ISO_ASSIGN_1_, 0)          \
    (__VA_ARGS__)
#define ISO_ASSIGN_COUNT_(a24, a23, a22, a21, a20, a19, a18, a17, a16, a15, a14, a13, a12, a11, a10, a9, a8, \
                          a7, a6, a5, a4, a3, a2, a1, name, ...)                                             \
    name
#define ISO_ASSIGN_1_(a) (void)(iso_o_ a)
#define ISO_ASSIGN_2_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_1_(__VA_ARGS__)
#define ISO_ASSIGN_3_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_2_(__VA_ARGS__)
#define ISO_ASSIGN_4_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_3_(__VA_ARGS__)
#define ISO_ASSIGN_5_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_4_(__VA_ARGS__)
#define ISO_ASSIGN_6_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_5_(__VA_ARGS__)
#define ISO_ASSIGN_7_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_6_(__VA_ARGS__)
#define ISO_ASSIGN_8_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_7_(__VA_ARGS__)
#define ISO_ASSIGN_9_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_8_(__VA_ARGS__)
#define ISO_ASSIGN_10_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_9_(__VA_ARGS__)
#define ISO_ASSIGN_11_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_10_(__VA_ARGS__)
#define ISO_ASSIGN_12_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_11_(__VA_ARGS__)
#define ISO_ASSIGN_13_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_12_(__VA_ARGS__)
#define ISO_ASSIGN_14_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_13_(__VA_ARGS__)
#define ISO_ASSIGN_15_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_14_(__VA_ARGS__)
#define ISO_ASSIGN_16_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_15_(__VA_ARGS__)
#define ISO_ASSIGN_17_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_16_(__VA_ARGS__)
#define ISO_ASSIGN_18_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_17_(__VA_ARGS__)
#define ISO_ASSIGN_19_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_18_(__VA_ARGS__)
#define ISO_ASSIGN_20_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_19_(__VA_ARGS__)
#define ISO_ASSIGN_21_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_20_(__VA_ARGS__)
#define ISO_ASSIGN_22_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_21_(__VA_ARGS__)
#define ISO_ASSIGN_23_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_22_(__VA_ARGS__)
#define ISO_ASSIGN_24_(a, ...) (void)(iso_o_ a), ISO_ASSIGN_23_(__VA_ARGS__)
#endif

/* The number zero in an options struct, for members in which 0 means the default (.momentum = ISO_ZERO). */
#define ISO_ZERO (-2147483647 - 1)

/* A number given in options: `fallback` if it was left out, 0 if it is ISO_ZERO. */
static inline double iso_option_number(double value, double fallback)
{
    if (value == 0)
        return fallback;
    return value == ISO_ZERO ? 0 : value;
}

#endif
