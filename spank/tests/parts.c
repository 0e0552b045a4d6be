/* Tries the parts of the plugin that need no Slurm, under ASan and UBSan. `names`: reads vectors.txt from stdin;
 * `self`: what is written below, and random names only to see that no byte is read out of turn. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"
#include "classes.h"
#include "config.h"
#include "keepoff.h"
#include "move.h"

static int failures;

#define EXPECT(condition)                                                                       \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			failures++;                                                             \
			(void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
		}                                                                               \
	} while (0)

static void unescape(char *text)
{
	char *to = text;
	unsigned int byte;

	for (char *from = text; *from != '\0';) {
		if (from[0] == '\\' && from[1] == 'x' && sscanf(from + 2, "%2x", &byte) == 1) {
			*to++ = (char)byte;
			from += 4;
		} else {
			if (from[0] == '\\')
				from++;
			*to++ = *from++;
		}
	}
	*to = '\0';
}

static void try_names(void)
{
	char line[1024], *text, *exact;
	int lines = 0;
	size_t at;
	bool is_move;

	while (fgets(line, sizeof(line), stdin) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		is_move = strncmp(line, "move\t", 5) == 0;
		if (strncmp(line, "name\t", 5) != 0 && !is_move)
			continue;
		lines++;
		text = strchr(line + 5, '\t');
		*text++ = '\0';
		unescape(text);
		exact = strdup(text); /* so that ASan sees a read behind the end */
		if ((is_move ? pal_move_check(exact) == PAL_MOVE_OK : pal_app_check(exact, &at) == PAL_APP_OK) !=
		    (strcmp(line + 5, "yes") == 0)) {
			failures++;
			(void)fprintf(stderr, "line %d of the names: judged otherwise\n", lines);
		}
		free(exact);
	}
	(void)printf("%d names\n", lines);
	if (lines == 0)
		failures++;
}

static void try_sentences(void)
{
	char sentence[256], tiny[8];

	pal_app_explain("", sentence, sizeof(sentence));
	EXPECT(strstr(sentence, "needs a name") != NULL);
	pal_app_explain("ab\x1b[31m", sentence, sizeof(sentence));
	EXPECT(strstr(sentence, "character 3 of the name (0x1b)") != NULL);
	EXPECT(strchr(sentence, '\x1b') == NULL);
	pal_app_explain("ab\x1b", tiny, sizeof(tiny));
	EXPECT(strlen(tiny) == sizeof(tiny) - 1);
	pal_app_explain(NULL, sentence, sizeof(sentence));
	EXPECT(strstr(sentence, "needs a name") != NULL);
}

static const char *about_move(const char *value)
{
	static char sentence[256];

	pal_move_explain(value, sentence, sizeof(sentence));
	return (sentence);
}

static void try_move_sentences(void)
{
	EXPECT(strstr(about_move("0"), "costs 1 to 86400") != NULL);
	EXPECT(strstr(about_move("-1"), "costs 1 to 86400") != NULL);
	EXPECT(strstr(about_move("1e9"), "costs 1 to 86400") != NULL);
	EXPECT(strstr(about_move("KILL@5"), "USR1 or USR2") != NULL);
	EXPECT(strstr(about_move("USR1@0"), "1 to 3600") != NULL);
	EXPECT(strstr(about_move("USR1@\x1b[31m"), "1 to 3600") != NULL && strchr(about_move("USR1@\x1b[31m"), '\x1b') == NULL);
	EXPECT(strstr(about_move(""), "takes nothing") != NULL);
	EXPECT(strstr(about_move(NULL), "takes nothing") != NULL);
	EXPECT(strlen(about_move("KILL@5")) < 255 && strlen(about_move("")) < 255);
}

static void try_config(void)
{
	char *good[] = { "classes=/etc/slurm/pal-classes.conf" };
	char *relative[] = { "classes=classes.conf" };
	char *unknown[] = { "classes=/x", "klasses=/y" };
	char *prefix[] = { "classes" };
	struct pal_config config;
	char sentence[64];

	EXPECT(pal_config_parse(&config, 0, NULL, sentence, sizeof(sentence)) && config.classes == NULL);
	EXPECT(pal_config_parse(&config, 1, good, sentence, sizeof(sentence)));
	EXPECT(strcmp(config.classes, "/etc/slurm/pal-classes.conf") == 0);
	EXPECT(!pal_config_parse(&config, 1, relative, sentence, sizeof(sentence)) && config.classes == NULL);
	EXPECT(!pal_config_parse(&config, 2, unknown, sentence, sizeof(sentence)));
	EXPECT(!pal_config_parse(&config, 1, prefix, sentence, sizeof(sentence)));
}

