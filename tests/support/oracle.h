/* The files of tests/keras with results of Keras. A case is a group with attributes. */
#ifndef TESTS_SUPPORT_ORACLE_H
#define TESTS_SUPPORT_ORACLE_H

#include "runtime/base/types.h"

typedef struct oracle oracle;

/* "layers.h5". Ends the program if it cannot be read. */
oracle *oracle_open(const char *name);
void oracle_close(oracle *file);
int oracle_cases(const oracle *file);
const char *oracle_case(const oracle *file, int index);
/* A dataset as doubles, NULL if the case has none; shape may be NULL. Belongs to the file. */
double *oracle_data(oracle *file, const char *name, const char *dataset, iso_shape *shape);
/* Whether a dataset, which must be there, holds integers. */
bool oracle_is_integer(const oracle *file, const char *name, const char *dataset);
/* Numbers of an attribute: how many there are (0: absent). */
int oracle_numbers(const oracle *file, const char *name, const char *attribute, double *values, int capacity);
/* The shape of an attribute; false: it is absent. */
bool oracle_attribute_shape(const oracle *file, const char *name, const char *attribute, iso_shape *shape);
double oracle_number(const oracle *file, const char *name, const char *attribute, double usual);
/* NULL if it is absent. Belongs to the file. */
const char *oracle_text(oracle *file, const char *name, const char *attribute);
int64_t oracle_elements(const iso_shape *shape);
/* Element i of variable v of the weights that both sides begin with: the formula of tests/keras/README.md. */
double oracle_weight(uint32_t v, uint32_t i, double limit);

#endif
