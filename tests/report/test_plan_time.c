/* The time of a step: schedules worked out by hand, ops estimated from others, and files of measurements with
 * something wrong in them. Ranks: 1 */
#include <check.h>
#include <math.h>
#include <string.h>

#include "runtime/report/plan_time.h"
#include "tests/support/once.h"
#include "tests/support/run_tests.h"

/* A byte takes a second on the link, and arrives half a second later. */
static const iso_network slow = {.known = true, .latency = 0.5, .bandwidth = 1};

static iso_time_event compute(double seconds)
{
    return (iso_time_event){.kind = ISO_TIME_COMPUTE, .seconds = seconds};
}
static iso_time_event update(double seconds)
{
    return (iso_time_event){.kind = ISO_TIME_UPDATE, .seconds = seconds};
}
static iso_time_event here(double seconds)
{
    return (iso_time_event){.kind = ISO_TIME_HERE, .seconds = seconds};
}
static iso_time_event start(int transfer, double bytes)
{
    return (iso_time_event){.kind = ISO_TIME_START, .transfer = transfer, .bytes = bytes, .messages = 1};
}
static iso_time_event wait_for(int transfer)
{
    return (iso_time_event){.kind = ISO_TIME_WAIT, .transfer = transfer};
}

/* Checks the times of a step of these events: step, computation, update, here, waits, travels, hidden. */
static void expect(const iso_time_event *events, int count, const iso_network *network,
                   const double expected[7])
{
    iso_report_time t = {0};
    check_ok(iso_time_simulate(events, count, 2, network, &t));
    const double found[7] = {t.step, t.computation, t.update, t.intra_host, t.exposed, t.in_flight, t.hidden};
    check_near("step, computation, update, here, waits, travels, hidden", found, expected, 7, 1e-12);
}
#define EXPECT(network, expected, ...)                                                                       \
    expect((const iso_time_event[]){__VA_ARGS__},                                                            \
           (int)(sizeof((const iso_time_event[]){__VA_ARGS__}) / sizeof(iso_time_event)), network, expected)
#define TIMES(...) ((const double[7]){__VA_ARGS__})

START_TEST(ops_add_up)
{
    EXPECT(&slow, TIMES(6.25, 3, 2, 1.25, 0, 0, 0), compute(1), here(1.25), compute(2), update(2));
}
END_TEST

START_TEST(work_hides_messages)
{
    /* sent at 0, on the link until 3, there at 3.5: after the work of 4 */
    EXPECT(&slow, TIMES(4, 4, 0, 0, 0, 3.5, 3.5), start(0, 3), compute(4), wait_for(0));
    /* the work ends at 2: 1.5 are waited for, 2 are hidden */
    EXPECT(&slow, TIMES(3.5, 2, 0, 0, 1.5, 3.5, 2), start(0, 3), compute(2), wait_for(0));
}
END_TEST

START_TEST(the_link_takes_one_transfer_after_the_other)
{
    /* the first is on the link from 0 to 3, the second until 5, there at 5.5 */
    EXPECT(&slow, TIMES(5.5, 1, 0, 0, 4.5, 6, 1.5), start(0, 3), start(1, 2), compute(1), wait_for(0),
           wait_for(1));
    /* the second is smaller, and is waited for first: its own 5.5 all the same */
    EXPECT(&slow, TIMES(5.5, 1, 0, 0, 4.5, 6, 1.5), start(0, 3), start(1, 2), compute(1), wait_for(1),
           wait_for(0));
}
END_TEST

START_TEST(the_second_step_counts)
{
    /* The first step waits for nothing at its begin; the second for what the first has sent at its end: 3.5. */
    EXPECT(&slow, TIMES(5.5, 2, 0, 0, 3.5, 3.5, 0), wait_for(0), compute(2), start(0, 3));
    /* The link has the transfer of the step before until 3 after its end; then this step's 3, and 0.5. */
    EXPECT(&slow, TIMES(6.5, 2, 0, 0, 4.5, 7, 2.5), start(1, 3), compute(2), wait_for(1), start(0, 3));
}
END_TEST

