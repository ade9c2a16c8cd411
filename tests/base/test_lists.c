/* Growing arrays and hash tables: growth, shortened arrays, sizes that overflow, and each allocation that
 * fails once. Ranks: 1   Sanitize: 1 */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/hash.h"
#include "runtime/base/list.h"
#include "runtime/base/table.h"
#include "tests/support/run_tests.h"

/* ---- the library's allocations: the one that is due fails ---- */

static long due; /* 1: the next one; 0: none */

void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = NULL;
    if (alignment == ISO_ALIGN && due > 0 && --due == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}

/* ---- arrays ---- */

typedef struct triple {
    char byte[3];
} triple;

static triple triple_of(int i)
{
    return (triple){{(char)i, (char)(i >> 8), (char)(i >> 16)}};
}

static iso_status add_triple(triple **list, int *count, int i, const char *what)
{
    triple item = triple_of(i);
    return iso_list_add(*list, *count, item, what);
}

static void check_triples(const triple *list, int count)
{
    for (int i = 0; i < count; i++) {
        triple expected = triple_of(i);
        ck_assert_msg(memcmp(&list[i], &expected, sizeof expected) == 0, "item %d of %d", i, count);
    }
}

START_TEST(arrays_grow_and_give_all_memory_back)
{
    triple *list = NULL;
    size_t held = iso_memory_held();
    int count = 0, moved = 0;
    for (int i = 0; i < 100000; i++) {
        const triple *was = list;
        ck_assert_int_eq(add_triple(&list, &count, i, "triples"), ISO_OK);
        moved += list != was;
    }
    ck_assert_int_eq(count, 100000);
    check_triples(list, count);
    ck_assert_int_le(moved, 20); /* it doubles */
    ck_assert_uint_ge(iso_memory_held() - held, 300000);
    iso_free(list);
    ck_assert_uint_eq(iso_memory_held(), held);
}
END_TEST

/* All that is allocated but the 64 bytes behind it that kernels may load. */
START_TEST(memory_knows_its_room)
{
    for (size_t bytes = 0; bytes < 1000; bytes++) {
        void *memory = iso_new(bytes);
        ck_assert_uint_ge(iso_memory_room(memory), bytes);
        ck_assert_uint_lt(iso_memory_room(memory), bytes + ISO_ALIGN);
        iso_free(memory);
    }
    ck_assert_uint_eq(iso_memory_room(NULL), 0);
}
END_TEST

/* Arrays that were made or shortened elsewhere have the room of their memory, whatever the count. */
START_TEST(any_array_of_the_library_can_grow)
{
    for (int made = 0; made < 70; made++)
        for (int kept = 0; kept <= made; kept += 7) {
            triple *list = iso_grow(NULL, 0, (size_t)made, sizeof *list);
            int count = kept;
            for (int i = 0; i < kept; i++)
                list[i] = triple_of(i);
            for (int i = kept; i < 150; i++)
                ck_assert_int_eq(add_triple(&list, &count, i, "triples"), ISO_OK);
            ck_assert_uint_ge(iso_memory_room(list), 150 * sizeof *list);
            check_triples(list, 150);
            iso_free(list);
        }
}
END_TEST

START_TEST(an_array_stays_when_out_of_memory)
{
    triple *list = NULL;
    int count = 0, failures = 0;
    for (int i = 0; i < 1000; i++) {
        const triple *was = list;
        due = 1;
        iso_status status = add_triple(&list, &count, i, "triples of a test");
        if (due == 0) { /* it had to grow */
            failures++;
            ck_assert_int_eq(status, ISO_NO_MEMORY);
            ck_assert_str_eq(strstr(iso_error_message(), "no memory for triples of a test ("),
                             iso_error_message());
            ck_assert_int_eq(count, i);
            ck_assert_ptr_eq(list, was);
            check_triples(list, count);
            status = add_triple(&list, &count, i, "triples of a test");
        }
        due = 0;
        ck_assert_int_eq(status, ISO_OK);
    }
    ck_assert_int_ge(failures, 5);
    check_triples(list, 1000);
    iso_free(list);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    int64_t *list = NULL, item = 7;
    int count = 0;
    ck_assert_int_eq(iso_list_add(list, count, item, "numbers"), ISO_OK);
    const int64_t *was = list;
    const size_t more[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 8, SIZE_MAX / 8 + 1, SIZE_MAX / 16 + 1};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ck_assert_int_eq(iso_list_reserve(list, count, more[i], "numbers"), ISO_NO_MEMORY);
        ck_assert_ptr_eq(list, was);
    }
    count = INT_MAX;
    ck_assert_int_eq(iso_list_add(list, count, item, "numbers"), ISO_NO_MEMORY);
    ck_assert_int_eq(count, INT_MAX);
    ck_assert_int_eq((int)list[0], 7);
    iso_free(list);
}
END_TEST

