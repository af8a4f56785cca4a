/* What a small device puts on a wire: JSON cut into tokens, a CRC-32 over bytes, base64 text. Size matters, speed does not. */
#include <stddef.h>
#include <stdint.h>

/* CRC-32 (IEEE 802.3, reflected), bit by bit. */
uint32_t crc32(const uint8_t *data, size_t size)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

/* RFC 4648 with padding. `text` holds 4 * ceil(size / 3) characters, without a terminator; returns their count. */
size_t base64_encode(const uint8_t *data, size_t size, char *text)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *out = text;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)data[i] << 16;
        if (left > 1)
            group |= (uint32_t)data[i + 1] << 8;
        if (left > 2)
            group |= data[i + 2];
        *out++ = alphabet[group >> 18];
        *out++ = alphabet[group >> 12 & 63];
        *out++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
        *out++ = left > 2 ? alphabet[group & 63] : '=';
    }
    return (size_t)(out - text);
}

struct token {
    int32_t kind; /* one of { } [ ] : , and s (string), n (number), t f z (true, false, null) */
    int32_t start, length;
};

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Each returns the end of the token that starts at `at`, or NULL where there is none. */

static const char *string_end(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        if (*at == '"')
            return at + 1;
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at == '\\' && ++at == end)
            return NULL;
    }
    return NULL;
}

static const char *digits_end(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && is_digit(*at))
        at++;
    return at == start ? NULL : at;
}

static const char *number_end(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    if (!(at = digits_end(at, end)))
        return NULL;
    if (at < end && *at == '.' && !(at = digits_end(at + 1, end)))
        return NULL;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        return digits_end(at, end);
    }
    return at;
}

static const char *word_end(const char *at, const char *end, const char *word)
{
    while (*word)
        if (at == end || *at++ != *word++)
            return NULL;
    return at;
}

/* Returns the number of tokens, -1 at the first byte that starts none, -2 when `capacity` is too small. */
int json_tokenize(const char *text, size_t size, struct token *tokens, int capacity)
{
    const char *at = text, *end = text + size;
    int count = 0;
    while (at < end) {
        const char *next;
        char kind = *at;
        if (is_blank(kind)) {
            at++;
            continue;
        }
        switch (kind) {
        case '{': case '}': case '[': case ']': case ':': case ',':
            next = at + 1;
            break;
        case '"':
            kind = 's';
            next = string_end(at, end);
            break;
        case 't':
            next = word_end(at, end, "true");
            break;
        case 'f':
            next = word_end(at, end, "false");
            break;
        case 'n':
            kind = 'z';
            next = word_end(at, end, "null");
            break;
        default:
            kind = 'n';
            next = number_end(at, end);
        }
        if (!next)
            return -1;
        if (count == capacity)
            return -2;
        tokens[count++] = (struct token){kind, (int32_t)(at - text), (int32_t)(next - at)};
        at = next;
    }
    return count;
}
