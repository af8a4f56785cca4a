/* A list of orders in memory that is never moved: some are cancelled, some inserted, the rest summed and reversed. */
#include <stddef.h>
#include <stdint.h>

typedef struct Order {
    struct Order *next;
    uint32_t price, amount;
    uint8_t kind;
} Order;

typedef struct {
    Order *orders, *unused;
} Pool;

static Order *taken(Pool *pool)
{
    Order *order = pool->unused;
    if (order)
        pool->unused = order->next;
    return order;
}

static void given_back(Pool *pool, Order *order)
{
    order->next = pool->unused;
    pool->unused = order;
}

static int inserted(Pool *pool, Order **head, uint32_t price, uint32_t amount, uint8_t kind)
{
    while (*head && (*head)->price < price)
        head = &(*head)->next;
    if (*head && (*head)->price == price && (*head)->kind == kind) {
        (*head)->amount += amount;
        return 1;
    }
    Order *order = taken(pool);
    if (!order)
        return 0;
    *order = (Order){*head, price, amount, kind};
    *head = order;
    return 1;
}

static uint32_t cancelled(Pool *pool, Order **head, uint32_t price)
{
    uint32_t sum = 0;
    while (*head) {
        Order *order = *head;
        if (order->price % 7 == price % 7 && order->amount < 40) {
            sum += order->amount;
            *head = order->next;
            given_back(pool, order);
        } else {
            head = &order->next;
        }
    }
    return sum;
}

static Order *reversed(Order *head)
{
    Order *before = NULL;
    while (head) {
        Order *next = head->next;
        head->next = before;
        before = head;
        head = next;
    }
    return before;
}

void kernel(const uint32_t *commands, int n, Order *orders, int n_orders, uint64_t *sums)
{
    Pool pool = {orders, NULL};
    Order *head = NULL;
    for (int i = n_orders - 1; i >= 0; i--)
        given_back(&pool, orders + i);
    for (int i = 0; i < 5; i++)
        sums[i] = 0;
    for (int i = 0; i < n; i++) {
        uint32_t price = commands[i] >> 8 & 1023, amount = commands[i] & 255;
        if (commands[i] >> 27 == 0)
            sums[0] += cancelled(&pool, &head, price);
        else if (!inserted(&pool, &head, price, amount, (uint8_t)(commands[i] >> 31)))
            sums[1]++;
    }
    uint64_t place = 1;
    for (const Order *order = head = reversed(head); order; order = order->next, place++) {
        sums[2 + order->kind] += (uint64_t)order->price * order->amount;
        sums[4] += place * order->price;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 700, ORDERS = 100 };
static uint32_t commands[N];
static Order orders[ORDERS];
static uint64_t sums[5];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)sums;
const size_t race_output_bytes = sizeof sums;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        commands[i] = (uint32_t)race_random();
}

void race_call(void *function, int small)
{
    typedef void trade(const uint32_t *, int, Order *, int, uint64_t *);
    ((trade *)function)(commands, small ? 60 : N, orders, small ? 25 : ORDERS, sums);
}
#endif
