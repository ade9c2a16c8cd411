/* Progress lines, as they look where standard output is no terminal. Ranks: 1 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/train/progress.h"
#include "tests/support/run_tests.h"

/* Runs epochs of two steps with standard output in a file, and reads what was printed. */
static void print(char *text, size_t size, const iso_progress_options *options, int epochs)
{
    iso_progress *progress = NULL;
    char path[] = "/tmp/isogrid-progress-XXXXXX";
    int file = mkstemp(path), saved = dup(STDOUT_FILENO);
    ck_assert_int_ge(file, 0);
    fflush(stdout);
    dup2(file, STDOUT_FILENO);
    ck_assert_int_eq(iso_progress_create_with(NULL, &progress, options, sizeof *options), ISO_OK);
    for (int epoch = 0; epoch < epochs; epoch++) {
        iso_progress_update(progress, (double[]){1.0 + epoch, 0.5});
        iso_progress_update(progress, (double[]){2.0 + epoch, 0.0005});
        iso_progress_finish(progress);
    }
    iso_progress_destroy(progress);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    ssize_t length = pread(file, text, size - 1, 0);
    text[length < 0 ? 0 : length] = 0;
    close(file);
    unlink(path);
}

START_TEST(a_line_an_epoch_with_means)
{
    char text[1000];
    print(text, sizeof text, &(iso_progress_options){.steps = 2, .names = {"loss", "accuracy"}}, 2);
    ck_assert_int_eq(strncmp(text, "2/2 - 0s - ", 11), 0);
    char *second = strchr(text, '\n') + 1;
    ck_assert_ptr_nonnull(strstr(text, "/step - accuracy: 0.2502 - loss: 1.5000\n"));
    ck_assert_ptr_nonnull(strstr(second, "/step - accuracy: 0.2502 - loss: 2.5000\n"));
    ck_assert_ptr_null(strchr(text, '\r'));
}
END_TEST

START_TEST(the_latest_values_where_asked)
{
    char text[1000];
    print(text, sizeof text, &(iso_progress_options){.names = {"loss", "accuracy"}, .latest = true}, 1);
    ck_assert_int_eq(strncmp(text, "2/Unknown - ", 12), 0);
    ck_assert_ptr_nonnull(strstr(text, " - accuracy: 5.0000e-04 - loss: 2.0000\n"));
}
END_TEST

START_TEST(silence_where_asked)
{
    char text[1000];
    print(text, sizeof text, &(iso_progress_options){.steps = 2, .names = {"loss"}, .verbose = ISO_ZERO}, 2);
    ck_assert_str_eq(text, "");
}
END_TEST

int main(void)
{
    return RUN_TESTS("progress", 0, a_line_an_epoch_with_means, the_latest_values_where_asked,
                     silence_where_asked);
}
