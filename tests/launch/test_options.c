/* The command line of `isogrid train`: values, defaults, and a message that names the option and the value
 * for all that is wrong. Ranks: 1
 * Sanitize: 1 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launch/train_impl.h"
#include "tests/support/run_tests.h"

enum { MAX_WORDS = 80 };

/* Parses words separated by spaces ('~' stands for a space within one). */
static iso_status parse(const char *line, iso_train_options *options)
{
    static char text[4096];
    char *argv[MAX_WORDS + 1] = {(char *)"train"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            *c = *c == '~' ? ' ' : *c;
        ck_assert_int_lt(argc, MAX_WORDS);
        argv[argc++] = word;
    }
    return iso_train_options_parse(argc, argv, options);
}

START_TEST(test_defaults)
{
    iso_train_options options;
    ck_assert_int_eq(parse("", &options), ISO_OK);
    ck_assert_int_eq(options.batch_size, 32);
    ck_assert_int_eq(options.epochs, 1);
    ck_assert_int_eq(options.seed, 1337);
    ck_assert_int_eq(options.shuffle_rows, 0);
    ck_assert_ptr_null(options.precision);
    ck_assert_ptr_null(options.mesh);
    ck_assert(options.learning_rate < 0 && !options.drop_remainder);
}
END_TEST

START_TEST(test_values)
{
    iso_train_options options;
    ck_assert_int_eq(
        parse("--model convnet --batch-size=64 --learning-rate 2.5e-3 --drop-remainder --shuffle 100 "
              "--layout a/kernel=-,~model --layout b=model --mesh=data=4,model=2 --precision float64",
              &options),
        ISO_OK);
    ck_assert_str_eq(options.model, "convnet");
    ck_assert_int_eq(options.batch_size, 64);
    ck_assert_double_eq(options.learning_rate, 2.5e-3);
    ck_assert(options.drop_remainder);
    ck_assert_int_eq(options.shuffle_rows, 100);
    ck_assert_int_eq(options.layouts.count, 2);
    ck_assert_str_eq(options.mesh, "data=4,model=2");
    ck_assert_str_eq(options.precision, "float64");
}
END_TEST

START_TEST(test_last_value_counts)
{
    iso_train_options options;
    ck_assert_int_eq(parse("--batch-size 8 --mesh data=2 --batch-size=16", &options), ISO_OK);
    ck_assert_int_eq(options.batch_size, 16);
}
END_TEST

START_TEST(test_layout_is_split_at_its_last_equals_sign)
{
    char key[16];
    const char *layout;
    ck_assert_int_eq(iso_layout_option_split("d(?=1)/k=-, model", key, sizeof key, &layout), ISO_OK);
    ck_assert_str_eq(key, "d(?=1)/k");
    ck_assert_str_eq(layout, "-, model");
}
END_TEST

/* Zeros that are given are wishes; what is not given stays to the callbacks' own defaults. */
START_TEST(test_callbacks)
{
    iso_train_options options;
    ck_assert_int_eq(parse("--early-stopping monitor=val_accuracy,patience=3,baseline=0,mode=max "
                           "--reduce-lr-on-plateau patience=0,factor=0.5 --tensorboard t "
                           "--tensorboard-options update_freq=7,write_steps_per_second=1",
                           &options),
                     ISO_OK);
    const iso_run_callback_options *w = &options.callback_options;
    ck_assert_str_eq(w->stopping_monitor, "val_accuracy");
    ck_assert_int_eq(w->stopping.patience, 3);
    ck_assert(w->stopping.baseline == ISO_ZERO && w->stopping.mode == ISO_MODE_MAX);
    ck_assert(w->stopping.min_delta == 0 && !w->stopping.restore_best_weights);
    ck_assert_str_eq(w->plateau_monitor, "");
    ck_assert_int_eq(w->plateau.patience, ISO_ZERO);
    ck_assert(w->plateau.factor == 0.5 && w->plateau.min_delta == 0);
    ck_assert_int_eq(w->tensorboard.update_freq, 7);
    ck_assert(w->tensorboard.write_steps_per_second && !w->tensorboard.histogram_freq);
}
END_TEST

