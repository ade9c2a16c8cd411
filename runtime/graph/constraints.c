#include "runtime/graph/constraints.h"

#include <string.h>

static const iso_setting max_norm[] = {ISO_SETTING(iso_weight_constraint, REAL, max_value, 2), {0}};
static const iso_setting min_max_norm[] = {
    ISO_SETTING(iso_weight_constraint, REAL, min_value, 0),
    ISO_SETTING(iso_weight_constraint, REAL, max_value, 1),
    ISO_SETTING(iso_weight_constraint, REAL, rate, 1),
    {0},
};

static const iso_constraint_type types[] = {
    {.row = {"max_norm", "MaxNorm", max_norm}, .norm = true},
    {.row = {"non_neg", "NonNeg", NULL}},
    {.row = {"unit_norm", "UnitNorm", NULL}, .norm = true},
    {.row = {"min_max_norm", "MinMaxNorm", min_max_norm}, .norm = true},
};
enum { TYPES = sizeof types / sizeof *types };

const iso_descriptor *const iso_constraints[] = {&types[0].row, &types[1].row, &types[2].row, &types[3].row,
                                                 NULL};

const iso_constraint_type *iso_constraint_type_of(iso_constraint_kind kind)
{
    int number = (int)kind - (int)ISO_CONSTRAINT_MAX_NORM;
    return number >= 0 && number < TYPES ? &types[number] : NULL;
}

bool iso_constraint_find(const char *name, iso_constraint_kind *kind)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].row.name, name) == 0 || strcmp(types[i].row.keras, name) == 0) {
            *kind = (iso_constraint_kind)(ISO_CONSTRAINT_MAX_NORM + i);
            return true;
        }
    return false;
}
