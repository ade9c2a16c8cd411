/* Progress lines: equal to those of Keras's Progbar at given times (tests/keras/progress.json), on a terminal
 * and elsewhere; how often they are drawn, narrow terminals. Ranks: 1 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/train/callbacks_impl.h"

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
    ck_assert_ptr_nonnull(strstr(text, "/step - loss: 1.5000 - accuracy: 0.2502\n"));
    ck_assert_ptr_nonnull(strstr(second, "/step - loss: 2.5000 - accuracy: 0.2502\n"));
    ck_assert_ptr_null(strchr(text, '\r'));
}
END_TEST

START_TEST(the_latest_values_where_asked)
{
    char text[1000];
    print(text, sizeof text, &(iso_progress_options){.names = {"loss", "accuracy"}, .latest = true}, 1);
    ck_assert_int_eq(strncmp(text, "2/2 - 0s - ", 11), 0);
    ck_assert_ptr_nonnull(strstr(text, " - loss: 2.0000 - accuracy: 5.0000e-04\n"));
}
END_TEST

START_TEST(silence_where_asked)
{
    char text[1000];
    print(text, sizeof text, &(iso_progress_options){.steps = 2, .names = {"loss"}, .verbose = ISO_ZERO}, 2);
    ck_assert_str_eq(text, "");
}
END_TEST

/* ---- a terminal ---- */

typedef struct terminal {
    int master, slave, saved;
    char text[100000];
    size_t length;
} terminal;

static terminal screen;

