/* What a program of the tests may ask of the injector (tests/faults/injector) that LD_PRELOAD has put before
 * it. Without the injector the functions are NULL. */
#ifndef ISO_TESTS_FAULTS_FAULTS_H
#define ISO_TESTS_FAULTS_FAULTS_H

#define FAULTS_OPTIONAL __attribute__((weak, visibility("default")))

/* Arms a fault in this process: what FAULTS says (see injector.h), "" disarms. Calls are counted from here.
 */
FAULTS_OPTIONAL void faults_arm(const char *spec);
/* Calls since it was armed. */
FAULTS_OPTIONAL long faults_calls(void);
/* The call that was last hit since then, as in the log: "pwrite DIR/x 4096"; NULL: none was. Lent. */
FAULTS_OPTIONAL const char *faults_hit(void);
/* A line of the program's own in the log, in the order of things: "3 note step 17" for rank 3. */
FAULTS_OPTIONAL void faults_note(const char *text);

#endif
