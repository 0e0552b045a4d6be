/* Slurm's callbacks. Every one returns 0: whatever is wrong here, the job and the node go on without it. */
#include <slurm/spank.h>

#include "contexts.h"

SPANK_PLUGIN(pal, 1)

/* Since 25.05 a plugin can say that its failure must not drain the node. It never fails; this is the second lock. */
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 5, 0)
int slurm_spank_init_failure_mode = ESPANK_JOB_FAILURE;
#endif

int slurm_spank_init(spank_t sp, int ac, char **av)
{
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
	case S_CTX_LOCAL:
		return (pal_submit_init(sp, ac, av));
	case S_CTX_SLURMD:
		return (pal_slurmd_init(sp, ac, av));
	case S_CTX_REMOTE:
		return (pal_slurmstepd_init(sp, ac, av));
	default:
		return (0);
	}
}

int slurm_spank_init_post_opt(spank_t sp, int ac, char **av)
{
	switch (spank_context()) {
	case S_CTX_ALLOCATOR:
	case S_CTX_LOCAL:
		return (pal_submit_post_opt(sp, ac, av));
	default:
		return (0);
	}
}

int slurm_spank_user_init(spank_t sp, int ac, char **av)
{
	switch (spank_context()) {
	case S_CTX_REMOTE:
		return (pal_slurmstepd_user_init(sp, ac, av));
	default:
		return (0);
	}
}
