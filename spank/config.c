#include <stdio.h>
#include <string.h>

#include "config.h"

static const char classes_key[] = "classes=";

bool pal_config_parse(struct pal_config *config, int ac, char **av, char *sentence, size_t size)
{
	config->classes = NULL;

	for (int i = 0; i < ac; i++) {
		if (strncmp(av[i], classes_key, sizeof(classes_key) - 1) != 0) {
			(void)snprintf(sentence, size, "plugstack.conf: word %d of the arguments is not known (classes=FILE is)", i + 1);
			return (false);
		}
		config->classes = av[i] + sizeof(classes_key) - 1;
		if (config->classes[0] != '/') {
			config->classes = NULL;
			(void)snprintf(sentence, size, "plugstack.conf: classes= needs an absolute path");
			return (false);
		}
	}

	return (true);
}
