#include_next <slurm/slurm.h>

#ifndef PAL_SHIM_SLURM
#define PAL_SHIM_SLURM
#include <string.h>

/* From 26.05 on a job is named by a slurm_step_id_t where a number stood. */
#define PAL_STEP(job)                                                          \
	((slurm_step_id_t) { .sluid = 0,                                       \
			     .job_id = (job),                                  \
			     .step_het_comp = NO_VAL,                          \
			     .step_id = NO_VAL })

#define slurm_load_job(answer, job, flags) slurm_load_job((answer), PAL_STEP(job), (flags))
#define slurm_kill_job(job, signal, flags) slurm_kill_job(PAL_STEP(job), (signal), (flags))
#define slurm_suspend(job) slurm_suspend(PAL_STEP(job))
#define slurm_resume(job) slurm_resume(PAL_STEP(job))
#define slurm_requeue(job, flags) slurm_requeue(PAL_STEP(job), (flags))
#define slurm_notify_job(job, text) slurm_notify_job(PAL_STEP(job), (text))
#define slurm_job_node_ready(job) slurm_job_node_ready(PAL_STEP(job))
#define slurm_get_rem_time(job) slurm_get_rem_time(PAL_STEP(job))
#define slurm_get_end_time(job, when) slurm_get_end_time(PAL_STEP(job), (when))

/* Renamed in 26.05. */
#define slurm_free_ctl_conf(conf) slurm_free_conf(conf)

static inline int pal_pid2jobid(pid_t pid, uint32_t *job)
{
	slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
	int rc = slurm_pid2jobid(pid, &step);

	*job = step.job_id;
	return rc;
}
#define slurm_pid2jobid(pid, job) pal_pid2jobid((pid), (job))

/* From 26.05 on the caller must xfree() the name, and pyslurm free()s it, which aborts the process. */
extern void slurm_xfree(void **item);

static inline char *pal_create_reservation(resv_desc_msg_t *request)
{
	char *name = slurm_create_reservation(request);
	char *copy = name ? strdup(name) : NULL;

	if (name)
		slurm_xfree((void **) &name);
	return copy;
}
#define slurm_create_reservation(request) pal_create_reservation(request)
#endif
