/* Every learning-rate schedule, one per line: SCHEDULE(name, settings) stands for the descriptor
 * iso_schedule_name, whose name is "name". settings: the form in which a command line gives some. A plain
 * #include declares them all; with SCHEDULE defined, it is the list itself. */
#ifndef SCHEDULE
#include "runtime/graph/schedules/rule.h"
#define SCHEDULE(name, settings) extern const iso_schedule_rule iso_schedule_##name;
#endif
// clang-format off
SCHEDULE(constant, "")
SCHEDULE(exponential, ":decay_steps=1000,decay_rate=0.9,staircase=1")
SCHEDULE(cosine, ":decay_steps=1000,alpha=0.1,warmup_steps=100,warmup_target=0.01")
SCHEDULE(piecewise, ":1000=0.01,2000=0.001")
SCHEDULE(polynomial, ":decay_steps=1000,end_learning_rate=0.001,power=2,cycle=1")
SCHEDULE(inverse_time, ":decay_steps=1000,decay_rate=0.5,staircase=1")
SCHEDULE(cosine_restarts, ":first_decay_steps=1000,t_mul=2,m_mul=0.9,alpha=0.1")
// clang-format on
#undef SCHEDULE
