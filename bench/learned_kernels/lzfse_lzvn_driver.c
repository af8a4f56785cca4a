/* Calls lzfse's decoder of LZVN on a text of words, which lzfse's own encoder encodes beforehand. */
#include "lzvn_encode_base.c"
#undef NO_MATCH
#include "lzvn_decode_base.h"
#include "race_driver.h"

enum { BYTES = 60000, SMALL = 1200 };
static unsigned char text[BYTES], encoded[2][BYTES + 1000], output[BYTES + 64];
static size_t encoded_bytes[2];
static lzvn_encode_entry_type table[LZVN_ENCODE_HASH_VALUES];
const char *const race_symbol = "lzvn_decode";
unsigned char *const race_output = output;
const size_t race_output_bytes = sizeof output;

void race_prepare(void)
{
    unsigned char words[64][12];
    for (int word = 0; word < 64; word++)
        for (int letter = 0; letter < 12; letter++)
            words[word][letter] = (unsigned char)('a' + race_random() % 26);
    for (int at = 0; at < BYTES;) {
        int word = (int)(race_random() % 64), letters = 2 + word % 10;
        for (int letter = 0; letter < letters && at < BYTES; letter++)
            text[at++] = race_random() % 12 ? words[word][letter] : (unsigned char)race_random();
    }
    for (int small = 0; small < 2; small++)
        encoded_bytes[small] = lzvn_encode_buffer(encoded[small], sizeof encoded[small], text, small ? SMALL : BYTES, table);
}

void race_call(void *function, int small)
{
    lzvn_decoder_state state = {0};
    state.src = encoded[small];
    state.src_end = encoded[small] + encoded_bytes[small];
    state.dst = state.dst_begin = output;
    state.dst_end = output + sizeof output;
    ((void (*)(lzvn_decoder_state *))function)(&state);
}