START_TEST(test_schedules)
{
    iso_schedule schedule;
    ck_assert_int_eq(iso_schedule_parse("exponential:decay_steps=10,decay_rate=0.5,staircase=1", &schedule),
                     ISO_OK);
    ck_assert_int_eq(schedule.kind, ISO_SCHEDULE_EXPONENTIAL);
    ck_assert_int_eq(schedule.decay_steps, 10);
    ck_assert_double_eq(schedule.rate, 0.5);
    ck_assert(schedule.staircase);
    ck_assert_int_eq(iso_schedule_parse("cosine:decay_steps=7,warmup_steps=3,warmup_target=0.1", &schedule),
                     ISO_OK);
    ck_assert_int_eq(schedule.warmup_steps, 3);
    ck_assert_double_eq(schedule.warmup_target, 0.1);
    ck_assert_int_eq(iso_schedule_parse("piecewise:10=0.5,20=0.25", &schedule), ISO_OK);
    ck_assert_int_eq(schedule.n_boundaries, 2);
    ck_assert_int_eq(schedule.boundaries[1], 20);
    ck_assert_double_eq(schedule.value[2], 0.25);
    ck_assert_int_eq(iso_schedule_parse("polynomial:decay_steps=9,cycle=1", &schedule), ISO_OK);
    ck_assert(schedule.cycle && schedule.end == 1e-4 && schedule.power == 1);
    ck_assert_int_eq(iso_schedule_parse("cosine_restarts:first_decay_steps=9,m_mul=0.5", &schedule), ISO_OK);
    ck_assert(schedule.decay_steps == 9 && schedule.m_mul == 0.5 && schedule.t_mul == 2);
    ck_assert_int_eq(iso_schedule_parse("constant", &schedule), ISO_OK);
    ck_assert_int_eq(schedule.kind, ISO_SCHEDULE_CONSTANT);
}
END_TEST

static void check_loss_refused(const char *text, const char *message)
{
    iso_output_options output = {0};
    ck_assert_int_eq(iso_loss_parse(text, &output), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), message), "%s: '%s'", text, iso_error_message());
}

START_TEST(test_loss)
{
    iso_output_options output = {.huber_delta = 3};
    ck_assert_int_eq(iso_loss_parse("tversky(alpha=0,beta=0.75,axis=1+2)", &output), ISO_OK);
    ck_assert(output.loss == ISO_LOSS_TVERSKY && output.loss_alpha == ISO_ZERO && output.loss_beta == 0.75);
    ck_assert(output.loss_axes == 6 && output.huber_delta == 0);
    ck_assert_int_eq(iso_loss_parse("mean_squared_logarithmic_error", &output), ISO_OK);
    ck_assert(output.loss == ISO_LOSS_MSLE && output.loss_axes == 0);
    check_loss_refused("hubr", "--loss 'hubr': unknown loss 'hubr'; did you mean 'huber'?");
    check_loss_refused("mse,mae", "unknown loss 'mse,mae'");
    check_loss_refused("huber(delta=1", "should be huber(name=value,...)");
    check_loss_refused("huber(size=1)", "huber has no setting 'size'; there are: delta");
    check_loss_refused("huber(delta=x)", "delta of huber 'x'");
}
END_TEST

START_TEST(test_class_weight)
{
    iso_train_options options = iso_train_options_default();
    const char *wrong[] = {"", "1", "a=1", "-1=2", "0=-1", "0=1,0=2", "1024=1", "1=x"};
    ck_assert_int_eq(iso_class_weights_parse("3=0.5,0=2", options.class_weights, &options.n_class_weights),
                     ISO_OK);
    ck_assert_int_eq(options.n_class_weights, 4);
    ck_assert(options.class_weights[0] == 2 && options.class_weights[1] == 1 &&
              options.class_weights[3] == 0.5);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(iso_class_weights_parse(wrong[i], options.class_weights, &options.n_class_weights),
                         ISO_INVALID);
        ck_assert_ptr_nonnull(strstr(iso_error_message(), "--class-weight"));
    }
}
END_TEST

