/* What --pal-app accepts. The same pattern stands in job_submit.lua and in Python; spank/tests/vectors.txt binds them. */
#include <stdio.h>

#include "app.h"

static bool is_first_byte(unsigned char c)
{
	/* isalnum() would ask the locale. */
	return ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'));
}

static bool is_byte(unsigned char c)
{
	return (is_first_byte(c) || c == '.' || c == '_' || c == '+' || c == '-');
}

enum pal_app_fault pal_app_check(const char *name, size_t *at)
{
	size_t i;

	*at = 0;
	if (name == NULL || name[0] == '\0')
		return (PAL_APP_EMPTY);

	for (i = 0; name[i] != '\0'; i++) {
		*at = i;
		if (i == 0 ? !is_first_byte((unsigned char)name[i]) : !is_byte((unsigned char)name[i]))
			return (PAL_APP_BYTE);
		if (i >= PAL_APP_MAX)
			return (PAL_APP_LONG);
	}

	return (PAL_APP_OK);
}

void pal_app_explain(const char *name, char *sentence, size_t size)
{
	size_t at;

	switch (pal_app_check(name, &at)) {
	case PAL_APP_EMPTY:
		(void)snprintf(sentence, size, "--pal-app needs a name, for example --pal-app=resnet");
		break;
	case PAL_APP_LONG:
		(void)snprintf(sentence, size, "--pal-app: the name is longer than %d characters", PAL_APP_MAX);
		break;
	case PAL_APP_BYTE:
		(void)snprintf(sentence, size,
			       "--pal-app: character %zu of the name (0x%02x) is not allowed; use letters, digits and . _ + -, "
			       "and begin with a letter or a digit",
			       at + 1, (unsigned char)name[at]);
		break;
	default:
		(void)snprintf(sentence, size, "--pal-app: the name is fine");
		break;
	}
}
