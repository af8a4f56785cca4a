/* The assignment step of k-means: for every point the index of the nearest centroid, and the inertia of the whole. */
float nearest_centroid(const float *restrict points, const float *restrict centroids, int *restrict nearest,
                       int n_points, int n_centroids, int dimensions)
{
    float inertia = 0.0f;
    for (int p = 0; p < n_points; p++) {
        float least = 3.0e38f;
        for (int c = 0; c < n_centroids; c++) {
            float squared = 0.0f;
            for (int d = 0; d < dimensions; d++) {
                float gap = points[p * dimensions + d] - centroids[c * dimensions + d];
                squared += gap * gap;
            }
            if (squared < least) {
                least = squared;
                nearest[p] = c;
            }
        }
        inertia += least;
    }
    return inertia;
}
