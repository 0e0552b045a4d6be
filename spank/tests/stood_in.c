/* Slurm's own functions, stood in for by ones that look at what the plugin gives them: only what may be printed, only right
 * names. What is not so ends the program. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "app.h"
#include "args.h"

static void demand(bool so, const char *what)
{
	if (so)
		return;
	(void)fprintf(stderr, "not so: %s\n", what);
	abort();
}

static void said(const char *format, va_list values)
{
	char line[1024];
	int size = vsnprintf(line, sizeof(line), format, values);

	va_end(values);
	demand(size > 0 && size < (int)sizeof(line), "a sentence has an end");
	for (int i = 0; i < size; i++)
		demand(isprint((unsigned char)line[i]), "a sentence can be printed");
}

#define SAYS(name)                             \
	void name(const char *format, ...)     \
	{                                      \
		va_list values;                \
		va_start(values, format);      \
		said(format, values);          \
	}
SAYS(slurm_error)
SAYS(slurm_verbose)

spank_err_t spank_option_register(spank_t sp, struct spank_option *option)
{
	(void)sp;
	demand(option->name != NULL && option->cb != NULL, "an option has a name and a callback");
	return (ESPANK_SUCCESS);
}

spank_err_t spank_setenv(spank_t sp, const char *name, const char *value, int overwrite)
{
	size_t at;

	(void)sp;
	(void)overwrite;
	demand(strcmp(name, "PAL_APP") == 0 || strcmp(name, "PAL_CLASS") == 0, "a job gets two variables");
	demand(pal_app_check(value, &at) == PAL_APP_OK, "a variable holds a name");
	return (ESPANK_SUCCESS);
}

spank_err_t spank_unsetenv(spank_t sp, const char *name)
{
	(void)sp;
	demand(strcmp(name, "PAL_CLASS") == 0, "only the class is unset");
	return (ESPANK_SUCCESS);
}
