float kahan(const float *x, int n) {
    float sum = 0, lost = 0;
    for (int i = 0; i < n; i++) {
        float y = x[i] - lost, t = sum + y;
        lost = (t - sum) - y;
        sum = t;
    }
    return sum;
}
