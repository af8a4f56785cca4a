/* in: f32, out: f32: the standard library's algorithms, and an exception */
#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>
template <typename T> static T checked(const std::vector<T> &x, long i) {
  if (i % 97 == 96) throw std::out_of_range("at");
  return x[i];
}
extern "C" long run(const float *x, long n, float *out) {
  std::vector<float> finite;
  std::copy_if(x, x + n, std::back_inserter(finite), [](float v) { return v == v; });
  std::sort(finite.begin(), finite.end());
  std::vector<float> total(finite.size());
  std::partial_sum(finite.begin(), finite.end(), total.begin());
  for (long i = 0; i < (long)total.size(); i++) {
    try {
      out[i] = checked(total, i) - checked(finite, i);
    } catch (const std::out_of_range &) {
      out[i] = -1;
    }
  }
  out[total.size()] = std::accumulate(finite.begin(), finite.end(), 0.0f);
  return (long)total.size() + 1;
}
