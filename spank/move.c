/* What --pal-move=VALUE accepts. The same stands in job_submit.lua and in Python; spank/tests/vectors.txt binds them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "move.h"

/* Whole seconds from 1 to most, without a sign, a blank or a leading zero, and nothing behind them but last, once. */
static bool is_seconds(const char *text, long most, char last)
{
	long seconds = 0;

	if (text[0] == '0' || text[0] == '\0' || text[0] == last)
		return (false);
	for (; *text != '\0'; text++) {
		if (last != '\0' && text[0] == last && text[1] == '\0')
			break;
		if (*text < '0' || *text > '9')
			return (false);
		seconds = seconds * 10 + (*text - '0');
		if (seconds > most)
			return (false);
	}
	return (true);
}

enum pal_move_fault pal_move_check(const char *value)
{
	const char *signal = value, *seconds;

	if (value == NULL || value[0] == '\0' || strnlen(value, PAL_MOVE_MAX + 1) > PAL_MOVE_MAX)
		return (PAL_MOVE_FORM);
	seconds = strchr(value, '@');
	if (seconds == NULL && strspn(value, "+-0123456789.eE") == strlen(value))
		return (is_seconds(value, PAL_MOVE_COST, '\0') ? PAL_MOVE_OK : PAL_MOVE_COSTS);
	if (seconds == NULL)
		return (PAL_MOVE_FORM);
	if (strncmp(signal, "B:", 2) == 0)
		signal += 2;
	if (strncmp(signal, "SIG", 3) == 0)
		signal += 3;
	if (strncmp(signal, "USR1@", 5) != 0 && strncmp(signal, "USR2@", 5) != 0)
		return (PAL_MOVE_SIGNAL);
	return (is_seconds(seconds + 1, PAL_MOVE_AHEAD, '!') ? PAL_MOVE_OK : PAL_MOVE_SECONDS);
}

void pal_move_explain(const char *value, char *sentence, size_t size)
{
	switch (pal_move_check(value)) {
	case PAL_MOVE_COSTS:
		(void)snprintf(sentence, size, "--pal-move: a restart costs 1 to %d whole seconds, as in --pal-move=120",
			       PAL_MOVE_COST);
		break;
	case PAL_MOVE_SIGNAL:
		(void)snprintf(sentence, size,
			       "--pal-move: the signal to send first is USR1 or USR2, as in --pal-move=USR1@60 or, for the batch "
			       "script itself, B:USR1@60; any other ends or stops jobs that do not expect it");
		break;
	case PAL_MOVE_SECONDS:
		(void)snprintf(sentence, size,
			       "--pal-move: a job has 1 to %d whole seconds to answer the signal, as in --pal-move=USR1@60",
			       PAL_MOVE_AHEAD);
		break;
	case PAL_MOVE_FORM:
		(void)snprintf(sentence, size,
			       "--pal-move takes nothing, the seconds that a restart costs (--pal-move=120), or a signal and the "
			       "seconds that the job has to answer it (--pal-move=USR1@60)");
		break;
	default:
		(void)snprintf(sentence, size, "--pal-move: the value is fine");
		break;
	}
}
