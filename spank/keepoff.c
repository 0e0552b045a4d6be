/*
 * job_submit has no field for --deadline on any release, and sees --immediate only when it means one second. A lease
 * would get such a job refused or revoked, so the plugin tells job_submit.lua to keep its hands off. It reads the
 * command line as far as the client's own options go, which getopt's optind says: what follows is the user's program and
 * its arguments. #SBATCH lines are read by job_submit.lua itself.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "keepoff.h"

#define LONGEST_COMMAND_LINE (128 * 1024)

static bool starts_with(const char *word, const char *prefix)
{
	return (strncmp(word, prefix, strlen(prefix)) == 0);
}

static bool is_immediate(const char *word)
{
	if (starts_with(word, "--im")) /* getopt_long takes any abbreviation that is clear */
		return (true);
	return (starts_with(word, "-I") && word[2 + strspn(word + 2, "0123456789")] == '\0');
}

const char *pal_keepoff_in(const char *words, size_t size, size_t *begin, size_t options)
{
	const char *reason = NULL;
	const char *word = words;
	size_t end = *begin + options;
	bool is_sbatch = false;

	for (size_t number = 0; word < words + size; number++) {
		size_t length = strnlen(word, (size_t)(words + size - word));

		if (word + length == words + size)
			break; /* cut off: not a whole word */
		if (number == 0) {
			const char *slash = strrchr(word, '/');
			is_sbatch = strcmp(slash == NULL ? word : slash + 1, "sbatch") == 0;
		} else if (number >= end && strcmp(word, ":") == 0) {
			*begin = number; /* here the next component's words begin */
			break;
		} else if (number > *begin && number < end && reason == NULL) {
			if (starts_with(word, "--dea"))
				reason = "deadline";
			else if (!is_sbatch && is_immediate(word))
				reason = "immediate";
		}
		word += length + 1;
	}

	return (reason);
}

static const char *scan_own_command_line(void)
{
	static size_t begin = 0; /* of a heterogeneous job Slurm asks once for each component, and parses each anew */
	const char *reason = NULL;
	char *words;
	size_t size = 0;
	ssize_t got;
	int fd;

	words = malloc(LONGEST_COMMAND_LINE);
	if (words == NULL)
		return (NULL);
	fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		while (size < LONGEST_COMMAND_LINE && (got = read(fd, words + size, LONGEST_COMMAND_LINE - size)) > 0)
			size += (size_t)got;
		(void)close(fd);
		reason = pal_keepoff_in(words, size, &begin, optind > 0 ? (size_t)optind : 0);
	}
	free(words);
	return (reason);
}

const char *pal_keepoff(void)
{
	if (getenv("SALLOC_IMMEDIATE") != NULL)
		return ("immediate");
	return (scan_own_command_line());
}