/* Standard output becomes a terminal of so many columns that changes nothing of what is written. */
static void open_terminal(int columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = (unsigned short)columns};
    struct termios modes;
    screen.master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert(screen.master >= 0 && grantpt(screen.master) == 0 && unlockpt(screen.master) == 0);
    screen.slave = open(ptsname(screen.master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(screen.slave, 0);
    ck_assert_int_eq(tcgetattr(screen.slave, &modes), 0);
    cfmakeraw(&modes);
    ck_assert_int_eq(tcsetattr(screen.slave, TCSANOW, &modes), 0);
    ck_assert_int_eq(ioctl(screen.slave, TIOCSWINSZ, &size), 0);
    ck_assert_int_eq(fcntl(screen.master, F_SETFL, O_NONBLOCK), 0);
    screen.length = 0;
    fflush(stdout);
    screen.saved = dup(STDOUT_FILENO);
    dup2(screen.slave, STDOUT_FILENO);
}

/* Takes what has been written, so that there is room for more. */
static void look(void)
{
    fflush(stdout);
    for (;;) {
        ssize_t got =
            read(screen.master, screen.text + screen.length, sizeof screen.text - 1 - screen.length);
        if (got <= 0)
            break;
        screen.length += (size_t)got;
    }
    screen.text[screen.length] = 0;
}

static void close_terminal(void)
{
    look();
    dup2(screen.saved, STDOUT_FILENO);
    close(screen.saved);
    close(screen.slave);
    close(screen.master);
}

/* ---- Keras's lines ---- */

static double clock_now;

static double given_clock(void)
{
    return clock_now;
}

/* The cases's values, and behind them those of validation. */
typedef struct given {
    int count;
    const char *name[8];
    char validation[8][40];
    double value[8];
} given;

static given values_of(const json_t *test)
{
    given g = {0};
    const char *name;
    const json_t *value;
    json_object_foreach(json_object_get(test, "values"), name, value)
    {
        g.name[g.count] = name;
        g.value[g.count++] = strtod(json_string_value(value), NULL);
    }
    for (int i = 0; i < g.count; i++) {
        snprintf(g.validation[i], sizeof g.validation[i], "val_%s", g.name[i]);
        g.value[g.count + i] = g.value[i];
    }
    return g;
}

static double time_of(const json_t *test, int64_t step)
{
    const json_t *times = json_object_get(test, "times");
    return json_is_array(times) ? json_number_value(json_array_get(times, (size_t)step))
                                : (double)(step + 1) / 16384;
}

static void draw_case(const json_t *test)
{
    const double start = 1024;
    given g = values_of(test);
    const json_t *times = json_object_get(test, "times");
    int64_t steps = json_is_array(times) ? (int64_t)json_array_size(times) : json_integer_value(times);
    iso_progress *progress = NULL;
    clock_now = start;
    iso_progress_options options = {.verbose = (int)json_integer_value(json_object_get(test, "verbose"))};
    ck_assert_int_eq(iso_progress_create_with(NULL, &progress, &options, sizeof options), ISO_OK);
    iso_progress_set_clock(progress, given_clock);
    iso_progress_begin(progress, NULL, json_is_true(json_object_get(test, "known")) ? steps : 0, 0);
    for (int64_t step = 0; step < steps; step++) {
        clock_now = start + time_of(test, step);
        if (iso_progress_step(progress))
            iso_progress_draw(progress, &(iso_logs){g.count, g.name, g.value});
        look();
    }
    clock_now += 0.5;
    for (int i = 0; i < g.count; i++)
        g.name[g.count + i] = g.validation[i];
    iso_progress_end(progress, &(iso_logs){2 * g.count, g.name, g.value}, 2 * g.count);
    iso_progress_destroy(progress);
}

START_TEST(lines_are_those_of_keras)
{
    json_error_t error;
    json_t *file = json_load_file("tests/keras/progress.json", 0, &error), *test, *part;
    size_t i, k;
    ck_assert_msg(file != NULL, "tests/keras/progress.json: %s", error.text);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    json_array_foreach(json_object_get(file, "cases"), i, test)
    {
        static char expected[100000];
        expected[0] = 0;
        json_array_foreach(json_object_get(test, "drawn"), k, part) strcat(expected, json_string_value(part));
        open_terminal(200);
        draw_case(test);
        close_terminal();
        ck_assert_msg(strcmp(screen.text, expected) == 0, "%s, known %d, verbose %d:\n%s\nKeras's:\n%s",
                      json_string_value(json_object_get(test, "name")),
                      json_is_true(json_object_get(test, "known")),
                      (int)json_integer_value(json_object_get(test, "verbose")), screen.text, expected);
    }
    ck_assert_uint_gt(i, 50);
    json_decref(file);
}
END_TEST

/* ---- how often, and how wide ---- */

START_TEST(it_is_drawn_at_most_ten_times_a_second)
{
    iso_progress *progress = NULL;
    int drawn = 0, steps = 200000;
    open_terminal(100);
    double begin = iso_clock();
    ck_assert_int_eq(iso_progress_create(NULL, &progress, .steps = steps, .names = {"loss"}), ISO_OK);
    for (int i = 0; i < steps; i++)
        iso_progress_update(progress, (double[]){0.5});
    iso_progress_finish(progress);
    double seconds = iso_clock() - begin;
    close_terminal();
    iso_progress_destroy(progress);
    for (size_t i = 0; i < screen.length; i++)
        drawn += screen.text[i] == '\r';
    ck_assert_msg(drawn >= 2 && drawn <= seconds * 10 + 2, "%d times in %g s", drawn, seconds);
}
END_TEST

/* Characters, without escape sequences, of the longest line that is redrawn. */
static int widest(const char *text)
{
    int most = 0, width = 0;
    for (; *text && strchr(text + 1, '\r'); text++) {
        if (*text == '\033')
            text += strcspn(text, "m");
        else if (*text == '\r')
            width = 0;
        else
            width += ((unsigned char)*text & 0xC0) != 0x80;
        most = width > most ? width : most;
    }
    return most;
}

START_TEST(a_line_that_is_redrawn_fits)
{
    static const int columns[] = {200, 80, 60, 40, 30, 12, 3, 1};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        iso_progress *progress = NULL;
        open_terminal(columns[i]);
        clock_now = 10;
        ck_assert_int_eq(
            iso_progress_create(NULL, &progress, .steps = 20, .names = {"loss", "größe", "accuracy"}),
            ISO_OK);
        iso_progress_set_clock(progress, given_clock);
        iso_progress_begin(progress, "Epoch 1/2", 20, 0);
        for (int step = 0; step < 20; step++) {
            clock_now += 1;
            iso_progress_update(progress, (double[]){0.5, 12.25, 0.0001});
        }
        iso_progress_finish(progress);
        close_terminal();
        iso_progress_destroy(progress);
        int width = widest(strchr(screen.text, '\r'));
        if (columns[i] > 1)
            ck_assert_msg(width < columns[i], "%d characters in %d columns", width, columns[i]);
        if (columns[i] == 200)
            ck_assert_int_gt(width, 70);
        ck_assert_ptr_nonnull(strstr(screen.text, "0.5000 - größe: 12.2500 - accuracy: 1.0000e-04\n"));
    }
}
END_TEST

