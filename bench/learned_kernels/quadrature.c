/* Integrals of quotients of polynomials by Simpson's rule, on intervals that are halved where they need it. */
#include <stddef.h>

enum { DEGREE = 4, DEEPEST = 14 };

typedef struct {
    double above[DEGREE + 1], below[DEGREE + 1];
} Quotient;

typedef struct {
    double sum;
    int calls, deepest;
} Integral;

static double polynomial(const double *coefficients, double x)
{
    double value = coefficients[DEGREE];
    for (int power = DEGREE - 1; power >= 0; power--)
        value = value * x + coefficients[power];
    return value;
}

static double at(const Quotient *quotient, double x, Integral *integral)
{
    integral->calls++;
    return polynomial(quotient->above, x) / polynomial(quotient->below, x);
}

static double simpson(double width, double left, double middle, double right)
{
    return width / 6 * (left + 4 * middle + right);
}

static double adapted(const Quotient *quotient, double a, double b, double left, double middle, double right,
                      double whole, double tolerance, int depth, Integral *integral)
{
    double centre = 0.5 * (a + b);
    double first = at(quotient, 0.5 * (a + centre), integral), second = at(quotient, 0.5 * (centre + b), integral);
    double low = simpson(centre - a, left, first, middle), high = simpson(b - centre, middle, second, right);
    double error = low + high - whole;
    if (depth > integral->deepest)
        integral->deepest = depth;
    if (depth == DEEPEST || (error < 15 * tolerance && error > -15 * tolerance))
        return low + high + error / 15;
    return adapted(quotient, a, centre, left, first, middle, low, tolerance / 2, depth + 1, integral) +
           adapted(quotient, centre, b, middle, second, right, high, tolerance / 2, depth + 1, integral);
}

void kernel(const Quotient *quotients, int n, double a, double b, double tolerance, Integral *integrals)
{
    for (int i = 0; i < n; i++) {
        const Quotient *quotient = quotients + i;
        Integral integral = {0, 0, 0};
        double left = at(quotient, a, &integral), right = at(quotient, b, &integral);
        double middle = at(quotient, 0.5 * (a + b), &integral);
        double whole = simpson(b - a, left, middle, right);
        integral.sum = adapted(quotient, a, b, left, middle, right, whole, tolerance, 0, &integral);
        integrals[i] = integral;
    }
}

#ifdef RACE_DRIVER
#include "race_driver.h"
enum { N = 40 };
static Quotient quotients[N];
static Integral integrals[N];
const char *const race_symbol = "kernel";
unsigned char *const race_output = (unsigned char *)integrals;
const size_t race_output_bytes = sizeof integrals;

void race_prepare(void)
{
    for (int i = 0; i < N; i++)
        for (int power = 0; power <= DEGREE; power++) {
            quotients[i].above[power] = race_uniform() - 0.5;
            quotients[i].below[power] = power % 2 ? 0 : 0.05 + race_uniform() * (power ? 20 : 1);
        }
}

void race_call(void *function, int small)
{
    typedef void integrate(const Quotient *, int, double, double, double, Integral *);
    ((integrate *)function)(quotients, small ? 4 : N, -1, 1.5, small ? 1e-3 : 1e-6, integrals);
}
#endif
