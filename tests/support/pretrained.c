#include "tests/support/pretrained.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/once.h"
#include "tests/support/oracle.h"

void pretrained_write_tokens(const char *path)
{
    uint32_t state = 1;
    FILE *out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < ROWS * CONTEXT + 1; i++) {
        state = (state * 1103515245u + 12345u) & 0x7fffffffu;
        uint8_t token[2] = {(uint8_t)((state >> 8) % VOCABULARY), 0};
        fwrite(token, 1, sizeof token, out);
    }
    ck_assert_int_eq(fclose(out), 0);
}

iso_dataset *pretrained_open_tokens(iso_context *ctx, const char *path)
{
    iso_dataset *data = NULL;
    check_ok(iso_dataset_open(ctx, path, ISO_TRAIN, &data, .context = CONTEXT));
    check_ok(iso_dataset_batch(data, BATCH));
    return data;
}

/* ---- what is expected ---- */

pretrained_expected pretrained_read_expected(const char *file, const char *network)
{
    char name[60];
    pretrained_expected e;
    FILE *in = fopen(file, "r");
    ck_assert_ptr_nonnull(in);
    do {
        ck_assert_int_eq(fscanf(in, "%59s %lf %lf", name, &e.before.squares, &e.before.products), 3);
        ck_assert_int_eq(fscanf(in, "%lf %lf", &e.after.squares, &e.after.products), 2);
        for (int i = 0; i < STEPS; i++)
            ck_assert_int_eq(fscanf(in, "%lf", &e.loss[i]), 1);
    } while (strcmp(name, network) != 0);
    fclose(in);
    return e;
}

void pretrained_check_digest(const char *what, const digest *e, const double *logits)
{
    digest d = {0, 0};
    for (int64_t i = 0; i < (int64_t)BATCH * CONTEXT * VOCABULARY; i++) {
        d.squares += logits[i] * logits[i];
        d.products += logits[i] * oracle_weight(100, (uint32_t)i, 1);
    }
    ck_assert_msg(fabs(d.squares - e->squares) <= 1e-7 * e->squares &&
                      fabs(d.products - e->products) <= 1e-6 * sqrt(e->squares),
                  "%s: %.12g, %.12g; expected %.12g, %.12g", what, d.squares, d.products, e->squares,
                  e->products);
}

void pretrained_check_logits(const char *what, const digest *e, iso_model *model, iso_context *ctx,
                             const char *tokens)
{
    iso_dataset *data = pretrained_open_tokens(ctx, tokens);
    double *logits = calloc((size_t)ROWS * CONTEXT * VOCABULARY, sizeof *logits);
    check_ok(iso_predict(model, data, .outputs = {logits}, .verbose = ISO_ZERO));
    pretrained_check_digest(what, e, logits);
    free(logits);
    iso_dataset_destroy(data);
}

iso_status pretrained_note_loss(void *user, iso_fit_state *state)
{
    curve *c = user;
    ck_assert_int_lt(c->count, STEPS);
    c->loss[c->count] = iso_logs_get(&state->logs, "loss") * (c->count + 1) - c->sum;
    c->sum += c->loss[c->count++];
    return ISO_OK;
}

/* ---- where it is computed ---- */

const pretrained_setting pretrained_settings[SETTINGS] = {
    {"data=4", false, 1}, {"data=2,model=2", true, 1}, {"data=1,model=5", true, 1}, {"data=5", false, 3}};

job pretrained_begin_job(iso_context *ctx, const pretrained_setting *setting, const char *layouts)
{
    job j = {0};
    check_ok(iso_mesh_create(ctx, setting->mesh, &j.mesh));
    check_ok(iso_layout_map_create(j.mesh, &j.map));
    iso_layout_map_set_strict(j.map, true);
    if (setting->layouts)
        check_ok(iso_layout_map_read(j.map, layouts));
    check_ok(iso_model_parallel_create(j.map, &j.distribution));
    check_ok(iso_distribution_set_zero(j.distribution, setting->zero));
    return j;
}

void pretrained_end_job(job *j)
{
    iso_model_destroy(j->model);
    iso_distribution_destroy(j->distribution);
    iso_layout_map_destroy(j->map);
    iso_mesh_destroy(j->mesh);
}
