/* One explicit step of the heat equation on a square grid with fixed edges: a 5-point stencil. */
void stencil(const float *restrict now, float *restrict next, int side, float diffusivity)
{
    for (int row = 1; row < side - 1; row++) {
        for (int col = 1; col < side - 1; col++) {
            const float *at = now + row * side + col;
            float laplacian = at[-side] + at[-1] + at[1] + at[side] - 4.0f * at[0];
            next[row * side + col] = at[0] + diffusivity * laplacian;
        }
    }
}