START_TEST(messages_take_time_of_the_sender)
{
    const iso_network busy = {.known = true, .latency = 0, .bandwidth = 10, .message = 0.25};
    iso_time_event many = start(0, 5);
    many.messages = 8; /* sent from 0 to 2, on the link until 2.5 */
    EXPECT(&busy, TIMES(3, 1, 0, 0, 2, 0.5, 0), many, compute(1), wait_for(0));
    many.messages = 0; /* nothing to send */
    EXPECT(&busy, TIMES(1, 1, 0, 0, 0, 0, 0), many, compute(1), wait_for(0));
}
END_TEST

/* Messages move on between ops: the link carries a window during each, and waits for the next. */
START_TEST(an_op_lets_a_window_through)
{
    const iso_network narrow = {.known = true, .latency = 0.5, .bandwidth = 1, .window = 2};
    /* 2 of 3 bytes until 2; nothing until the work ends at 4; the third until 5, there at 5.5 */
    EXPECT(&narrow, TIMES(5.5, 4, 0, 0, 1.5, 3.5, 2), start(0, 3), compute(4), wait_for(0));
    /* in two ops: all of it until 3, there at 3.5 */
    EXPECT(&narrow, TIMES(4, 4, 0, 0, 0, 3.5, 3.5), start(0, 3), compute(2), compute(2), wait_for(0));
    /* a window for all transfers together: the second begins to travel when the first work ends */
    EXPECT(&narrow, TIMES(5.5, 4, 0, 0, 1.5, 4, 2.5), start(0, 2), start(1, 1), compute(4), wait_for(0),
           wait_for(1));
}
END_TEST

/* The cores that compute carry the bytes too. */
START_TEST(bytes_take_time_of_the_slots)
{
    const iso_network heavy = {.known = true, .latency = 0, .bandwidth = 2, .byte = 0.25};
    /* each second carries 2 bytes and does half a second of work: 4 bytes until 2, when half of the work is done */
    EXPECT(&heavy, TIMES(3, 2, 0, 0, 1, 2, 1), start(0, 4), compute(2), wait_for(0));
    /* who waits computes nothing: no time is lost */
    EXPECT(&heavy, TIMES(2, 0, 0, 0, 2, 2, 0), start(0, 4), wait_for(0));
    /* cores that cannot keep up with the link do nothing else: 4 bytes in 2 seconds, then the work */
    const iso_network full = {.known = true, .latency = 0, .bandwidth = 8, .byte = 0.5};
    EXPECT(&full, TIMES(3, 1, 0, 0, 2, 0.5, 0), start(0, 4), compute(1), wait_for(0));
}
END_TEST

/* Hosts that compute do not stay in step. */
START_TEST(hosts_are_not_in_step_after_work)
{
    const iso_network apart = {.known = true, .latency = 0.5, .bandwidth = 1, .skew = 0.25};
    /* sent at 1, on the link until 2, there at 2.75 */
    EXPECT(&apart, TIMES(2.75, 1, 0, 0, 1.75, 1.75, 0), compute(1), start(0, 1), wait_for(0));
    /* half of it after half of ISO_SKEW_SECONDS */
    EXPECT(&apart, TIMES(1.6265, 0.0015, 0, 0, 1.625, 1.625, 0), compute(0.0015), start(0, 1), wait_for(0));
    /* in step after a wait */
    EXPECT(&apart, TIMES(3, 0, 0, 0, 3, 3, 0), start(0, 1), wait_for(0), start(1, 1), wait_for(1));
    /* not after a wait for what has arrived already */
    EXPECT(&apart, TIMES(1, 1, 0, 0, 0, 0.85, 0.85), start(0, 0.1), compute(1), wait_for(0));
    /* the time of a core counts */
    const iso_network half = {.known = true, .latency = 0.5, .bandwidth = 1, .skew = 0.25, .core = 0.5};
    EXPECT(&half, TIMES(1.628, 0.003, 0, 0, 1.625, 1.625, 0), compute(0.003), start(0, 1), wait_for(0));
}
END_TEST

/* A token bucket: a free link saves up to 2 bytes, and carries them at once. */
START_TEST(a_pause_saves_a_burst)
{
    const iso_network bucket = {.known = true, .latency = 0.5, .bandwidth = 1, .burst = 2};
    /* free for the 5 of the first work: 2 of 3 bytes at once, the third until 6, there at 6.5 */
    EXPECT(&bucket, TIMES(6.5, 5, 0, 0, 1.5, 3.5, 2), compute(5), start(0, 3), wait_for(0));
    /* all of it at once, there after the latency */
    EXPECT(&bucket, TIMES(5.5, 5, 0, 0, 0.5, 2.5, 2), compute(5), start(0, 2), wait_for(0));
    /* 0.5 of the latency before and 1 of the work are saved, and are used up; the second work saves 1 of 2 bytes, the
     * other is there at 3.5 */
    EXPECT(&bucket, TIMES(3.5, 2, 0, 0, 1.5, 4.5, 3), compute(1), start(0, 1.5), compute(1), start(1, 2),
           wait_for(0), wait_for(1));
}
END_TEST

