/* Points libslurm at a slurmctld that speaks an older version of the protocol, as `squeue -M` does.
 *
 * libslurm writes its own version into every message; an older slurmctld refuses that. With a
 * working_cluster_rec it writes the version found there. The worker calls this through ctypes after it has
 * initialised libslurm, once per version that it tries. */
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>
#include <slurm/slurmdb.h>

extern void *slurm_xcalloc(size_t, size_t, bool, bool, const char *, int, const char *);
extern char *slurm_xstrdup(const char *);

int pal_rpc_target(const char *name, const char *host, unsigned port, unsigned rpc_version)
{
	slurmdb_cluster_rec_t *cluster =
		slurm_xcalloc(1, sizeof(*cluster), true, false, __FILE__, __LINE__, __func__);

	if (!cluster)
		return -1;
	slurmdb_init_cluster_rec(cluster, false);
	cluster->name = slurm_xstrdup(name);
	cluster->control_host = slurm_xstrdup(host);
	cluster->control_port = port;
	cluster->rpc_version = rpc_version;
	cluster->dimensions = 1;
	working_cluster_rec = cluster;
	return 0;
}