START_TEST(no_colours_where_they_are_not_wanted)
{
    iso_progress *progress = NULL;
    setenv("NO_COLOR", "1", 1);
    open_terminal(80);
    ck_assert_int_eq(iso_progress_create(NULL, &progress, .steps = 2, .names = {"loss"}), ISO_OK);
    iso_progress_update(progress, (double[]){0.5});
    iso_progress_update(progress, (double[]){0.5});
    iso_progress_finish(progress);
    close_terminal();
    iso_progress_destroy(progress);
    unsetenv("NO_COLOR");
    ck_assert_ptr_null(strchr(screen.text, '\033'));
    ck_assert_ptr_nonnull(strstr(screen.text, "1/2 ━━━━━━━━━━────────── "));
}
END_TEST

/* An epoch that goes on after four of ten steps: those count as done, not for the time of a step. */
START_TEST(an_epoch_goes_on_where_it_was)
{
    iso_progress *progress = NULL;
    open_terminal(80);
    clock_now = 100;
    ck_assert_int_eq(iso_progress_create(NULL, &progress, .steps = 10, .names = {"loss"}), ISO_OK);
    iso_progress_set_clock(progress, given_clock);
    iso_progress_begin(progress, "Epoch 2/2", 10, 4);
    for (int step = 4; step < 10; step++) {
        clock_now += 2;
        iso_progress_update(progress, (double[]){0.5});
        look();
        char count[32];
        snprintf(count, sizeof count, "%d/10", step + 1);
        ck_assert_msg(strstr(screen.text, count) != NULL, "no %s in %s", count, screen.text);
    }
    iso_progress_finish(progress);
    close_terminal();
    iso_progress_destroy(progress);
    ck_assert_ptr_null(strstr(screen.text, "4/10"));
    const char *last = strrchr(screen.text, '\r');
    ck_assert_msg(last && strstr(last, "12s") && strstr(last, "2s/step"), "%s", screen.text);
}
END_TEST

/* A message between two drawings begins a line of its own. */
START_TEST(messages_do_not_break_into_the_bar)
{
    iso_progress *progress = NULL;
    open_terminal(80);
    ck_assert_int_eq(iso_progress_create(NULL, &progress, .steps = 2, .names = {"loss"}), ISO_OK);
    iso_progress_break(progress);
    iso_progress_update(progress, (double[]){0.5});
    iso_progress_break(progress);
    printf("message\n");
    iso_progress_finish(progress);
    close_terminal();
    iso_progress_destroy(progress);
    const char *message = strstr(screen.text, "\nmessage\n\r");
    ck_assert_ptr_nonnull(message);
    ck_assert(screen.text[0] == '\r' && strstr(screen.text, "loss: 0.5000") < message);
}
END_TEST

START_TEST(an_error_begins_a_line)
{
    iso_progress *progress = NULL;
    open_terminal(80);
    ck_assert_int_eq(iso_progress_create(NULL, &progress, .steps = 2, .names = {"loss"}), ISO_OK);
    iso_progress_update(progress, (double[]){0.5});
    iso_progress_destroy(progress);
    printf("error\n");
    close_terminal();
    ck_assert_ptr_nonnull(strstr(screen.text, "\nerror\n"));
}
END_TEST

int main(void)
{
    return RUN_TESTS("progress", 0, a_line_an_epoch_with_means, the_latest_values_where_asked,
                     silence_where_asked, lines_are_those_of_keras, it_is_drawn_at_most_ten_times_a_second,
                     a_line_that_is_redrawn_fits, no_colours_where_they_are_not_wanted,
                     an_epoch_goes_on_where_it_was, messages_do_not_break_into_the_bar,
                     an_error_begins_a_line);
}