/* ---- ops that were not measured ---- */

#define HEAD                                                                                                 \
    "{\"version\": 1, \"machine\": {\"processor\": \"p\", \"backend\": \"b\", \"cores\": 2, \"date\": "      \
    "\"d\"},"                                                                                                \
    "\"rates\": {\"flops\": 1e9, \"bytes_one\": 1e30, \"bytes_all\": 1e30, \"barrier\": 0, \"pull\": 1}"

static iso_calibration *read_good(const char *text)
{
    iso_calibration *c = NULL;
    check_ok(iso_calibration_parse("cal.json", text, strlen(text), &c));
    return c;
}

static double seconds_of(const iso_calibration *c, const char *op, const char *key, double flops,
                         bool measured)
{
    bool found;
    double seconds = iso_time_of_op(
        c, &(iso_calibrated_op){.key = (char *)key, .type = (char *)op, .busy = 1, .flops = flops}, &found);
    ck_assert_int_eq(found, measured);
    return seconds;
}

START_TEST(ops_are_estimated_from_the_nearest)
{
    static const double call = 2e-7; /* of a kernel that does nothing */
    iso_calibration *c = read_good(
        HEAD
        ", \"ops\": ["
        "{\"key\": \"k1\", \"op\": \"matmul\", \"busy\": 1, \"flops\": 1e9, \"bytes\": 0, \"seconds\": 3},"
        "{\"key\": \"k2\", \"op\": \"matmul\", \"busy\": 1, \"flops\": 1e6, \"bytes\": 0, \"seconds\": 0.5},"
        "{\"key\": \"k3\", \"op\": \"relu\", \"busy\": 1, \"flops\": 2e9, \"bytes\": 0, \"seconds\": 7}]}");
    ck_assert_double_eq(seconds_of(c, "matmul", "k1", 1e9, true), 3);
    /* 2e9 operations: as k1, in proportion to 1 s + call and 0.5 s + call: both cores compute them. One computes
     * small ones. */
    ck_assert_double_eq_tol(seconds_of(c, "matmul", "other", 2e9, false), 3 * (1 + call) / (0.5 + call),
                            1e-12);
    ck_assert_double_eq_tol(seconds_of(c, "matmul", "small", 2e6, false), 0.5 * (2e-3 + call) / (1e-3 + call),
                            1e-12);
    /* the key with one other extent, although k2 has nearer operations */
    iso_calibration_destroy(c);
    /* as earlier versions wrote it */
    c = read_good(HEAD ", \"works\": ["
                       "{\"key\": \"m x[4,8] w[8,8] @1\", \"op\": \"m\", \"busy\": 1, \"flops\": 1e6, "
                       "\"bytes\": 0, \"seconds\": 0.5},"
                       "{\"key\": \"m x[9,9] w[9,9] @1\", \"op\": \"m\", \"busy\": 1, \"flops\": 1e9, "
                       "\"bytes\": 0, \"seconds\": 3}]}");
    ck_assert_double_eq_tol(seconds_of(c, "m", "m x[5,8] w[8,8] @1", 1e9, false),
                            0.5 * (0.5 + call) / (1e-3 + call), 1e-9);
    /* no other op of this type: the rates */
    ck_assert_double_eq_tol(seconds_of(c, "softmax", "k9", 5e9, false), 2.5 + call, 1e-12);
    iso_calibration_destroy(c);
    /* a product within an update is like the product, not like another update that has words in the same places */
    c = read_good(HEAD
                  ", \"ops\": ["
                  "{\"key\": \"update sgd 100 of 2 x conv2d float64[1]\", \"op\": \"matmul\", \"busy\": 1, "
                  "\"flops\": 2e9, \"bytes\": 0, \"seconds\": 9},"
                  "{\"key\": \"matmul tiles float32[32,784] float32[32,256] > float32[784,256] @2\", \"op\": "
                  "\"matmul\", \"busy\": 1, \"flops\": 1e9, \"bytes\": 0, \"seconds\": 0.5}]}");
    ck_assert_double_eq_tol(
        seconds_of(
            c, "matmul",
            "update adam 100 of 2 x matmul tiles float32[64,784] float32[64,256] > float32[784,256] @2", 2e9,
            false),
        0.5 * (1 + call) / (0.5 + call), 1e-9);
    iso_calibration_destroy(c);
}
END_TEST

