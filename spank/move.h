/* What --pal-move=VALUE accepts: what a restart costs the job, or what to send it before one. */
#ifndef PAL_MOVE_H
#define PAL_MOVE_H

#include <stddef.h>

#define PAL_MOVE_MAX 32 /* bytes of a value, more than any right one has */
#define PAL_MOVE_COST 86400
#define PAL_MOVE_AHEAD 3600

enum pal_move_fault {
	PAL_MOVE_OK = 0,
	PAL_MOVE_FORM,
	PAL_MOVE_COSTS,
	PAL_MOVE_SIGNAL,
	PAL_MOVE_SECONDS,
};

/* Checks value: SECONDS (1 to PAL_MOVE_COST), or [B:]SIGNAL@SECONDS[!] (USR1 or USR2; 1 to PAL_MOVE_AHEAD). */
enum pal_move_fault pal_move_check(const char *value);

/* Writes a sentence about the fault that quotes nothing the user typed. */
void pal_move_explain(const char *value, char *sentence, size_t size);

#endif
