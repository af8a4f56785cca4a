/* A softmax with a rational function for the exponential, normalised; the sum before that is returned. */
float rational_softmax(const float *restrict x, float *restrict y, int n)
{
    float top = x[0], sum = 0.0f;
    for (int i = 1; i < n; i++)
        if (x[i] > top)
            top = x[i];
    for (int i = 0; i < n; i++) {
        float gap = x[i] - top;
        y[i] = 1.0f / (1.0f - gap + 0.5f * gap * gap);
        sum += y[i];
    }
    for (int i = 0; i < n; i++)
        y[i] /= sum;
    return sum;
}