START_TEST(files_are_read_as_written)
{
    iso_text text = {0};
    iso_calibration *c = read_good(
        HEAD
        ", \"network\": {\"name\": \"n\", \"latency_us\": 25, \"gbit_per_second\": 8, "
        "\"byte_ns\": 2, \"window_bytes\": 4096, \"burst_bytes\": 512, \"core_share\": 0.25, "
        "\"skew_us\": 64}, \"ops\": ["
        "{\"key\": \"k1\", \"op\": \"matmul\", \"busy\": 3, \"flops\": 5, \"bytes\": 6, \"seconds\": 7}]}");
    ck_assert_double_eq_tol(c->network.latency, 25e-6, 1e-12);
    ck_assert_double_eq_tol(c->network.bandwidth, 1e9, 1); /* 8 Gbit/s are 10^9 bytes a second */
    iso_calibration_print(c, &text);
    iso_calibration_destroy(c);
    c = read_good(iso_text_get(&text));
    iso_text_free(&text);
    ck_assert_int_eq(c->n_ops, 1);
    ck_assert_str_eq(c->op[0].type, "matmul");
    ck_assert_int_eq(c->op[0].busy, 3);
    ck_assert_double_eq(c->op[0].seconds, 7);
    ck_assert_double_eq_tol(c->network.bandwidth, 1e9, 1);
    ck_assert_double_eq_tol(c->network.byte, 2e-9, 1e-20);
    ck_assert_double_eq(c->network.window, 4096);
    ck_assert_double_eq(c->network.burst, 512);
    ck_assert_double_eq(c->network.core, 0.25);
    ck_assert_double_eq_tol(c->network.skew, 64e-6, 1e-16);
    iso_calibration_destroy(c);
}
END_TEST

/* ---- wrong files ---- */

