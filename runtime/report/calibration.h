/* The measurements of `isogrid calibrate` on a machine, and the network that connects such machines. Both are JSON
 * files, which docs/plan.md describes. Functions are local unless their comment says otherwise. */
#ifndef ISO_REPORT_CALIBRATION_H
#define ISO_REPORT_CALIBRATION_H

#include "runtime/base/table.h"
#include "runtime/base/text.h"
#include "runtime/base/types.h"

enum {
    ISO_CALIBRATION_VERSION = 1,
    ISO_CALIBRATION_TEXT = 160,
    ISO_KEY_WORDS = 64 /* that are compared; the longest keys, of several products, have more */
};

/* The words and extents of a key, without their order. */
typedef struct iso_key_words {
    int count;
    uint32_t word[ISO_KEY_WORDS]; /* hashes, in increasing order */
} iso_key_words;

/* The time of one op of a slot: a kernel on parts of known shapes, a copy, an update. */
typedef struct iso_calibrated_op {
    char *key;           /* tells ops apart: plan_ops.h makes it */
    char *type;          /* the op's type, "copy", "read", "update" */
    int busy;            /* threads of the host that worked at the same time */
    double flops, bytes; /* operations, and bytes of all inputs and outputs */
    double seconds;
    iso_key_words words; /* of the key, made by iso_calibration_put */
} iso_calibrated_op;

typedef struct iso_machine_rates {
    double flops;     /* operations of float32 products in a second, of one core while all work */
    double bytes_one; /* bytes that a core reads and writes in a second (triad) if it works alone */
    double bytes_all; /* the same of all cores together */
    double barrier;   /* seconds of a barrier of a host's threads */
    double pull;      /* bytes that a slot takes from another one of its host in a second */
} iso_machine_rates;

/* After so many seconds of computation, hosts are as far out of step as they get. Of a core: where hosts share one, a
 * slot takes longer. */
#define ISO_SKEW_SECONDS 3e-3

/* The network between hosts. A message of n bytes takes `message` of the sender's time, then n / bandwidth on the
 * link of the host, and arrives `latency` later (LogGP: Alexandrov et al., SPAA 1995). Messages move on when slots
 * call MPI, which they do between two ops: during an op the link carries at most `window` bytes. Each byte takes
 * `byte` of the slots' time, of the cores that they compute on. A link that was free may carry `burst` bytes at once
 * (a token bucket). Hosts that are simulated on one machine share its cores. Hosts that compute do not stay in step:
 * a message arrives `skew` later if the slots have computed for ISO_SKEW_SECONDS since they last waited for each
 * other, a part of it later if for less. */
typedef struct iso_network {
    bool known;
    char name[ISO_CALIBRATION_TEXT];
    double latency;   /* seconds */
    double bandwidth; /* bytes a second of each host, in each direction */
    double message;   /* seconds */
    double byte;      /* seconds of a slot for each byte that a host receives while it computes */
    double window;    /* bytes; 0: without a limit */
    double burst; /* bytes that a link may carry at once after a pause in which it could have carried them */
    double core;  /* the part of a core that a slot has while all hosts compute; 0: a whole one */
    double skew;  /* seconds */
} iso_network;

typedef struct iso_calibration {
    char processor[ISO_CALIBRATION_TEXT], backend[ISO_CALIBRATION_TEXT], date[ISO_CALIBRATION_TEXT];
    char build
        [ISO_CALIBRATION_TEXT]; /* of Isogrid, as iso_calibration_name_build; "": an earlier one, which did not say */
    int cores;                  /* threads that the slots of a host share */
    iso_machine_rates rates;
    iso_network network; /* between the hosts that it was measured on, if these were several */
    int n_ops;
    iso_calibrated_op *op;
    iso_table by_key;
} iso_calibration;

/* Reads the text of a calibration file. ISO_INVALID names the file, the member and its value. The caller frees it. */
iso_status iso_calibration_parse(const char *file, const char *text, size_t size,
                                 iso_calibration **calibration);
/* The same for a network file. */
iso_status iso_network_parse(const char *file, const char *text, size_t size, iso_network *network);
/* Empty, without any rates. NULL: no memory. */
iso_calibration *iso_calibration_create(void);
void iso_calibration_destroy(iso_calibration *calibration);
/* "0.1.0 (build 4b1240d47977f107)": this program's. */
void iso_calibration_name_build(char text[ISO_CALIBRATION_TEXT]);
/* The build that measured, for messages: "an earlier one" if it is not known. Lent. */
const char *iso_calibration_measured_by(const iso_calibration *calibration);
/* Adds a measured op, in place of an earlier one of the same key. The texts are copied. */
iso_status iso_calibration_put(iso_calibration *calibration, const iso_calibrated_op *op);
/* NULL: there is none. */
const iso_calibrated_op *iso_calibration_find(const iso_calibration *calibration, const char *key);
void iso_key_words_find(const char *key, iso_key_words *words);
/* How many words one key has and the other has not; an extent that differs counts twice. */
int iso_key_words_differ(const iso_key_words *a, const iso_key_words *b);
/* The text of the file. */
void iso_calibration_print(const iso_calibration *calibration, iso_text *text);

#endif
