/* Two second-order sections of a recursive filter over eight interleaved channels. */
void kernel(const float *x, const unsigned *u, float *out)
{
    float w[2][8][2] = {{{0}}};
    (void)u;
    for (int i = 0; i < 512; i++)
        for (int c = 0; c < 8; c++) {
            float v = x[8 * i + c];
            for (int s = 0; s < 2; s++) {
                float y = 0.2f * v + w[s][c][0];
                w[s][c][0] = 0.4f * v + 0.3f * y + w[s][c][1];
                w[s][c][1] = 0.2f * v - 0.2f * y;
                v = y;
            }
            out[8 * i + c] = v;
        }
}
