/* Lets pyslurm 25.11 build against the headers of Slurm 26.05.
 * pyslurm's setup.py reads the number below as text; the compiler never sees it
 * and gets the real version from the header that comes next on the path. */
#if 0
#define SLURM_VERSION_NUMBER 0x190b00
#endif
#include_next <slurm/slurm_version.h>
