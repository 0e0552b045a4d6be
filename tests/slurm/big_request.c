/* One submission whose named field has so many bytes, straight to slurmctld: big_request FIELD BYTES [FILL]
 * sbatch refuses or takes minutes over what a client of one's own may send. */
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	size_t size = strtoul(argv[2], NULL, 10);
	const char *fill = argc > 3 ? argv[3] : "gres/gpu:1,";
	char *text = malloc(size + 1), script[] = "#!/bin/sh\ntrue\n", *env[] = { "PATH=/bin", NULL };
	job_desc_msg_t job;
	submit_response_msg_t *said = NULL;
	struct timespec a, b;
	int rc;

	for (size_t i = 0; i < size; i++)
		text[i] = fill[i % strlen(fill)];
	text[size] = '\0';
	slurm_init(NULL);
	slurm_init_job_desc_msg(&job);
	job.user_id = getuid(), job.group_id = getgid(), job.name = "big", job.work_dir = "/", job.script = script;
	job.environment = env, job.env_size = 1, job.min_nodes = 1, job.tres_per_node = "gres/gpu:1";
	job.std_out = job.std_err = "/dev/null";
	if (!strcmp(argv[1], "tres_per_node"))
		job.tres_per_node = text;
	else if (!strcmp(argv[1], "comment"))
		job.comment = text;
	else if (!strcmp(argv[1], "script"))
		job.script = text;
	else if (strcmp(argv[1], "none"))
		return (64);
	clock_gettime(CLOCK_MONOTONIC, &a);
	rc = slurm_submit_batch_job(&job, &said);
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("%s of %zu bytes: %.3f s, %s\n", argv[1], size, (b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9,
		rc ? slurm_strerror(errno) : "submitted");
	return (0);
}
