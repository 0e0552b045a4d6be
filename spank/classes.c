/* Reads "app = class" lines. It runs on the compute node with the user's rights, and must never wait there. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "classes.h"

#define LARGEST_FILE (1024 * 1024)

static FILE *open_small_file(const char *path)
{
	struct stat st;
	FILE *file = NULL;
	int fd;

	/* O_NONBLOCK: a pipe in the place of the file must not hold up the job. */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return (NULL);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LARGEST_FILE)
		file = fdopen(fd, "r");
	if (file == NULL)
		(void)close(fd);
	return (file);
}

/* Longer lines than the buffer come in pieces; a piece is no valid line, because a name ends at 64 characters. */
bool pal_classes_find(const char *path, const char *app, char class_name[PAL_APP_MAX + 1])
{
	char line[256], name[PAL_APP_MAX + 2], value[PAL_APP_MAX + 2], rest[2];
	bool found = false;
	size_t at;
	FILE *file;

	file = open_small_file(path);
	if (file == NULL)
		return (false);

	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, " %65[^ \t\r\n=] = %65[^ \t\r\n] %1s", name, value, rest) != 2)
			continue;
		if (strcmp(name, app) != 0 || pal_app_check(value, &at) != PAL_APP_OK)
			continue;
		(void)memcpy(class_name, value, strlen(value) + 1);
		found = true;
	}

	(void)fclose(file);
	return (found);
}
