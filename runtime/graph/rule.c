/* Sharding rules: from strings, and of ops. */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "runtime/graph/op.h"

static int factor_of(iso_rule *rule, char letter, char *letters)
{
    for (int f = 0; f < rule->n_factors; f++)
        if (letters[f] == letter)
            return f;
    assert(rule->n_factors < ISO_MAX_FACTORS);
    letters[rule->n_factors] = letter;
    return rule->n_factors++;
}

/* Parses the letters of one operand into its dimensions; returns what follows them. */
static const char *parse_operand(iso_rule *rule, const char *text, int8_t *dims, char *letters)
{
    int d = 0;
    for (; isalpha((unsigned char)*text) || *text == '.'; text++, d++)
        dims[d] = (int8_t)(*text == '.' ? ISO_WHOLE : factor_of(rule, *text, letters));
    return text;
}

static void clear(iso_rule *rule)
{
    *rule = (iso_rule){0};
    memset(rule->input, ISO_WHOLE, sizeof rule->input);
    memset(rule->output, ISO_WHOLE, sizeof rule->output);
}

/* Aligns dimensions from the right, as NumPy broadcasts; a dimension of 1 that was broadcast is whole. */
static void elementwise(const iso_op *op, iso_rule *rule)
{
    const iso_shape *out = &op->outputs[0]->shape;
    rule->n_factors = out->rank;
    for (int o = 0; o < op->n_outputs; o++)
        for (int d = 0; d < out->rank; d++)
            rule->output[o][d] = (int8_t)d;
    for (int i = 0; i < op->n_inputs; i++) {
        const iso_shape *in = &op->inputs[i]->shape;
        int lead = out->rank - in->rank;
        for (int d = 0; d < in->rank; d++)
            rule->input[i][d] = (int8_t)(in->dim[d] == out->dim[d + lead] ? d + lead : ISO_WHOLE);
    }
}

static void einsum(const char *text, iso_rule *rule)
{
    char letters[ISO_MAX_FACTORS];
    const char *at = text;
    int input = 0, output = 0;
    bool after_arrow = false;
    while (*at) {
        int8_t *dims = after_arrow ? rule->output[output++] : rule->input[input++];
        at = parse_operand(rule, at, dims, letters);
        if (*at == ',')
            at++;
        else if (*at == '-' && at[1] == '>') {
            at += 2;
            after_arrow = true;
        } else
            assert(*at == 0);
    }
}

void iso_rule_parse(const iso_op *op, const char *text, iso_rule *rule)
{
    clear(rule);
    if (strncmp(text, "...", 3) == 0)
        elementwise(op, rule);
    else
        einsum(text, rule);
    rule->linear = op->type->linear;
    rule->jointly = op->type->jointly;
    rule->contract_max = op->type->contract_max;
}

void iso_op_rule(const iso_op *op, iso_rule *rule)
{
    if (op->type->rule_of)
        op->type->rule_of(op, rule);
    else
        iso_rule_parse(op, op->type->rule, rule);
}
