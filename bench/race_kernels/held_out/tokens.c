/* Text: cuts a small language into names, keywords, numbers, strings, comments and operators, and sums each kind up. */
#include <stdint.h>

enum kind { NAME, KEYWORD, NUMBER, STRING, COMMENT, OPERATOR, BRACKET, UNKNOWN, KINDS };

typedef struct {
    const char *at, *end;
    int line, depth, deepest;
} lexer;

static int is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_keyword(const char *text, int length)
{
    static const char keywords[] = "if else while for return int char struct break switch ";
    int same = 0;
    for (const char *at = keywords; *at; at++) {
        if (*at == ' ' && same == length)
            return 1;
        same = *at == ' ' ? 0 : same >= 0 && same < length && text[same] == *at ? same + 1 : -1;
    }
    return 0;
}

static void skip_blanks(lexer *lex)
{
    for (; lex->at < lex->end && (*lex->at == ' ' || *lex->at == '\n' || *lex->at == '\t'); lex->at++)
        lex->line += *lex->at == '\n';
}

static uint32_t number(lexer *lex)
{
    uint32_t value = 0;
    for (; lex->at < lex->end && is_digit(*lex->at); lex->at++)
        value = value * 10 + (uint32_t)(*lex->at - '0');
    return value;
}

static uint32_t string(lexer *lex)
{
    uint32_t escapes = 0;
    for (lex->at++; lex->at < lex->end && *lex->at != '"'; lex->at++)
        if (*lex->at == '\\' && lex->at + 1 < lex->end) {
            escapes++;
            lex->at++;
        }
    lex->at++;
    return escapes;
}

/* The next token's kind; `value` is the number's, the name's hash, or how much there is of it. */
static enum kind next(lexer *lex, uint32_t *value)
{
    const char *begin = lex->at;
    char c = *begin;
    if (is_letter(c)) {
        uint32_t hash = 2166136261u;
        for (; lex->at < lex->end && (is_letter(*lex->at) || is_digit(*lex->at)); lex->at++)
            hash = (hash ^ (unsigned char)*lex->at) * 16777619u;
        *value = hash;
        return is_keyword(begin, (int)(lex->at - begin)) ? KEYWORD : NAME;
    }
    if (is_digit(c)) {
        *value = number(lex);
        return NUMBER;
    }
    if (c == '"') {
        *value = string(lex);
        return STRING;
    }
    if (c == '/' && lex->at + 1 < lex->end && lex->at[1] == '/') {
        while (lex->at < lex->end && *lex->at != '\n')
            lex->at++;
        *value = (uint32_t)(lex->at - begin);
        return COMMENT;
    }
    lex->at++;
    *value = (unsigned char)c;
    switch (c) {
    case '(': case '[': case '{':
        lex->depth++;
        lex->deepest = lex->depth > lex->deepest ? lex->depth : lex->deepest;
        return BRACKET;
    case ')': case ']': case '}':
        lex->depth--;
        return BRACKET;
    case '<': case '>': case '=': case '!': case '+': case '-': case '&': case '|':
        if (lex->at < lex->end && (*lex->at == '=' || *lex->at == c))
            *value = *value * 256 + (unsigned char)*lex->at++;
        return OPERATOR;
    case '*': case '/': case '%': case ';': case ',': case '.': case '?': case ':':
        return OPERATOR;
    default:
        return UNKNOWN;
    }
}

/* facts: a count and a sum of each kind, then lines and the deepest brackets. */
void kernel(const char *text, int length, uint32_t *facts)
{
    lexer lex = {text, text + length, 0, 0, 0};
    for (int i = 0; i < 2 * KINDS; i++)
        facts[i] = 0;
    for (skip_blanks(&lex); lex.at < lex.end; skip_blanks(&lex)) {
        uint32_t value = 0;
        enum kind kind = next(&lex, &value);
        facts[2 * kind]++;
        facts[2 * kind + 1] += value;
    }
    facts[2 * KINDS] = (uint32_t)lex.line;
    facts[2 * KINDS + 1] = (uint32_t)lex.deepest;
}

#ifdef RACE_DRIVER
#include <stdio.h>
#include "race_driver.h"
enum { LENGTH = 16000 };
static char text[LENGTH + 100];
static uint32_t facts[2 * KINDS + 2];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)facts;
const size_t race_output_bytes = sizeof facts;

void race_prepare(void)
{
    static const char *const words[] = {"if (", "else {\n\t", "}\n", "return ", "while (", ") ", "; ", "struct ", " + ",
                                        " <= ", "&&", "->", "[", "]", " == ", "int ", "// as above\n", "@"};
    for (int at = 0; at < LENGTH;) {
        uint64_t draw = race_random();
        unsigned which = draw % 40, more = (unsigned)(draw >> 32);
        if (which < 12)
            at += sprintf(text + at, "%c%c_%x ", 'a' + more % 26, 'a' + more / 26 % 26, more % 300);
        else if (which < 16)
            at += sprintf(text + at, "%u", more % 5000);
        else if (which < 19)
            at += sprintf(text + at, "\"%x\\n%u\"", more % 9999, more % 77);
        else
            at += sprintf(text + at, "%s", words[more % (sizeof words / sizeof *words)]);
    }
}

void race_call(void *function, int small)
{
    ((void (*)(const char *, int, uint32_t *))function)(text, small ? 200 : LENGTH, facts);
}
#endif
