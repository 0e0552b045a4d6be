/* Finds the options of sbatch, salloc and srun that a lease would hurt and that job_submit can't see. */
#ifndef PAL_KEEPOFF_H
#define PAL_KEEPOFF_H

#include <stddef.h>

/* words: the command line as /proc/self/cmdline has it (each word ends with NUL). *begin: the number of the word before the
 * first option of this component of the job; set to that of the next one, where there is one. options: how many words from
 * there on getopt took for options and their values, with that first word. Returns a reason, or NULL. */
const char *pal_keepoff_in(const char *words, size_t size, size_t *begin, size_t options);

/* The same for the program that we run in, once for each component; after it has parsed its options. */
const char *pal_keepoff(void);

#endif
