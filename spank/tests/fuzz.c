/* Drawn inputs for every parser of the plugin, under ASan and UBSan: fuzz SECONDS SEED. Vectors and options are changed
 * in a few places each time; a copy of the exact length shows a read behind its end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "classes.h"
#include "config.h"
#include "keepoff.h"
#include "move.h"

#define MOST 512

#define SEED(text) { text, sizeof(text) - 1 }
static const struct {
	const char *text;
	size_t size;
} SEEDS[] = {
	SEED("resnet"), SEED("bert-large_2.0+x"), SEED("600"), SEED("USR1@60"), SEED("B:USR2@3600"), SEED("86400"),
	SEED("classes=/etc/pal/classes"), SEED("a = A\nb=B\n"), SEED("# list\n bert = B \n"),
	SEED("sbatch\0--gpus=4\0--ntasks-per-gpu=2\0-n4\0"), SEED("srun\0-I60\0--reboot\0--test-only\0"), SEED("--\0x"),
	SEED("srun\0--resv-ports=1\0--exclusive\0:\0--gres=gpu:1\0"), SEED("salloc\0--immediate\0--deadline=now\0"),
};
static const char *const WORDS[] = { "=", "@", "B:", "\n", "#", "-", "--", "9999999999", "\x1b[2J", "\xff", "USR", " ", ":" };
#define N(of) (sizeof(of) / sizeof(*(of)))

static unsigned long state;

static unsigned int draw(unsigned int below)
{
	state = state * 6364136223846793005UL + 1442695040888963407UL;
	return (unsigned int)(state >> 33) % below;
}

static size_t change(char *data, size_t size)
{
	const char *word = WORDS[draw(N(WORDS))];
	size_t at = draw((unsigned int)size + 1), length = strlen(word), cut;

	switch (draw(4)) {
	case 0:
		if (size > 0)
			data[at % size] = (char)draw(256);
		return size;
	case 1:
		cut = draw(8);
		if (at + cut > size)
			cut = size - at;
		memmove(data + at, data + at + cut, size - at - cut);
		return size - cut;
	case 2:
		length = length > 1 ? length : draw(200); /* long runs, too */
		if (size + length > MOST)
			return size;
		memmove(data + at + length, data + at, size - at);
		memset(data + at, word[0], length);
		return size + length;
	default:
		if (size + length > MOST)
			return size;
		memmove(data + at + length, data + at, size - at);
		memcpy(data + at, word, length);
		return size + length;
	}
}

static void try_one(const char *data, size_t size, const char *file)
{
	char *text = malloc(size + 1), *bare = malloc(size > 0 ? size : 1), sentence[200], found[PAL_APP_MAX + 1];
	struct pal_config config = { 0 };
	char *words[2];
	size_t at;
	int fd;

	memcpy(text, data, size);
	memcpy(bare, data, size);
	text[size] = '\0';
	if (pal_app_check(text, &at) != PAL_APP_OK)
		pal_app_explain(text, sentence, sizeof(sentence));
	if (pal_move_check(text) != PAL_MOVE_OK)
		pal_move_explain(text, sentence, sizeof(sentence));
	words[0] = words[1] = text;
	(void)pal_config_parse(&config, 2, words, sentence, sizeof(sentence));
	(void)pal_keepoff_in(bare, size);
	if (draw(50) == 0) {
		fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, data, size) != (ssize_t)size)
			exit(2);
		(void)close(fd);
		(void)pal_classes_find(file, "bert", found);
	}
	free(bare);
	free(text);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1.0;
	char file[] = "/tmp/pal-fuzz-XXXXXX", data[MOST + 1];
	clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC);
	unsigned long runs = 0;
	unsigned int seed;
	size_t size;
	int fd = mkstemp(file);

	if (fd < 0)
		return 2;
	(void)close(fd);
	state = argc > 2 ? strtoul(argv[2], NULL, 10) : 1;
	for (; clock() < end; runs++) {
		seed = draw(N(SEEDS));
		size = SEEDS[seed].size;
		memcpy(data, SEEDS[seed].text, size);
		for (unsigned int changes = 1 + draw(6); changes > 0; changes--)
			size = change(data, size);
		try_one(data, size, file);
	}
	(void)unlink(file);
	printf("%lu inputs\n", runs);
	return 0;
}
