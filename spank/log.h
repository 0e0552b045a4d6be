/* The one way this plugin speaks: every line begins with "pal:", so that a user knows whom to ask. */
#ifndef PAL_LOG_H
#define PAL_LOG_H

#include <slurm/spank.h>

#define pal_error(...) slurm_error("pal: " __VA_ARGS__)
#define pal_verbose(...) slurm_verbose("pal: " __VA_ARGS__)

#endif
