! in: f64, out: f64: whole arrays, parentheses and powers
function run(x, n, out) bind(c) result(written)
  use iso_c_binding
  integer(c_long), value :: n
  real(c_double), intent(in) :: x(n)
  real(c_double), intent(out) :: out(n + 3)
  integer(c_long) :: written
  out(1:n) = (x + 1.0d0) - (x(n:1:-1) - 2.0d0)
  out(n + 1) = sum(x)
  out(n + 2) = maxval(x)
  out(n + 3) = sum(abs(x), mask=x > 0)
  written = n + 3
end function