/* ---- tables ---- */

/* Few hashes, so that many keys have the same one. */
static uint64_t hash_of(int key)
{
    return (uint64_t)(key % 13) << 60 | (uint64_t)(key % 7);
}

static bool is_key(const void *key, int number)
{
    return *(const int *)key == 3 * number + 1;
}

static int find(const iso_table *table, int key)
{
    return iso_table_find(table, hash_of(key), is_key, &key);
}

START_TEST(tables_find_what_was_added)
{
    enum { KEYS = 2000 };
    iso_table table = {0}, copy = {0};
    size_t held = iso_memory_held();
    ck_assert_int_eq(find(&table, 1), -1);
    for (int i = 0; i < KEYS; i++) {
        ck_assert_int_eq(find(&table, 3 * i + 1), -1);
        ck_assert_int_eq(iso_table_add(&table, hash_of(3 * i + 1), i, "keys"), ISO_OK);
        ck_assert_int_eq(find(&table, 3 * i + 1), i);
    }
    ck_assert_int_eq(iso_table_copy(&table, &copy, "keys"), ISO_OK);
    iso_table_clear(&table);
    for (int key = 0; key < 3 * KEYS; key++) {
        ck_assert_int_eq(find(&copy, key), key % 3 == 1 ? key / 3 : -1);
        ck_assert_int_eq(find(&table, key), -1);
    }
    ck_assert_int_eq(iso_table_add(&table, hash_of(1), 0, "keys"), ISO_OK);
    ck_assert_int_eq(find(&table, 1), 0);
    iso_table_free(&table);
    iso_table_free(&copy);
    ck_assert_uint_eq(iso_memory_held(), held);
}
END_TEST

/* Without a comparison the hash is the key, 0 as good as any. */
START_TEST(hashes_can_be_keys)
{
    iso_table table = {0};
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(iso_table_add(&table, (uint64_t)i << 40, i, "hashes"), ISO_OK);
    for (int i = 0; i < 2000; i++)
        ck_assert_int_eq(iso_table_find(&table, (uint64_t)i << 40, NULL, NULL), i < 1000 ? i : -1);
    iso_table_free(&table);
}
END_TEST

START_TEST(a_table_stays_when_out_of_memory)
{
    iso_table table = {0}, copy = {0};
    int failures = 0;
    for (int i = 0; i < 1000; i++) {
        due = 1;
        iso_status status = iso_table_add(&table, hash_of(3 * i + 1), i, "keys of a test");
        if (due == 0) {
            failures++;
            ck_assert_int_eq(status, ISO_NO_MEMORY);
            ck_assert_str_eq(strstr(iso_error_message(), "no memory for keys of a test ("),
                             iso_error_message());
            for (int k = 0; k <= i; k++)
                ck_assert_int_eq(find(&table, 3 * k + 1), k < i ? k : -1);
            status = iso_table_add(&table, hash_of(3 * i + 1), i, "keys of a test");
        }
        due = 0;
        ck_assert_int_eq(status, ISO_OK);
    }
    ck_assert_int_ge(failures, 5);
    due = 1;
    ck_assert_int_eq(iso_table_copy(&table, &copy, "keys of a test"), ISO_NO_MEMORY);
    due = 0;
    iso_table_free(&copy);
    iso_table_free(&table);
}
END_TEST

/* The 128 bits count, not the 64 by which they are found. */
START_TEST(first_of_equal_hashes)
{
    enum { KEYS = 300 };
    iso_hash_key key[KEYS];
    int first[KEYS];
    for (int i = 0; i < KEYS; i++)
        key[i] = (iso_hash_key){{(uint64_t)(i % 5), (uint64_t)(i % 77)}};
    ck_assert(iso_hash_firsts(key, KEYS, first));
    for (int i = 0; i < KEYS; i++) {
        int expected = 0;
        while (memcmp(&key[expected], &key[i], sizeof *key) != 0)
            expected++;
        ck_assert_int_eq(first[i], expected);
    }
    due = 1;
    ck_assert(!iso_hash_firsts(key, KEYS, first));
    due = 0;
}
END_TEST

int main(void)
{
    return RUN_TESTS("lists", 60, memory_knows_its_room, arrays_grow_and_give_all_memory_back,
                     any_array_of_the_library_can_grow, an_array_stays_when_out_of_memory,
                     sizes_that_overflow_are_refused, tables_find_what_was_added, hashes_can_be_keys,
                     a_table_stays_when_out_of_memory, first_of_equal_hashes);
}
