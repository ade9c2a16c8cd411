/* Every learning-rate schedule, one per line. SCHEDULE(name, NAME, settings) is the schedule "name", with its value
 * ISO_SCHEDULE_NAME of the enum iso_schedule_kind. settings: the form in which a command line gives some. The rows
 * are in the files of this folder. If the macro is not defined, it skips its lines. */
#ifndef SCHEDULE
#define SCHEDULE(name, NAME, settings)
#endif
// clang-format off
SCHEDULE(constant, CONSTANT, "")
SCHEDULE(exponential, EXPONENTIAL, ":decay_steps=1000,decay_rate=0.9,staircase=1")
SCHEDULE(cosine, COSINE, ":decay_steps=1000,alpha=0.1,warmup_steps=100,warmup_target=0.01")
SCHEDULE(piecewise, PIECEWISE, ":1000=0.01,2000=0.001")
SCHEDULE(polynomial, POLYNOMIAL, ":decay_steps=1000,end_learning_rate=0.001,power=2,cycle=1")
SCHEDULE(inverse_time, INVERSE_TIME, ":decay_steps=1000,decay_rate=0.5,staircase=1")
SCHEDULE(cosine_restarts, COSINE_RESTARTS, ":first_decay_steps=1000,t_mul=2,m_mul=0.9,alpha=0.1")
// clang-format on
#undef SCHEDULE
