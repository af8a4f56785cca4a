/* Calls miniupnpc's parsexml on a description of a device, and sums up what it is told of. */
#include "minixml.h"
#include "race_driver.h"

static uint32_t seen[4];
const char *const race_symbol = "parsexml";
unsigned char *const race_output = (unsigned char *)seen;
const size_t race_output_bytes = sizeof seen;

static const char text[] =
    "<?xml version=\"1.0\"?>\n<!-- what a router says of itself -->\n<root xmlns='urn:device-1-0' configId=7>\n"
    "  <u:device kind=\"gateway\" >\n    <friendlyName>The router</friendlyName><serial/>\n"
    "    <text><![CDATA[a < b & c]]></text>\n    <port proto=\"TCP\" lease='3600'>8080</port>\n  </u:device>\n</root>\n";

static uint32_t ends_of(const char *name, int length)
{
    return (uint32_t)length << 16 | (uint32_t)name[0] << 8 | (unsigned char)name[length - 1];
}

static void began(void *data, const char *name, int length)
{
    ((uint32_t *)data)[0] = 31 * ((uint32_t *)data)[0] + ends_of(name, length);
}

static void ended(void *data, const char *name, int length)
{
    ((uint32_t *)data)[1] = 31 * ((uint32_t *)data)[1] + ends_of(name, length);
}

static void told(void *data, const char *words, int length)
{
    ((uint32_t *)data)[2] = 31 * ((uint32_t *)data)[2] + ends_of(words, length);
}

static void described(void *data, const char *name, int length, const char *value, int value_length)
{
    ((uint32_t *)data)[3] = 31 * ((uint32_t *)data)[3] + ends_of(name, length) * 3 + ends_of(value, value_length);
}

void race_prepare(void)
{
}

void race_call(void *function, int small)
{
    (void)small;
    struct xmlparser parser = {.xmlstart = text, .xmlsize = sizeof text - 1, .data = seen, .starteltfunc = began,
                               .endeltfunc = ended, .datafunc = told, .attfunc = described};
    memset(seen, 0, sizeof seen);
    ((void (*)(struct xmlparser *))function)(&parser);
}
