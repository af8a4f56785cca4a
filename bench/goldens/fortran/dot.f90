real function dot(n, x, y) bind(c)
  use iso_c_binding
  integer(c_int), value :: n
  real(c_float) :: x(n), y(n)
  dot = sum(x * y)
end function
