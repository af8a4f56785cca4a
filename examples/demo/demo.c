/* Sobel edge strength: the length of the brightness gradient at every inner pixel. */
#include <math.h>

void edges(const float *restrict image, float *restrict strength, int height, int width)
{
    for (int row = 1; row < height - 1; row++) {
        for (int col = 1; col < width - 1; col++) {
            const float *above = image + (row - 1) * width + col;
            const float *at = above + width;
            const float *below = at + width;
            float gx = (above[1] + 2.0f * at[1] + below[1]) - (above[-1] + 2.0f * at[-1] + below[-1]);
            float gy = (below[-1] + 2.0f * below[0] + below[1]) - (above[-1] + 2.0f * above[0] + above[1]);
            strength[row * width + col] = sqrtf(gx * gx + gy * gy);
        }
    }
}
