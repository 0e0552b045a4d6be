/* Finds the options of sbatch, salloc and srun that a lease would hurt and that job_submit can't see. */
#ifndef PAL_KEEPOFF_H
#define PAL_KEEPOFF_H

#include <stddef.h>

/* words: the command line as /proc/self/cmdline has it (each word ends with NUL). Returns a reason, or NULL. */
const char *pal_keepoff_in(const char *words, size_t size);

/* The same for the program that we run in. */
const char *pal_keepoff(void);

#endif