static void try_classes(void)
{
	char path[] = "/tmp/pal-classes-XXXXXX", pipe_path[64], class_name[PAL_APP_MAX + 1];
	static const char text[] = "# comment\nresnet = A\n bert=B\nbad line\nlong = C D\nevil = $(id)\nresnet = C\nlast = X";
	int fd = mkstemp(path);

	EXPECT(fd >= 0 && write(fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
	(void)close(fd);
	EXPECT(pal_classes_find(path, "bert", class_name) && strcmp(class_name, "B") == 0);
	EXPECT(pal_classes_find(path, "resnet", class_name) && strcmp(class_name, "C") == 0);
	EXPECT(pal_classes_find(path, "last", class_name) && strcmp(class_name, "X") == 0);
	EXPECT(!pal_classes_find(path, "long", class_name));
	EXPECT(!pal_classes_find(path, "evil", class_name));
	EXPECT(!pal_classes_find(path, "gpt", class_name));
	(void)unlink(path);
	EXPECT(!pal_classes_find(path, "bert", class_name));
	EXPECT(!pal_classes_find("/tmp", "bert", class_name));
	EXPECT(!pal_classes_find("/dev/zero", "bert", class_name));
	(void)snprintf(pipe_path, sizeof(pipe_path), "%s.pipe", path);
	EXPECT(mkfifo(pipe_path, 0600) == 0);
	EXPECT(!pal_classes_find(pipe_path, "bert", class_name)); /* must not wait for a writer */
	(void)unlink(pipe_path);
}

/* The words without the array's own last NUL, on the heap so that ASan watches their end. */
static const char *keepoff(const char *words, size_t size, size_t *begin, size_t options)
{
	char *copy = malloc(size);
	const char *reason;

	(void)memcpy(copy, words, size);
	reason = pal_keepoff_in(copy, size, begin, options);
	free(copy);
	return (reason == NULL ? "" : reason);
}

static const char *keepoff_of(const char *words, size_t size, size_t options)
{
	size_t begin = 0;

	return (keepoff(words, size, &begin, options));
}

/* All words are options; the first so many are. */
#define KEEPOFF(words) keepoff_of(words, sizeof(words) - 1, 99)
#define KEEPOFF_OF(words, options) keepoff_of(words, sizeof(words) - 1, options)

/* Of a heterogeneous job getopt parses one component after the other. */
static void try_components(void)
{
	static const char words[] = "srun\0-n1\0a\0--deadline=1\0:\0-I5\0-n1\0b\0-I\0:\0-n1\0-I\0";
	size_t begin = 0, size = sizeof(words) - 1;

	EXPECT(strcmp(keepoff(words, size, &begin, 2), "") == 0 && begin == 4);
	EXPECT(strcmp(keepoff(words, size, &begin, 3), "immediate") == 0 && begin == 9);
	EXPECT(strcmp(keepoff(words, size, &begin, 3), "immediate") == 0 && begin == 9);
}

static void try_keepoff(void)
{
	EXPECT(strcmp(KEEPOFF("sbatch\0--deadline=now+1hour\0job.sh\0"), "deadline") == 0);
	EXPECT(strcmp(KEEPOFF("/usr/bin/sbatch\0--dead\0now\0"), "deadline") == 0);
	EXPECT(strcmp(KEEPOFF("sbatch\0-I\0job.sh\0"), "") == 0);
	EXPECT(strcmp(KEEPOFF("srun\0-I\0hostname\0"), "immediate") == 0);
	EXPECT(strcmp(KEEPOFF("srun\0-I30\0hostname\0"), "immediate") == 0);
	EXPECT(strcmp(KEEPOFF("salloc\0--immediate=5\0"), "immediate") == 0);
	EXPECT(strcmp(KEEPOFF_OF("srun\0python\0train.py\0--img\000640\0", 1), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("srun\0-n\0002\0make\0-I\0", 3), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("srun\0-n\0002\0-I\0make\0", 4), "immediate") == 0);
	EXPECT(strcmp(KEEPOFF_OF("salloc\0--gres=gpu:1\0python\0--deadzone=3\0", 2), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("sbatch\0job.sh\0--deadline=1\0", 1), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("sbatch\0--deadline=1\0job.sh\0", 2), "deadline") == 0);
	EXPECT(strcmp(KEEPOFF_OF("srun\0--\0prog\0--deadline=1\0", 2), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("srun\0-I\0", 0), "") == 0);
	try_components();
	EXPECT(strcmp(KEEPOFF("srun\0--dependency=1\0--delay-boot=1\0"), "") == 0);
	EXPECT(strcmp(KEEPOFF("srun\0--deadline"), "") == 0);
	EXPECT(strcmp(KEEPOFF("\0\0\0"), "") == 0);
	EXPECT(strcmp(KEEPOFF_OF("", 0), "") == 0);
	EXPECT(pal_keepoff() == NULL);
	(void)setenv("SALLOC_IMMEDIATE", "1", 1);
	EXPECT(strcmp(pal_keepoff(), "immediate") == 0);
}

static void try_random(long rounds)
{
	unsigned int state = 1;
	char sentence[256];
	size_t at;

	for (long round = 0; round < rounds; round++) {
		size_t size = (state = state * 1103515245U + 12345U) / 65536 % 96;
		char *name = malloc(size + 1);
		for (size_t i = 0; i < size; i++)
			name[i] = (char)((state = state * 1103515245U + 12345U) / 65536 % 255 + 1);
		name[size] = '\0';
		if (pal_app_check(name, &at) != PAL_APP_OK)
			pal_app_explain(name, sentence, sizeof(sentence));
		if (pal_move_check(name) != PAL_MOVE_OK)
			pal_move_explain(name, sentence, sizeof(sentence));
		at = size % 3;
		(void)pal_keepoff_in(name, size, &at, size % 7);
		free(name);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "names") == 0) {
		try_names();
	} else if (argc == 2 && strcmp(argv[1], "self") == 0) {
		try_sentences();
		try_move_sentences();
		try_config();
		try_classes();
		try_keepoff();
		try_random(20000);
	} else {
		(void)fprintf(stderr, "usage: parts names < vectors.txt | parts self\n");
		return (2);
	}
	return (failures == 0 ? 0 : 1);
}
