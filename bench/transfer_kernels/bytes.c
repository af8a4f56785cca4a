/* Letters of a text turned to upper case, and its words counted. */
void kernel(const float *x, const unsigned *u, unsigned char *out)
{
    const unsigned char *text = (const unsigned char *)u;
    unsigned words = 0, inside = 0;
    (void)x;
    for (int i = 0; i < 16384; i++) {
        unsigned char c = text[i];
        unsigned letter = (unsigned char)((c | 32) - 'a') < 26;
        words += letter & !inside;
        inside = letter;
        out[i] = letter ? c & ~32 : c;
    }
    *(unsigned *)(out + 16384) = words;
}
