/* Submits batch jobs one after the other. In: a line per job, "GPUS MINUTES COMMENT". Out: a line per job, its id
 * and the microseconds from the question to slurmctld's answer. By libslurm itself: an sbatch takes many times as long to
 * start as slurmctld does to take its job.
 */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define JOB_ID(answer) (answer)->step_id.job_id
#else
#define JOB_ID(answer) (answer)->job_id
#endif

static double now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1e6 + at.tv_nsec / 1e3;
}

int main(void)
{
	char *environment[] = { "PATH=/bin", NULL };
	char comment[256], gres[32];
	int gpus, minutes;

	slurm_init(NULL);
	while (scanf("%d %d %255s", &gpus, &minutes, comment) == 3) {
		job_desc_msg_t job;
		submit_response_msg_t *answer = NULL;

		slurm_init_job_desc_msg(&job);
		snprintf(gres, sizeof(gres), "gres/gpu:%d", gpus);
		job.name = "size";
		job.script = "#!/bin/sh\nsleep 1\n";
		job.num_tasks = 1;
		job.tres_per_node = gres;
		job.time_limit = minutes;
		job.comment = comment;
		job.std_out = "/dev/null";
		job.work_dir = "/tmp";
		job.environment = environment;
		job.env_size = 1;
		job.user_id = getuid();
		job.group_id = getgid();
		double began = now();
		if (slurm_submit_batch_job(&job, &answer)) {
			fprintf(stderr, "submit: %s\n", slurm_strerror(errno));
			return 1;
		}
		printf("%u %.0f\n", JOB_ID(answer), now() - began);
		fflush(stdout);
		slurm_free_submit_response_response_msg(answer);
	}
	return 0;
}