/* The metric of a model becomes the one that fits the targets of another loss. */
START_TEST(test_metrics_follow_the_loss)
{
    static const struct {
        iso_metric own, fitted;
        const char *loss;
    } cases[] = {{ISO_METRIC_BINARY_ACCURACY, ISO_METRIC_ACCURACY, "sparse_crossentropy_logits"},
                 {ISO_METRIC_MAE, ISO_METRIC_ACCURACY, "sparse_crossentropy"},
                 {ISO_METRIC_ACCURACY, ISO_METRIC_ACCURACY, "sparse_crossentropy_logits"},
                 {ISO_METRIC_BINARY_ACCURACY, ISO_METRIC_BINARY_ACCURACY, "binary_focal_crossentropy_logits"},
                 {ISO_METRIC_ACCURACY, ISO_METRIC_NONE, "mse"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        iso_train_options options = iso_train_options_default();
        iso_compile_options compile = {.optimizer = iso_sgd(0.1),
                                       .metrics = {cases[i].own, ISO_METRIC_TOP_K}};
        const bool same = cases[i].own == cases[i].fitted;
        const int next = cases[i].fitted != ISO_METRIC_NONE;
        compile.metric_settings[0].threshold = ISO_ZERO;
        compile.metric_settings[1].top_k = 3;
        options.loss = cases[i].loss;
        ck_assert_int_eq(iso_compile_options_replace(&options, &compile), ISO_OK);
        if (next)
            ck_assert(compile.metrics[0] == cases[i].fitted &&
                      compile.metric_settings[0].threshold == (same ? ISO_ZERO : 0));
        ck_assert(compile.metrics[next] == ISO_METRIC_TOP_K && compile.metric_settings[next].top_k == 3);
        ck_assert(compile.metrics[next + 1] == ISO_METRIC_NONE);
    }
}
END_TEST

/* One that becomes the model's own accuracy is not added to it. */
START_TEST(test_an_accuracy_is_kept_once)
{
    for (int first = 0; first < 2; first++) {
        iso_train_options options = iso_train_options_default();
        iso_compile_options compile = {.optimizer = iso_sgd(0.1)};
        options.loss = "sparse_crossentropy_logits";
        compile.metrics[first] = ISO_METRIC_ACCURACY;
        compile.metric_names[first] = "mine";
        compile.metrics[!first] = ISO_METRIC_BINARY_ACCURACY;
        compile.metrics[2] = ISO_METRIC_TOP_K;
        ck_assert_int_eq(iso_compile_options_replace(&options, &compile), ISO_OK);
        ck_assert(compile.metrics[0] == ISO_METRIC_ACCURACY && compile.metrics[1] == ISO_METRIC_TOP_K);
        ck_assert_str_eq(compile.metric_names[0], "mine");
        ck_assert(compile.metrics[2] == ISO_METRIC_NONE);
    }
}
END_TEST

static void check_metrics_refused(const char *text, const char *message)
{
    iso_metric metrics[ISO_MAX_METRICS] = {0};
    const char *names[ISO_MAX_METRICS];
    iso_metric_settings settings[ISO_MAX_METRICS] = {{0}};
    ck_assert_int_eq(iso_metrics_parse(text, metrics, names, settings), ISO_INVALID);
    ck_assert_msg(strstr(iso_error_message(), message), "%s: '%s'", text, iso_error_message());
}

START_TEST(test_metrics)
{
    iso_metric metrics[ISO_MAX_METRICS] = {0};
    const char *names[ISO_MAX_METRICS];
    iso_metric_settings settings[ISO_MAX_METRICS] = {{0}};
    const char *text = "accuracy,top_k(k=3),auc(curve=PR,num_thresholds=9,from_logits=true),"
                       "iou(num_classes=4,target_class_ids=0+2,sparse_y_true=0),binary_accuracy(threshold=0)";
    ck_assert_int_eq(iso_metrics_parse(text, metrics, names, settings), ISO_OK);
    ck_assert(metrics[0] == ISO_METRIC_ACCURACY && metrics[1] == ISO_METRIC_TOP_K);
    ck_assert_int_eq(metrics[5], ISO_METRIC_NONE);
    ck_assert_str_eq(names[1], "top_k");
    ck_assert_int_eq(settings[1].top_k, 3);
    ck_assert(settings[2].curve == 1 && settings[2].num_thresholds == 9 && settings[2].from_logits);
    ck_assert(settings[3].num_classes == 4 && settings[3].target_classes == 5 && settings[3].dense_y_true);
    ck_assert(settings[4].threshold == ISO_ZERO);
    check_metrics_refused("top_k(k=3", "should be top_k(name=value,...)");
    check_metrics_refused("top_k(k=3)mse", "should be top_k(name=value,...)");
    check_metrics_refused("top_k(k=0)", "k of top_k '0'");
    check_metrics_refused("top_k(n=3)", "top_k has no setting 'n'; there are: k");
    check_metrics_refused("mse(k=3)", "mse has no setting 'k'");
    check_metrics_refused("auc(curve=pr)", "must be one of ROC, PR");
    check_metrics_refused("f1_score(average=none)", "average of f1_score 'none': it must be one of ");
    check_metrics_refused("precision(thresholds=0.5+0.7)", "thresholds of precision '0.5+0.7'");
    check_metrics_refused("iou(target_class_ids=1+53)", "target_class_ids of iou '53'");
    check_metrics_refused("mse,mse,mse,mse,mse,mse,mse,mse,top_k(k=3)", "9 metrics, at most 8");
}
END_TEST

/* What is wrong, and what its message must hold. */
static const struct wrong {
    const char *line, *first, *second;
} wrong[] = {
    {"--epoch 3", "'--epoch'", "did you mean '--epochs'"},
    {"--batchsize=64", "'--batchsize=64'", "did you mean '--batch-size'?"},
    {"-e 3", "'-e'", "unknown option"},
    {"--epochs", "'--epochs'", "needs a value"},
    {"--drop-remainder=yes", "'--drop-remainder=yes'", "takes no value"},
    {"--epochs 0", "--epochs '0'", "at least 1"},
    {"--epochs -3", "--epochs '-3'", "at least 1"},
    {"--epochs 3x", "--epochs '3x'", "not a whole number"},
    {"--epochs 99999999999999999999999", "--epochs '9999", "at most 2147483647"},
    {"--batch-size 99999999999999", "--batch-size '99999999999999'", "must be at most 1099511627776"},
    {"--learning-rate 1e10", "--learning-rate '1e10'", "between 0 and 1000000000"},
    {"--model=", "--model", "empty"},
    {"--optimizer adan", "--optimizer 'adan'", "adam"},
    {"--precision bfloat17", "--precision 'bfloat17'", "it must be float32, float64 or mixed_bfloat16"},
    {"--backend=", "--backend", "empty"},
    {"--timeout soon", "--timeout 'soon'", "from 1 to 1000000"},
    {"--roles worker", "'--roles'", "unknown option"},
    {"--collectives ring", "--collectives 'ring'", "auto, mpi or nccl"},
    {"--zero 4", "--zero '4'", "1 and 3"},
    {"--learning-rate fast", "--learning-rate 'fast'", "not a number"},
    {"--learning-rate nan", "--learning-rate 'nan'", "not a number"},
    {"--learning-rate inf", "--learning-rate 'inf'", "between 0 and 1000000000"},
    {"--learning-rate -1", "--learning-rate '-1'", "between 0 and"},
    {"--validation-split 1", "--validation-split '1'", "between 0 and 0.999999"},
    {"--shuffle some", "--shuffle 'some'", "all, none or"},
    {"--save-freq often", "--save-freq 'often'", "epoch or"},
    {"--save-freq 5", "--save-freq needs", "--checkpoint or --backup"},
    {"--checkpoint-io direct", "--checkpoint-io needs", "--checkpoint or --backup"},
    {"--checkpoint-errors stop --csv t.csv", "--checkpoint-errors needs", "--checkpoint or --backup"},
    {"--resume never", "--resume never needs", "--checkpoint or --backup"},
    {"--shuffle 0", "--shuffle '0'", "at least 1"},
    {"--clip-norm 1 --clip-value 2", "--clip-norm", "--clip-value"},
    {"--validation-rows 5 --validation-data test", "--validation-data", "--validation-rows"},
    {"--layout d1/kernel", "--layout 'd1/kernel'", "KEY=LAYOUT"},
    {"--layout =model", "--layout '=model'", "KEY=LAYOUT"},
    {"--schedule expo:decay_steps=3", "'expo:decay_steps=3'", "exponential"},
    {"--schedule exponential:decay_steps=3", "exponential", "needs decay_rate"},
    {"--schedule exponential:decay_step=3", "'decay_step'", "decay_steps"},
    {"--schedule cosine", "'cosine'", "needs decay_steps"},
    {"--schedule piecewise:", "'piecewise:'", "boundary"},
    {"--schedule piecewise:20=1,10=2", "--schedule 'piecewise:20=1,10=2'", "boundary 10 follows 20"},
    {"--schedule piecewise:x=1", "'x'", "not a whole number"},
    {"convnet", "'convnet'", "unexpected argument"},
    {"--tensorbored logs", "'--tensorbored'", "unknown option"},
    {"--early-stopping patience", "'patience'", "name=value"},
    {"--early-stopping patients=3", "'patients'", "patience"},
    {"--early-stopping patience=x", "early-stopping: patience 'x'", "not a whole number"},
    {"--early-stopping mode=up", "mode is 'up'", "auto, min or max"},
    {"--early-stopping monitor=", "monitor", "is empty"},
    {"--early-stopping patience=1,patience=2", "early-stopping: patience", "given twice"},
    {"--reduce-lr-on-plateau factor=1.5", "factor is 1.5", "below 1"},
    {"--reduce-lr-on-plateau mode=down", "mode is 'down'", "auto, min or max"},
    {"--tensorboard d --tensorboard-options histograms=1", "'histograms'", "histogram_freq"},
    {"--tensorboard-options update_freq=1", "--tensorboard-options", "needs --tensorboard"},
    {"--profile-step 3", "--profile-step", "needs --profile"},
    {"--profile p --profile-step 0", "--profile-step '0'", "1"},
    {"--verbose 3", "--verbose '3'", "0, 1 or 2"},
    {"--seed 18446744073709551616", "--seed '18446744073709551616'", "to 18446744073709551615"},
    {"--threads 4097", "--threads '4097'", "1 to 4096"},
};

START_TEST(test_wrong)
{
    const struct wrong *row = &wrong[_i];
    iso_train_options options = {.epochs = 77};
    ck_assert_int_eq(parse(row->line, &options), ISO_INVALID);
    ck_assert_int_eq(options.epochs, 77);
    const char *message = iso_error_message();
    ck_assert_msg(strstr(message, row->first) && strstr(message, row->second), "%s: '%s'", row->line,
                  message);
}
END_TEST

START_TEST(test_help_names_every_option)
{
    iso_text text = {0};
    iso_train_options_help(&text);
    ck_assert_ptr_nonnull(strstr(iso_text_get(&text), "--strict-layouts\n"));
    ck_assert_ptr_nonnull(strstr(iso_text_get(&text), "one of: sgd, rmsprop"));
    /* lists without a space are broken behind commas */
    ck_assert_ptr_nonnull(strstr(iso_text_get(&text), "        monitor=val_loss,patience=3,"));
    iso_text_free(&text);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("options");
    tcase_add_test(cases, test_defaults);
    tcase_add_test(cases, test_values);
    tcase_add_test(cases, test_last_value_counts);
    tcase_add_test(cases, test_layout_is_split_at_its_last_equals_sign);
    tcase_add_test(cases, test_callbacks);
    tcase_add_test(cases, test_schedules);
    tcase_add_test(cases, test_loss);
    tcase_add_test(cases, test_class_weight);
    tcase_add_test(cases, test_metrics_follow_the_loss);
    tcase_add_test(cases, test_an_accuracy_is_kept_once);
    tcase_add_test(cases, test_metrics);
    tcase_add_loop_test(cases, test_wrong, 0, (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(cases, test_help_names_every_option);
    Suite *suite = suite_create("options");
    suite_add_tcase(suite, cases);
    return run_suite(suite);
}
