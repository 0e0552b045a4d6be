/* The options that this plugin adds to sbatch, srun and salloc. */
#ifndef PAL_ARGS_H
#define PAL_ARGS_H

#include <slurm/spank.h>

/* Makes Slurm know the options; must be called in slurm_spank_init of every context that sees them. */
void pal_args_register(spank_t sp);

/* The application that was named, or NULL. */
const char *pal_args_app(void);

/* The options' callbacks, as Slurm calls them. */
int pal_args_set_app(int val, const char *optarg, int remote);
int pal_args_set_move(int val, const char *optarg, int remote);
int pal_args_set_word(int val, const char *optarg, int remote);

#endif
