/* Prints the tokens of a text, and the text that they give: tokens FOLDER TEXT, with a folder that has a tokenizer.json. */
#include <isogrid.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    iso_tokenizer *tokenizer = NULL;
    int32_t *ids = NULL;
    char *back = NULL;
    size_t count, bytes;
    iso_status status;

    if (argc < 3)
        ISO_TRY(iso_error(ISO_INVALID, "usage: tokens FOLDER TEXT"));
    const char *folder = argv[1], *text = argv[2];
    ISO_TRY(iso_tokenizer_open(folder, &tokenizer));
    ISO_TRY(iso_tokenizer_encode(tokenizer, text, strlen(text), false, &ids, &count));
    ISO_TRY(iso_tokenizer_decode(tokenizer, ids, count, true, &back, &bytes));
    for (size_t i = 0; i < count; i++)
        printf("%d%s", (int)ids[i], i + 1 < count ? " " : "\n");
    printf("%s\n", back);
done:
    if (status != ISO_OK)
        fprintf(stderr, "%s\n", iso_error_message());
    iso_free(ids);
    iso_free(back);
    iso_tokenizer_close(tokenizer);
    return iso_status_exit_code(status);
}
