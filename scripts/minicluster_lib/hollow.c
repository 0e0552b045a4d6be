/* One slurmd speaks for many nodes. Loaded into the slurmd of node h1, it registers h2 to hN as well.
 *
 * In: HOLLOW_NODES=N; HOLLOW_GO, a file: while it is there, all are registered again and again (slurmctld may lose one
 * that it asked for its state at the same time). It needs two names that slurmd shows to its plugins: `conf` and
 * `send_registration_msg`. Where the node's name stands in `conf` differs between releases, so it is looked for.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WORDS = 800, FIRST_LENGTH = 3 };

static char **find_name(char **conf)
{
	for (int i = 0; i < WORDS; i++) {
		char seen[FIRST_LENGTH] = "";
		struct iovec here = { seen, FIRST_LENGTH }, there = { conf[i], FIRST_LENGTH };
		if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == FIRST_LENGTH && !memcmp(seen, "h1", FIRST_LENGTH))
			return conf + i;
	}
	return NULL;
}

static void *speak(void *unused)
{
	char ***conf = dlsym(RTLD_DEFAULT, "conf");
	int (*send_registration)(int) = dlsym(RTLD_DEFAULT, "send_registration_msg");
	if (!conf || !send_registration) {
		fprintf(stderr, "hollow: this slurmd does not show what is needed\n");
		return unused;
	}
	while (access(getenv("HOLLOW_GO"), F_OK) || !find_name(*conf))
		usleep(100000);
	char name[16], **field = find_name(*conf), *own = *field;
	int count = atoi(getenv("HOLLOW_NODES"));
	while (!access(getenv("HOLLOW_GO"), F_OK)) {
		for (int i = 2; i <= count; i++) {
			snprintf(name, sizeof(name), "h%d", i);
			*field = name;
			send_registration(0);
		}
		*field = own;
		sleep(2);
	}
	return unused;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	if (!strcmp(program_invocation_short_name, "slurmd"))
		pthread_create(&thread, NULL, speak, NULL);
}
