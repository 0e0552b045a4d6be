/* In sbatch, salloc and srun: the option, and what job_submit.lua must know but can't see. Slurm itself carries the
 * option's value to job_submit and to the nodes. */
#include <stdlib.h>

#include "args.h"
#include "contexts.h"
#include "keepoff.h"
#include "log.h"

int pal_submit_init(spank_t sp, int ac, char **av)
{
	(void)ac;
	(void)av;
	pal_args_register(sp);
	return (0);
}

int pal_submit_post_opt(spank_t sp, int ac, char **av)
{
	const char *reason = pal_keepoff();

	(void)ac;
	(void)av;
	if (reason != NULL && spank_job_control_setenv(sp, "PAL_KEEP_OFF", reason, 1) != ESPANK_SUCCESS)
		pal_verbose("can't tell the controller about --%s", reason);

	/* For the shell of salloc, which no slurmstepd starts. */
	if (pal_args_app() != NULL && setenv("PAL_APP", pal_args_app(), 1) != 0)
		pal_verbose("can't set PAL_APP");
	return (0);
}