START_TEST(wrong_calibrations_are_refused)
{
    static const char *const wrong[][2] = {
        {"", "cal.json, line 1"},
        {"[]", "cal.json: should be an object"},
        {"{}", "cal.json: 'version' should be 1, as this program writes it, and is missing"},
        {"{\"version\": 2}", "and is 2"},
        {"{\"version\": 1}", "cal.json: 'machine' should be an object, and is missing"},
        {"{\"version\": 1, \"machine\": {\"processor\": 7}}",
         "'machine.processor' should be a string that is not empty, and is 7"},
        {"{\"version\": 1, \"machine\": {\"processor\": \"p\", \"backend\": \"b\", \"cores\": 0, \"date\": "
         "\"d\"}}",
         "'machine.cores' should be a whole number from 1 to 1048576, and is 0"},
        {"{\"version\": 1, \"machine\": {\"processor\": \"p\", \"backend\": \"b\", \"cores\": 1, \"date\": "
         "\"d\"},"
         "\"rates\": {\"flops\": -1}}",
         "cal.json: 'rates.flops' should be a number from 1 to 1e+30, and is -1"},
        {"{\"version\": 1, \"machine\": {\"processor\": \"\\u001b[2J\"}}",
         "'machine.processor' should be a string without control characters, and is \"\\u001B[2J\""},
        {HEAD ", \"ops\": [{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 2e30, \"bytes\": 0, "
              "\"seconds\": 1}]}",
         "cal.json: 'ops[0].flops' should be a number from 0 to 1e+30, and is 2e+30"},
        {HEAD ", \"ops\": [{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 1, \"bytes\": 0, "
              "\"seconds\": 1e308}]}",
         "cal.json: 'ops[0].seconds' should be a number from 1e-12 to 1e+09, and is 1e+308"},
        {HEAD ", \"ops\": [{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 1, \"bytes\": 0, "
              "\"seconds\": 0}]}",
         "cal.json: 'ops[0].seconds' should be a number from 1e-12 to 1e+09, and is 0"},
        {HEAD "}", "cal.json: 'ops' should be a list, and is missing"},
        {HEAD ", \"ops\": [3]}", "cal.json: ops[0] should be an object"},
        {HEAD ", \"ops\": [{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 0, \"bytes\": 0, "
              "\"seconds\": "
              "\"1\"}]}",
         "cal.json: 'ops[0].seconds' should be a number from 1e-12 to 1e+09, and is \"1\""},
        {HEAD ", \"ops\": [{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 0, \"bytes\": 0, "
              "\"seconds\": 1},"
              "{\"key\": \"k\", \"op\": \"o\", \"busy\": 1, \"flops\": 0, \"bytes\": 0, \"seconds\": 1}]}",
         "cal.json: 'ops[1].key' should be the key of one op, and is \"k\""},
        {HEAD ", \"network\": {\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 0}, \"ops\": []}",
         "cal.json: 'network.gbit_per_second' should be a number from 1e-09 to 1e+18, and is 0"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        iso_calibration *c = NULL;
        check_refused(iso_calibration_parse("cal.json", wrong[i][0], strlen(wrong[i][0]), &c), wrong[i][1]);
        ck_assert_ptr_null(c);
    }
}
END_TEST

START_TEST(wrong_networks_are_refused)
{
    static const char *const wrong[][2] = {
        {"[]", "net.json: should be an object"},
        {"{\"name\": \"n\", \"latency_us\": 1}",
         "net.json: 'gbit_per_second' should be a number from 1e-09 to 1e+18, and is missing"},
        {"{\"name\": \"n\", \"latency_us\": -1, \"gbit_per_second\": 1}",
         "net.json: 'latency_us' should be a number from 0 to 1e+09, and is -1"},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"window_bytes\": -1}",
         "net.json: 'window_bytes' should be a number from 0 to 1e+30, and is -1"},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"burst_bytes\": -1}",
         "net.json: 'burst_bytes' should be a number from 0 to 1e+30, and is -1"},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"core_share\": 2}",
         "net.json: 'core_share' should be a number from 1e-06 to 1, and is 2"},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"core_share\": 0}",
         "net.json: 'core_share' should be a number from 1e-06 to 1, and is 0"},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"byte_ns\": \"2\"}",
         "net.json: 'byte_ns' should be a number from 0 to 1e+09, and is \"2\""},
        {"{\"name\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1, \"message_us\": null}",
         "net.json: 'message_us' should be a number from 0 to 1e+09, and is null"},
        {"{\"name\": \"n\", \"latency\": 1, \"gbit_per_second\": 1}",
         "net.json: a network has no 'latency'; did you mean 'latency_us'?"},
        {"{\"name\": \"n\", \"latency_us\": 1e308, \"gbit_per_second\": 1}",
         "net.json: 'latency_us' should be a number from 0 to 1e+09, and is 1e+308"},
        {"{\"name\": \"n\\u009b\", \"latency_us\": 1, \"gbit_per_second\": 1}",
         "net.json: 'name' should be a string without control characters, and is \"n??\""},
        {"{\"\\u001b\": \"n\", \"latency_us\": 1, \"gbit_per_second\": 1}",
         "net.json: a network has no member whose name has control characters"},
        {"{\"name\": red", "net.json, line 1, column 12: invalid token near 'red'"},
        {"{\"name\": \033[31mred", "net.json, line 1, column 10: invalid token"},
        {"{\"latency_us\": 1, \"gbit_per_second\": 1}",
         "net.json: 'name' should be a string that is not empty, and is missing"},
        {"{\"name\": \"\", \"latency_us\": 1, \"gbit_per_second\": 1}",
         "net.json: 'name' should be a string that is not empty, and is \"\""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        iso_network network = {0};
        check_refused(iso_network_parse("net.json", wrong[i][0], strlen(wrong[i][0]), &network), wrong[i][1]);
        ck_assert_ptr_null(strchr(iso_error_message(), '\033'));
        ck_assert(!network.known);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("plan time", 0, ops_add_up, work_hides_messages,
                     the_link_takes_one_transfer_after_the_other, the_second_step_counts,
                     messages_take_time_of_the_sender, an_op_lets_a_window_through,
                     bytes_take_time_of_the_slots, a_pause_saves_a_burst, hosts_are_not_in_step_after_work,
                     ops_are_estimated_from_the_nearest, files_are_read_as_written,
                     wrong_calibrations_are_refused, wrong_networks_are_refused);
}
