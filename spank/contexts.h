/* What each SPANK context does; the dispatch chooses among these. */
#ifndef PAL_CONTEXTS_H
#define PAL_CONTEXTS_H

#include <slurm/spank.h>

/* sbatch, salloc, srun */
int pal_submit_init(spank_t sp, int ac, char **av);
int pal_submit_post_opt(spank_t sp, int ac, char **av);

/* slurmd */
int pal_slurmd_init(spank_t sp, int ac, char **av);

/* slurmstepd */
int pal_slurmstepd_init(spank_t sp, int ac, char **av);
int pal_slurmstepd_user_init(spank_t sp, int ac, char **av);

#endif
