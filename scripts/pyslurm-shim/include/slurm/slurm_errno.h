#include_next <slurm/slurm_errno.h>

#ifndef PAL_SHIM_ERRNO
#define PAL_SHIM_ERRNO
/* Dropped in 26.05; pyslurm only names it in a table. */
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY ((slurm_err_t) 2007)
#endif
