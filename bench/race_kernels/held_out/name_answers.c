/* Protocol: answers of a name service read: names with pointers to earlier ones, records of several types. */
#include <stdint.h>

enum { HEAD = 12, LONGEST = 64, ADDRESS = 1, ALIAS = 5, MAIL = 15, LETTERS = 16 };

typedef struct {
    const uint8_t *bytes;
    int length, at, failed;
} reader;

typedef struct {
    int32_t answers, addresses, aliases, texts, failures;
    uint32_t names, times, sum;
} totals;

static uint32_t number(reader *in, int bytes)
{
    if (in->length - in->at < bytes) {
        in->failed = 1;
        return 0;
    }
    uint32_t value = 0;
    while (bytes-- > 0)
        value = value << 8 | in->bytes[in->at++];
    return value;
}

static uint8_t small_letter(uint8_t letter)
{
    return letter >= 'A' && letter <= 'Z' ? (uint8_t)(letter | 32) : letter;
}

/* A name without regard to case, as a hash; what follows a pointer was read before. */
static uint32_t name(reader *in)
{
    uint32_t hash = 5381;
    int at = in->at, after = -1, parts = 0;
    while (at < in->length && parts++ < LONGEST) {
        uint8_t length = in->bytes[at++];
        if (length == 0) {
            in->at = after < 0 ? at : after;
            return hash;
        }
        if (length >> 6 == 3) {
            if (at >= in->length)
                break;
            after = after < 0 ? at + 1 : after;
            at = (length & 63) << 8 | in->bytes[at];
            continue;
        }
        if (length >> 6 || in->length - at < length)
            break;
        for (int end = at + length; at < end; at++)
            hash = hash * 33 ^ small_letter(in->bytes[at]);
        hash = hash * 33 ^ '.';
    }
    in->failed = 1;
    return 0;
}

static void data(reader *in, uint32_t type, int length, totals *all)
{
    int end = in->at + length;
    if (end > in->length) {
        in->failed = 1;
        return;
    }
    switch (type) {
    case ADDRESS:
        all->addresses++;
        all->sum += number(in, 4);
        break;
    case MAIL:
        all->sum += number(in, 2);
        /* fall through */
    case ALIAS:
        all->aliases++;
        all->names ^= name(in);
        break;
    case LETTERS:
        all->texts++;
        while (in->at < end && !in->failed)
            for (uint32_t left = number(in, 1); left > 0 && in->at < end; left--)
                all->sum = all->sum * 31 + number(in, 1);
        break;
    default:
        break;
    }
    in->at = end;
}

static void message(const uint8_t *bytes, int length, totals *all)
{
    reader in = {bytes, length, 4, 0};
    uint32_t questions = number(&in, 2), answers = number(&in, 2);
    in.at = HEAD;
    for (; questions > 0 && !in.failed; questions--) {
        all->names ^= name(&in);
        number(&in, 4);
    }
    for (; answers > 0 && !in.failed; answers--) {
        all->names += name(&in);
        uint32_t type = number(&in, 2), class = number(&in, 2), lives = number(&in, 4);
        int rest = (int)number(&in, 2);
        if (in.failed)
            break;
        all->answers++;
        all->times = lives > all->times ? lives : all->times;
        if (class == 1)
            data(&in, type, rest, all);
        else
            in.at += rest;
    }
    all->failures += in.failed;
}

void kernel(const uint8_t *bytes, const int32_t *begins, int messages, totals *all)
{
    *all = (totals){0};
    for (int i = 0; i < messages; i++)
        message(bytes + begins[i], begins[i + 1] - begins[i], all);
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { MESSAGES = 100, SMALL = 3 };
static uint8_t bytes[MESSAGES * 600];
static int32_t begins[MESSAGES + 1];
static totals all;
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)&all;
const size_t race_output_bytes = sizeof all;

static uint8_t *put(uint8_t *at, uint32_t value, int width)
{
    while (width-- > 0)
        *at++ = (uint8_t)(value >> 8 * width);
    return at;
}

static uint8_t *put_label(uint8_t *at)
{
    int length = 3 + (int)(race_random() % 9);
    *at++ = (uint8_t)length;
    while (length-- > 0)
        *at++ = (uint8_t)((race_random() % 4 ? 'a' : 'A') + race_random() % 26);
    return at;
}

static uint8_t *put_answer(uint8_t *at)
{
    static const uint16_t types[] = {ADDRESS, ADDRESS, ALIAS, MAIL, LETTERS, 28};
    uint32_t type = types[race_random() % 6];
    if (race_random() % 3 == 0)
        at = put_label(at);
    at = put(at, 0xc000 | HEAD, 2);
    at = put(put(put(at, type, 2), race_random() % 12 ? 1 : 3, 2), (uint32_t)race_random() % 86400, 4);
    uint8_t *size = at, *begin = at += 2;
    if (type == MAIL)
        at = put(at, 10, 2);
    if (type == ALIAS || type == MAIL)
        at = put(put_label(at), 0xc000 | HEAD, 2);
    else
        for (at = type == LETTERS ? put_label(at) : at; at < begin + 4; at++)
            *at = (uint8_t)race_random();
    put(size, (uint32_t)(at - begin), 2);
    return at;
}

void race_prepare(void)
{
    uint8_t *at = bytes;
    for (int i = 0; i < MESSAGES; i++) {
        uint32_t answers = 1 + race_random() % 5;
        at = put(put(put(put(at, (uint32_t)race_random(), 4), 1, 2), answers, 2), 0, 4);
        at = put(put(put_label(put_label(at)), 0, 1), 0x10001, 4);
        while (answers-- > 0)
            at = put_answer(at);
        begins[i + 1] = (int32_t)(at - bytes) - (race_random() % 10 == 0);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const uint8_t *, const int32_t *, int, totals *))function)(bytes, begins, small ? SMALL : MESSAGES, &all);
}
#endif
