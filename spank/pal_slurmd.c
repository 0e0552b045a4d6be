/* In slurmd: nothing but a line in its log when plugstack.conf has a mistake. Never an error, which could drain nodes. */
#include "config.h"
#include "contexts.h"
#include "log.h"

int pal_slurmd_init(spank_t sp, int ac, char **av)
{
	struct pal_config config;
	char sentence[256];

	(void)sp;
	if (!pal_config_parse(&config, ac, av, sentence, sizeof(sentence)))
		pal_error("%s", sentence);
	return (0);
}
